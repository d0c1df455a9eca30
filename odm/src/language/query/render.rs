//! Rendering of filters to MongoDB's filter documents.
//!
//! Every value follows an operator (`{author: {$eq: …}}`), so MongoDB never reads a value as an operator.

use std::borrow::Cow;

use bson::{RawArrayBuf, RawBson, RawDocumentBuf, raw::CStr, rawdoc};

use super::{
    filter::{FilterNode, is_special},
    related::{Relation, unresolved_error},
    variant::{pull_condition, without_variants},
};
use crate::{Error, ErrorKind, Result};

/// Returns the filter document of a tree.
pub(crate) fn render_filter(node: &FilterNode) -> Result<RawDocumentBuf> {
    render_plain(&without_variants(node))
}

/// Returns the filter document of a tree without [`FilterNode::Variant`].
fn render_plain(node: &FilterNode) -> Result<RawDocumentBuf> {
    match node {
        FilterNode::All => Ok(RawDocumentBuf::new()),
        FilterNode::Invalid(error) => Err(error.clone()),
        FilterNode::Variant(..) => render_filter(node),
        FilterNode::Test(path, _, _) if path.is_root() => Err(inexpressible_error()),
        FilterNode::Test(path, operator, value) => single_field_document(
            path.dotted()?,
            single_field_document(operator, value.clone())?,
        ),
        FilterNode::Element(path, condition) => render_element(path.dotted()?, condition),
        FilterNode::Expression(expression) => single_field_document("$expr", expression.clone()),
        FilterNode::Related(related) => Err(unresolved_error(related)),
        FilterNode::And(nodes) => render_and(nodes),
        FilterNode::Or(nodes) => render_list("$or", nodes),
        FilterNode::Not(node) => render_list("$nor", std::slice::from_ref(node)),
    }
}

/// Renders a conjunction. Tests of different paths share one document, as in hand-written filters; otherwise `$and` is needed.
fn render_and(nodes: &[FilterNode]) -> Result<RawDocumentBuf> {
    let mut paths: Vec<(&str, Vec<(&str, &RawBson)>)> = Vec::new();
    for node in nodes {
        let FilterNode::Test(path, operator, value) = node else {
            return render_list("$and", nodes);
        };
        if path.is_root() {
            return Err(inexpressible_error());
        }
        let path = path.dotted()?;
        match paths.iter_mut().find(|(other, _)| *other == path) {
            None => paths.push((path, vec![(operator, value)])),
            Some((_, tests)) if tests.iter().any(|(other, _)| other == operator) => {
                return render_list("$and", nodes);
            }
            Some((_, tests)) => tests.push((operator, value)),
        }
    }
    let mut all = RawDocumentBuf::new();
    for (path, tests) in paths {
        let mut operators = RawDocumentBuf::new();
        for (operator, value) in tests {
            append_field(&mut operators, operator, value.clone())?;
        }
        append_field(&mut all, path, operators)?;
    }
    Ok(all)
}

fn render_list(operator: &str, nodes: &[FilterNode]) -> Result<RawDocumentBuf> {
    let mut list = RawArrayBuf::new();
    for node in nodes {
        list.push(render_plain(node)?);
    }
    single_field_document(operator, list)
}

/// Renders a condition on one element. `$elemMatch` has different syntax for elements that are documents and for elements that
/// are values.
fn render_element(path: &str, condition: &FilterNode) -> Result<RawDocumentBuf> {
    let mut alternatives = Vec::new();
    for alternative in element_alternatives(condition)? {
        alternatives.push(single_field_document(
            path,
            single_field_document("$elemMatch", alternative)?,
        )?);
    }
    match alternatives.len() {
        1 => alternatives.pop().ok_or_else(inexpressible_error),
        _ => {
            let alternatives: RawArrayBuf = alternatives.into_iter().collect();
            single_field_document("$or", alternatives)
        }
    }
}

