//! Filters as MongoDB reads them.
//!
//! Every value stands behind an operator (`{author: {$eq: …}}`), so no value can be read as one.

use std::borrow::Cow;

use bson::{RawArrayBuf, RawBson, RawDocumentBuf, raw::CStr};

use super::{
    filter::{Node, is_special},
    variant::{of_elements, without_variants},
};
use crate::{Error, ErrorKind, Result};

/// The filter document of a tree.
pub(crate) fn filter(node: &Node) -> Result<RawDocumentBuf> {
    plain(&without_variants(node))
}

/// The filter document of a tree without [`Node::Variant`].
fn plain(node: &Node) -> Result<RawDocumentBuf> {
    match node {
        Node::All => Ok(RawDocumentBuf::new()),
        Node::Refused(error) => Err(error.clone()),
        Node::Variant(..) => filter(node),
        Node::Test(path, _, _) if path.is_root() => Err(inexpressible()),
        Node::Test(path, operator, value) => {
            document(path.dotted()?, document(operator, value.clone())?)
        }
        Node::Element(path, condition) => element(path.dotted()?, condition),
        Node::Expression(expression) => document("$expr", expression.clone()),
        Node::And(nodes) => conjunction(nodes),
        Node::Or(nodes) => list("$or", nodes),
        Node::Not(node) => list("$nor", std::slice::from_ref(node)),
    }
}

/// Tests of different places stand side by side in one document, as a person would write them; else `$and`.
fn conjunction(nodes: &[Node]) -> Result<RawDocumentBuf> {
    let mut paths: Vec<(&str, Vec<(&str, &RawBson)>)> = Vec::new();
    for node in nodes {
        let Node::Test(path, operator, value) = node else {
            return list("$and", nodes);
        };
        if path.is_root() {
            return Err(inexpressible());
        }
        let path = path.dotted()?;
        match paths.iter_mut().find(|(other, _)| *other == path) {
            None => paths.push((path, vec![(operator, value)])),
            Some((_, tests)) if tests.iter().any(|(other, _)| other == operator) => {
                return list("$and", nodes);
            }
            Some((_, tests)) => tests.push((operator, value)),
        }
    }
    let mut all = RawDocumentBuf::new();
    for (path, tests) in paths {
        let mut operators = RawDocumentBuf::new();
        for (operator, value) in tests {
            append(&mut operators, operator, value.clone())?;
        }
        append(&mut all, path, operators)?;
    }
    Ok(all)
}

fn list(operator: &str, nodes: &[Node]) -> Result<RawDocumentBuf> {
    let mut list = RawArrayBuf::new();
    for node in nodes {
        list.push(plain(node)?);
    }
    document(operator, list)
}

/// `$elemMatch` has two languages: one for elements that are documents, one for elements that are values.
fn element(path: &str, condition: &Node) -> Result<RawDocumentBuf> {
    let mut ways = Vec::new();
    for way in ways_of_an_element(condition)? {
        ways.push(document(path, document("$elemMatch", way)?)?);
    }
    match ways.len() {
        1 => ways.pop().ok_or_else(inexpressible),
        _ => {
            let ways: RawArrayBuf = ways.into_iter().collect();
            document("$or", ways)
        }
    }
}

/// What `$elemMatch` takes. The language for values has no `$or`: one for each way to meet the condition.
fn ways_of_an_element(condition: &Node) -> Result<Vec<RawDocumentBuf>> {
    if !speaks_of_itself(condition) {
        return Ok(vec![plain(condition)?]);
    }
    let ways = alternatives(condition, false)?;
    if ways.is_empty() {
        return Err(inexpressible());
    }
    ways.iter().map(|way| literals(way)).collect()
}

/// The condition of a `$pull`, on the elements themselves or on their fields.
pub(crate) fn pull(condition: &Node) -> Result<RawDocumentBuf> {
    let Some(condition) = of_elements(condition) else {
        return Err(inexpressible());
    };
    let condition = &*condition;
    if !speaks_of_itself(condition) {
        return plain(condition);
    }
    match alternatives(condition, false)?.as_slice() {
        [way] => literals(way),
        _ => Err(inexpressible()),
    }
}

/// An array filter: the condition on the elements that an update calls `name`.
pub(crate) fn array_filter(condition: &Node, name: &str) -> Result<RawDocumentBuf> {
    if !has_a_test(condition) {
        return Err(Error::new(
            ErrorKind::Invalid,
            "the condition says nothing of the elements to update: `all()` names every element",
        ));
    }
    filter(&inside(condition, name))
}

/// The condition with its paths seen from outside, where what it speaks about is at `name`.
fn inside(node: &Node, name: &str) -> Node {
    let each = |nodes: &[Node]| nodes.iter().map(|node| inside(node, name)).collect();
    match node {
        Node::Test(path, operator, value) => Node::Test(path.inside(name), operator, value.clone()),
        Node::Variant(path, tag) => Node::Variant(path.inside(name), *tag),
        Node::Element(path, condition) => Node::Element(path.inside(name), condition.clone()),
        Node::And(nodes) => Node::And(each(nodes)),
        Node::Or(nodes) => Node::Or(each(nodes)),
        Node::Not(node) => Node::Not(Box::new(inside(node, name))),
        Node::All | Node::Expression(_) | Node::Refused(_) => node.clone(),
    }
}

