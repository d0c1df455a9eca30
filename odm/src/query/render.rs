//! Filters as MongoDB reads them.
//!
//! Every value stands behind an operator (`{author: {$eq: …}}`), so no value can be read as one.

use bson::{RawArrayBuf, RawBson, RawDocumentBuf, raw::CStr};

use super::{
    filter::Node,
    variant::{of_elements, without_variants},
};
use crate::{Error, ErrorKind, Result};

/// The filter document of a tree.
pub(super) fn filter(node: &Node) -> Result<RawDocumentBuf> {
    match node {
        Node::All => Ok(RawDocumentBuf::new()),
        Node::Refused(error) => Err(error.clone()),
        Node::Variant(..) => filter(&without_variants(node)),
        Node::Test(path, _, _) if path.is_root() => Err(inexpressible()),
        Node::Test(path, operator, value) => {
            document(path.dotted()?, document(operator, value.clone())?)
        }
        Node::Element(path, condition) => element(path.dotted()?, condition),
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
        list.push(filter(node)?);
    }
    document(operator, list)
}

/// `$elemMatch` has two languages: one for elements that are documents, one for elements that are values.
fn element(path: &str, condition: &Node) -> Result<RawDocumentBuf> {
    if !speaks_of_itself(condition) {
        return document(path, document("$elemMatch", filter(condition)?)?);
    }
    // The language for values has no `$or`: one `$elemMatch` for each way to meet the condition.
    let mut ways = RawArrayBuf::new();
    let mut last = None;
    for way in alternatives(condition, false)? {
        let way = document(path, document("$elemMatch", literals(&way)?)?)?;
        if let Some(way) = last.replace(way) {
            ways.push(way);
        }
    }
    match last {
        Some(only) if ways.is_empty() => Ok(only),
        Some(way) => {
            ways.push(way);
            document("$or", ways)
        }
        None => Err(inexpressible()),
    }
}

/// The condition of a `$pull`, on the elements themselves or on their fields.
pub(crate) fn pull(condition: &Node) -> Result<RawDocumentBuf> {
    let Some(condition) = of_elements(condition) else {
        return Err(inexpressible());
    };
    let condition = &*condition;
    if !speaks_of_itself(condition) {
        return filter(condition);
    }
    match alternatives(condition, false)?.as_slice() {
        [way] => literals(way),
        _ => Err(inexpressible()),
    }
}

/// The tests of one way, each operator once: MongoDB takes a second one of the same name for the first.
fn literals(way: &[Literal<'_>]) -> Result<RawDocumentBuf> {
    let mut tests: Vec<(&str, RawBson)> = Vec::new();
    let mut excluded = RawArrayBuf::new();
    for literal in way {
        match (literal.operator, literal.negated, literal.value) {
            ("$eq", true, value) | ("$ne", false, value) => excluded.push(value.clone()),
            ("$in", true, RawBson::Array(values)) | ("$nin", false, RawBson::Array(values)) => {
                for value in values.into_iter().flatten() {
                    excluded.push(value);
                }
            }
            ("$ne", true, value) => tests.push(("$eq", value.clone())),
            ("$nin", true, value) => tests.push(("$in", value.clone())),
            (operator, true, value) => {
                tests.push(("$not", document(operator, value.clone())?.into()));
            }
            (operator, false, value) => tests.push((operator, value.clone())),
        }
    }
    if !excluded.is_empty() {
        tests.push(("$nin", excluded.into()));
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
        Node::All | Node::Refused(_) | Node::Variant(..) => false,
    }
}

#[derive(Clone, Copy)]
struct Literal<'a> {
    negated: bool,
    operator: &'a str,
    value: &'a RawBson,
}

/// How many ways to meet a condition on one element are tried before it is refused.
const MAX_ALTERNATIVES: usize = 1_000;

/// The disjunctive normal form of a condition on an element that is a value.
fn alternatives(node: &Node, negated: bool) -> Result<Vec<Vec<Literal<'_>>>> {
    match (node, negated) {
        (Node::Test(path, operator, value), _) if path.is_root() => Ok(vec![vec![Literal {
            negated,
            operator,
            value,
        }]]),
        (Node::Not(node), _) => alternatives(node, !negated),
        (Node::And(nodes), false) | (Node::Or(nodes), true) => {
            let mut ways = vec![Vec::new()];
            for node in nodes {
                let mut next = Vec::new();
                for way in alternatives(node, negated)? {
                    for before in &ways {
                        next.push(before.iter().chain(&way).copied().collect());
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
        (Node::Test(..) | Node::Element(..) | Node::Variant(..) | Node::All, _) => {
            Err(inexpressible())
        }
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