/// Returns the operands of `$elemMatch`. The syntax for values has no `$or`, so each alternative needs an `$elemMatch` of its
/// own.
fn element_alternatives(condition: &FilterNode) -> Result<Vec<RawDocumentBuf>> {
    if !tests_whole_element(condition) {
        return Ok(vec![render_plain(condition)?]);
    }
    let combinations = disjunctive_form(condition, false)?;
    if combinations.is_empty() {
        return Err(inexpressible_error());
    }
    combinations
        .iter()
        .map(|combination| merge_tests(combination))
        .collect()
}

/// Renders the condition of a `$pull`, on whole elements or on their fields.
pub(crate) fn render_pull(condition: &FilterNode) -> Result<RawDocumentBuf> {
    let Some(condition) = pull_condition(condition) else {
        return Err(inexpressible_error());
    };
    let condition = &*condition;
    if !tests_whole_element(condition) {
        return render_plain(condition);
    }
    match disjunctive_form(condition, false)?.as_slice() {
        [combination] => merge_tests(combination),
        _ => Err(inexpressible_error()),
    }
}

/// Renders an array filter: the condition on the elements that an update calls `name`.
pub(crate) fn render_array_filter(condition: &FilterNode, name: &str) -> Result<RawDocumentBuf> {
    if !restricts_elements(condition) {
        return Err(Error::new(
            ErrorKind::Invalid,
            "the condition does not restrict the elements to update: `all()` selects every element",
        ));
    }
    render_filter(&prefix_paths(condition, name))
}

/// Returns the condition with `name` before every path.
fn prefix_paths(node: &FilterNode, name: &str) -> FilterNode {
    let each = |nodes: &[FilterNode]| nodes.iter().map(|node| prefix_paths(node, name)).collect();
    match node {
        FilterNode::Test(path, operator, value) => {
            FilterNode::Test(path.with_prefix(name), operator, value.clone())
        }
        FilterNode::Variant(path, tag) => FilterNode::Variant(path.with_prefix(name), *tag),
        FilterNode::Element(path, condition) => {
            FilterNode::Element(path.with_prefix(name), condition.clone())
        }
        FilterNode::And(nodes) => FilterNode::And(each(nodes)),
        FilterNode::Or(nodes) => FilterNode::Or(each(nodes)),
        FilterNode::Not(node) => FilterNode::Not(Box::new(prefix_paths(node, name))),
        // Rendering returns the error of a condition on related documents.
        FilterNode::All
        | FilterNode::Expression(_)
        | FilterNode::Related(_)
        | FilterNode::Invalid(_) => node.clone(),
    }
}

fn restricts_elements(node: &FilterNode) -> bool {
    match node {
        FilterNode::Test(..)
        | FilterNode::Variant(..)
        | FilterNode::Element(..)
        | FilterNode::Related(_)
        | FilterNode::Invalid(_) => true,
        FilterNode::And(nodes) | FilterNode::Or(nodes) => nodes.iter().any(restricts_elements),
        FilterNode::Not(node) => restricts_elements(node),
        FilterNode::All | FilterNode::Expression(_) => false,
    }
}

/// Returns whether an element that meets the condition may become MongoDB's `$` in an update.
///
/// Tests under a negation never set `$`. Tests in an `$or` count, because MongoDB may rewrite the `$or` to an `$in`.
pub(crate) fn may_set_position(node: &FilterNode) -> bool {
    fn sets_position(node: &FilterNode, negated: bool) -> bool {
        match node {
            FilterNode::Test(path, operator, value) => {
                let is_negation = matches!(*operator, "$ne" | "$nin")
                    || (*operator == "$exists" && value.as_bool() == Some(false));
                path.meets_array() && is_negation == negated
            }
            FilterNode::Element(..) => !negated,
            FilterNode::Related(related) => {
                related.relation == Relation::Targets && related.reference.meets_array() && !negated
            }
            FilterNode::And(nodes) | FilterNode::Or(nodes) => {
                nodes.iter().any(|node| sets_position(node, negated))
            }
            FilterNode::Not(node) => sets_position(node, !negated),
            FilterNode::All
            | FilterNode::Expression(_)
            | FilterNode::Invalid(_)
            | FilterNode::Variant(..) => false,
        }
    }
    sets_position(&without_variants(node), false)
}