fn has_a_test(node: &Node) -> bool {
    match node {
        Node::Test(..) | Node::Variant(..) | Node::Element(..) | Node::Refused(_) => true,
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().any(has_a_test),
        Node::Not(node) => has_a_test(node),
        Node::All | Node::Expression(_) => false,
    }
}

/// Whether MongoDB may take an element that meets this condition for the one that `$` names in an update.
///
/// It never does for what stands under a negation. What stands in an `$or` counts: MongoDB may make one `$in` of it.
pub(crate) fn records_a_position(node: &Node) -> bool {
    fn records(node: &Node, negated: bool) -> bool {
        match node {
            Node::Test(path, operator, value) => {
                let is_negation = matches!(*operator, "$ne" | "$nin")
                    || (*operator == "$exists" && value.as_bool() == Some(false));
                path.meets_array() && is_negation == negated
            }
            Node::Element(..) => !negated,
            Node::And(nodes) | Node::Or(nodes) => nodes.iter().any(|node| records(node, negated)),
            Node::Not(node) => records(node, !negated),
            Node::All | Node::Expression(_) | Node::Refused(_) | Node::Variant(..) => false,
        }
    }
    records(&without_variants(node), false)
}

/// The tests of one way, each operator once: MongoDB takes a second one of the same name for the first.
fn literals(way: &[Literal<'_>]) -> Result<RawDocumentBuf> {
    let mut tests: Vec<(&str, RawBson)> = Vec::new();
    let mut excluded = RawArrayBuf::new();
    let mut elements = Vec::new();
    for Literal {
        negated,
        operator,
        value,
    } in way
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
            (operator, true, value) => tests.push(("$not", document(operator, value)?.into())),
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
                .map(|element| document("$elemMatch", element));
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
                    "MongoDB cannot ask one element for two conditions by `{operator}`: say it by other operators"
                ),
            ));
        }
        append(&mut all, operator, value.clone())?;
    }
    Ok(all)
}

fn speaks_of_itself(node: &Node) -> bool {
    match node {
        Node::Test(path, _, _) => path.is_root(),
        Node::Element(path, _) => path.is_root(),
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().any(speaks_of_itself),
        Node::Not(node) => speaks_of_itself(node),
        Node::All | Node::Expression(_) | Node::Refused(_) | Node::Variant(..) => false,
    }
}

#[derive(Clone)]
struct Literal<'a> {
    negated: bool,
    operator: &'a str,
    value: Cow<'a, RawBson>,
}

/// How many ways to meet a condition on one element are tried before it is refused.
const MAX_ALTERNATIVES: usize = 1_000;

/// The disjunctive normal form of a condition on an element that is a value.
fn alternatives(node: &Node, negated: bool) -> Result<Vec<Vec<Literal<'_>>>> {
    match (node, negated) {
        (Node::Test(path, operator, value), _) if path.is_root() => Ok(vec![vec![Literal {
            negated,
            operator,
            value: Cow::Borrowed(value),
        }]]),
        (Node::Element(path, condition), _) if path.is_root() => {
            let ways = ways_of_an_element(condition)?.into_iter();
            let ways = ways.map(|way| Literal {
                negated,
                operator: "$elemMatch",
                value: Cow::Owned(way.into()),
            });
            Ok(match negated {
                false => ways.map(|way| vec![way]).collect(),
                true => vec![ways.collect()],
            })
        }
        (Node::Not(node), _) => alternatives(node, !negated),
        (Node::And(nodes), false) | (Node::Or(nodes), true) => {
            let mut ways = vec![Vec::new()];
            for node in nodes {
                let mut next = Vec::new();
                for way in alternatives(node, negated)? {
                    for before in &ways {
                        next.push(before.iter().chain(&way).cloned().collect());
                    }
                }
                if next.len() > MAX_ALTERNATIVES {
                    return Err(inexpressible());
                }
                ways = next;
            }
            Ok(ways)
        }
        (Node::Or(nodes), false) | (Node::And(nodes), true) => nodes
            .iter()
            .map(|node| alternatives(node, negated))
            .try_fold(Vec::new(), |mut all, ways| {
                all.extend(ways?);
                Ok(all)
            }),
        (Node::Refused(error), _) => Err(error.clone()),
        (Node::All, false) => Ok(vec![Vec::new()]),
        (
            Node::Test(..)
            | Node::Element(..)
            | Node::Variant(..)
            | Node::Expression(_)
            | Node::All,
            _,
        ) => Err(inexpressible()),
    }
}

fn inexpressible() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "a condition on an element speaks either of the element itself, in at most 1,000 combinations, or of its fields: \
         take the two apart",
    )
}

/// A document of one field.
pub(crate) fn document(name: &str, value: impl Into<RawBson>) -> Result<RawDocumentBuf> {
    let mut document = RawDocumentBuf::new();
    append(&mut document, name, value)?;
    Ok(document)
}

/// The condition that a document has this `_id`.
pub(crate) fn by_id(id: &RawBson) -> Result<RawDocumentBuf> {
    document("_id", document("$eq", id.clone())?)
}

/// Appends a field, refusing a name that BSON cannot hold.
pub(crate) fn append(
    document: &mut RawDocumentBuf,
    name: &str,
    value: impl Into<RawBson>,
) -> Result<()> {
    document.append(
        <&CStr>::try_from(name).map_err(crate::error::encode)?,
        value.into(),
    );
    Ok(())
}
