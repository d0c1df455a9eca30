//! Positions in a sort order, where a page continues.

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument};

use super::{Brackets, Sort, filter::FilterNode};
use crate::{Error, ErrorKind, Result, language::field::Path};

/// Returns the sort key of a document: its values of the sorted fields.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) for an array, or a type that a sort orders but that no condition can compare.
pub(crate) fn sort_key<M>(document: &RawDocument, sorts: &[Sort<M>]) -> Result<Vec<RawBson>> {
    let keys = sorts.iter().map(|sort| {
        let path = sort.path().dotted()?;
        let value = value_at(document, path).unwrap_or(RawBsonRef::Null);
        match Brackets::of_value(value) {
            Some(Brackets::NULL) => Ok(RawBson::Null),
            Some(_) => Ok(RawBson::from(value)),
            None => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "a page cannot start after a value of the type {:?}: sort by a field with a single value",
                    value.element_type()
                ),
            )
            .with_path(path)),
        }
    });
    keys.collect()
}

/// Returns the condition for documents that sort after this key, or at the key too with `including`. Returns `None` if the key
/// does not fit the sorts.
pub(crate) fn after_position<M>(
    key: &[RawBson],
    sorts: &[Sort<M>],
    including: bool,
) -> Option<FilterNode> {
    if key.len() != sorts.len() {
        return None;
    }
    let mut alternatives = Vec::new();
    let mut equal: Vec<FilterNode> = Vec::new();
    for (value, sort) in key.iter().zip(sorts) {
        let own_bracket = Brackets::of_value(value.as_raw_bson_ref())?;
        // A document that does not fit its model may have a value of any type.
        let brackets = sort.brackets().or(own_bracket);
        for condition in
            brackets.conditions_after(sort.path(), sort.direction(), own_bracket, value)
        {
            alternatives.push(all_of(equal.iter().cloned().chain([condition]).collect()));
        }
        equal.push(FilterNode::Test(sort.path().clone(), "$eq", value.clone()));
    }
    if including {
        alternatives.push(all_of(equal));
    }
    Some(match alternatives.len() {
        0 => FilterNode::Test(Path::ROOT.subfield("_id"), "$in", RawArrayBuf::new().into()),
        1 => alternatives.remove(0),
        _ => FilterNode::Or(alternatives),
    })
}

/// Returns the fields of the sort key, which a projection must include.
pub(crate) fn sort_fields<M>(sorts: &[Sort<M>]) -> Result<Vec<String>> {
    let paths = sorts.iter().map(|sort| {
        let path = sort.path().dotted()?;
        // A projection cannot read a single element of an array.
        let mut steps = path.split('.');
        let first = steps.next().unwrap_or_default().to_owned();
        Ok(steps
            .take_while(|step| step.parse::<usize>().is_err())
            .fold(first, |path, step| path + "." + step))
    });
    paths.collect()
}

fn all_of(mut nodes: Vec<FilterNode>) -> FilterNode {
    match nodes.len() {
        1 => nodes.remove(0),
        _ => FilterNode::And(nodes),
    }
}

pub(super) fn value_at<'d>(document: &'d RawDocument, path: &str) -> Option<RawBsonRef<'d>> {
    let mut value = RawBsonRef::Document(document);
    for step in path.split('.') {
        value = match value {
            RawBsonRef::Document(document) => document.get(step).ok()??,
            RawBsonRef::Array(array) => array.get(step.parse().ok()?).ok()??,
            _ => return None,
        };
    }
    Some(value)
}