/// Merges the tests of one combination so that each operator occurs once: MongoDB would ignore a second test with the same
/// operator.
fn merge_tests(combination: &[ElementTest<'_>]) -> Result<RawDocumentBuf> {
    let mut tests: Vec<(&str, RawBson)> = Vec::new();
    let mut excluded = RawArrayBuf::new();
    let mut elements = Vec::new();
    for ElementTest {
        negated,
        operator,
        value,
    } in combination
    {
        let value = value.clone().into_owned();
        match (*operator, *negated, value) {
            ("$eq", true, value) | ("$ne", false, value) if !is_special(&value) => {
                excluded.push(value);
            }
            ("$in", true, RawBson::Array(values)) | ("$nin", false, RawBson::Array(values)) => {
                for value in values.into_iter().flatten() {
                    excluded.push(value);
                }
            }
            ("$ne", true, value) => tests.push(("$eq", value)),
            ("$nin", true, value) => tests.push(("$in", value)),
            ("$elemMatch", false, value) => elements.push(value),
            (operator, true, value) => {
                tests.push(("$not", single_field_document(operator, value)?.into()))
            }
            (operator, false, value) => tests.push((operator, value)),
        }
    }
    if !excluded.is_empty() {
        tests.push(("$nin", excluded.into()));
    }
    match elements.len() {
        0 => {}
        1 => tests.extend(elements.pop().map(|only| ("$elemMatch", only))),
        _ => {
            let each = elements
                .into_iter()
                .map(|element| single_field_document("$elemMatch", element));
            let all = each.collect::<Result<Vec<_>>>()?;
            tests.push(("$all", all.into_iter().collect::<RawArrayBuf>().into()));
        }
    }
    let mut all = RawDocumentBuf::new();
    for (at, (operator, value)) in tests.iter().enumerate() {
        if tests.iter().take(at).any(|(before, _)| before == operator) {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "MongoDB cannot test one element by two conditions with `{operator}`: use other operators"
                ),
            ));
        }
        append_field(&mut all, operator, value.clone())?;
    }
    Ok(all)
}

fn tests_whole_element(node: &FilterNode) -> bool {
    match node {
        FilterNode::Test(path, _, _) => path.is_root(),
        FilterNode::Element(path, _) => path.is_root(),
        FilterNode::And(nodes) | FilterNode::Or(nodes) => nodes.iter().any(tests_whole_element),
        FilterNode::Not(node) => tests_whole_element(node),
        FilterNode::All
        | FilterNode::Expression(_)
        | FilterNode::Related(_)
        | FilterNode::Invalid(_)
        | FilterNode::Variant(..) => false,
    }
}

#[derive(Clone)]
struct ElementTest<'a> {
    negated: bool,
    operator: &'a str,
    value: Cow<'a, RawBson>,
}

/// The maximum number of combinations of a condition on one element.
const MAX_CONDITION_COMBINATIONS: usize = 1_000;

/// Returns the disjunctive normal form of a condition on an element that is a value.
fn disjunctive_form(node: &FilterNode, negated: bool) -> Result<Vec<Vec<ElementTest<'_>>>> {
    match (node, negated) {
        (FilterNode::Test(path, operator, value), _) if path.is_root() => {
            Ok(vec![vec![ElementTest {
                negated,
                operator,
                value: Cow::Borrowed(value),
            }]])
        }
        (FilterNode::Element(path, condition), _) if path.is_root() => {
            let alternatives = element_alternatives(condition)?.into_iter();
            let alternatives = alternatives.map(|alternative| ElementTest {
                negated,
                operator: "$elemMatch",
                value: Cow::Owned(alternative.into()),
            });
            Ok(match negated {
                false => alternatives.map(|alternative| vec![alternative]).collect(),
                true => vec![alternatives.collect()],
            })
        }
        (FilterNode::Not(node), _) => disjunctive_form(node, !negated),
        (FilterNode::And(nodes), false) | (FilterNode::Or(nodes), true) => {
            let mut alternatives = vec![Vec::new()];
            for node in nodes {
                let mut next = Vec::new();
                for alternative in disjunctive_form(node, negated)? {
                    for before in &alternatives {
                        next.push(before.iter().chain(&alternative).cloned().collect());
                    }
                }
                if next.len() > MAX_CONDITION_COMBINATIONS {
                    return Err(inexpressible_error());
                }
                alternatives = next;
            }
            Ok(alternatives)
        }
        (FilterNode::Or(nodes), false) | (FilterNode::And(nodes), true) => nodes
            .iter()
            .map(|node| disjunctive_form(node, negated))
            .try_fold(Vec::new(), |mut all, alternatives| {
                all.extend(alternatives?);
                Ok(all)
            }),
        (FilterNode::Invalid(error), _) => Err(error.clone()),
        (FilterNode::Related(related), _) => Err(unresolved_error(related)),
        (FilterNode::All, false) => Ok(vec![Vec::new()]),
        (
            FilterNode::Test(..)
            | FilterNode::Element(..)
            | FilterNode::Variant(..)
            | FilterNode::Expression(_)
            | FilterNode::All,
            _,
        ) => Err(inexpressible_error()),
    }
}

fn inexpressible_error() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "a condition on an element must concern either the element itself, in at most 1,000 combinations, or its fields: split \
         the condition",
    )
}

/// Returns a document with one field.
pub(crate) fn single_field_document(
    name: &str,
    value: impl Into<RawBson>,
) -> Result<RawDocumentBuf> {
    let mut document = RawDocumentBuf::new();
    append_field(&mut document, name, value)?;
    Ok(document)
}

/// Returns the stage of a limit. MongoDB refuses `$limit: 0`, so a limit of 0 becomes a `$match` that no document meets.
pub(crate) fn limit_stage(limit: Option<u64>) -> Result<Option<RawDocumentBuf>> {
    let Some(limit) = limit else {
        return Ok(None);
    };
    if limit == 0 {
        let filter =
            single_field_document("_id", single_field_document("$in", RawArrayBuf::new())?)?;
        return single_field_document("$match", filter).map(Some);
    }
    single_field_document("$limit", i64::try_from(limit).unwrap_or(i64::MAX)).map(Some)
}

/// Returns the projection of some fields.
pub(crate) fn projection_of<'f>(
    fields: impl IntoIterator<Item = &'f str>,
) -> Result<RawDocumentBuf> {
    let mut projection = RawDocumentBuf::new();
    for field in fields {
        append_field(&mut projection, field, 1)?;
    }
    Ok(projection)
}

/// Returns the condition that a document has this `_id`.
pub(crate) fn id_filter(id: &RawBson) -> RawDocumentBuf {
    rawdoc! { "_id": equal_to(id.clone()) }
}

/// Returns the condition that a field equals a value.
pub(crate) fn equal_to(value: impl Into<RawBson>) -> RawDocumentBuf {
    rawdoc! { "$eq": value.into() }
}

/// Returns the condition that a field exists.
pub(crate) fn field_present() -> RawDocumentBuf {
    rawdoc! { "$exists": true }
}

/// Returns the condition that a field does not exist.
pub(crate) fn field_missing() -> RawDocumentBuf {
    rawdoc! { "$exists": false }
}

/// Appends a field. Returns an error for a name that BSON cannot hold.
pub(crate) fn append_field(
    document: &mut RawDocumentBuf,
    name: &str,
    value: impl Into<RawBson>,
) -> Result<()> {
    document.append(
        <&CStr>::try_from(name).map_err(crate::error::from_bson)?,
        value.into(),
    );
    Ok(())
}
