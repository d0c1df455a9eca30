//! `$addToSet`, with `$each`: adds to an array what it does not hold.
//!
//! ```text
//! { "$addToSet": { "tags": { "$each": ["red", "round"] } } }
//! in: { "tags": ["red"] }
//! out: { "tags": ["red", "round"] }
//!
//! { "$addToSet": { "tags": ["red"] } }
//! in: {}
//! out: { "tags": [["red"]] }
//! ```

use std::collections::HashSet;

use bson::{RawArrayBuf, RawBson, RawBsonRef};

use super::node::Node;
use super::operation::{Operations, Operator};
use crate::{Error, Result, value};

/// The values to add, each once: sorted, with their places among those that were given.
#[derive(Debug)]
struct AddToSet(Vec<(RawBson, usize)>);

pub(super) fn parse(
    operations: &mut Operations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    let values = each(path, operand)?.into_iter();
    let mut values: Vec<_> = values.map(RawBson::from).zip(0..).collect();
    // The sort is stable: of equal values the first stays.
    values.sort_by(|(a, _), (b, _)| value::compare(a.as_raw_bson_ref(), b.as_raw_bson_ref()));
    values.dedup_by(|(a, _), (b, _)| value::equal(a.as_raw_bson_ref(), b.as_raw_bson_ref()));
    operations.change(path, AddToSet(values))
}

fn each<'a>(path: &str, operand: RawBsonRef<'a>) -> Result<Vec<RawBsonRef<'a>>> {
    let fields = operand
        .as_document()
        .into_iter()
        .flat_map(value::fields)
        .collect::<Vec<_>>();
    match fields.as_slice() {
        [("$each", RawBsonRef::Array(array))] => Ok(value::items(array).collect()),
        [("$each", _)] => Err(Error::server(
            14,
            format!("$each in $addToSet of '{path}' takes an array"),
        )),
        [("$each", _), ..] => Err(Error::bad_value(format!(
            "$addToSet of '{path}' takes nothing beside $each"
        ))),
        _ => Ok(vec![operand]),
    }
}

impl AddToSet {
    /// The values that `held` does not have, in the order in which they were given.
    fn missing_from(&self, held: impl Fn(usize) -> bool) -> impl Iterator<Item = &RawBson> {
        let values = self.0.iter().enumerate();
        let mut missing: Vec<_> = values.filter(|(at, _)| !held(*at)).collect();
        missing.sort_by_key(|(_, (_, place))| *place);
        missing.into_iter().map(|(_, (value, _))| value)
    }
}

impl Operator for AddToSet {
    fn existing(&self, path: &str, value: &mut Node<'_>) -> Result<bool> {
        let kind = value.with(value::type_name);
        let items = value.as_array().ok_or_else(|| {
            let message = format!("$addToSet needs an array at '{path}', which is of type {kind}");
            Error::bad_value(message)
        })?;
        let place = |item: RawBsonRef<'_>| {
            let compare = |(value, _): &(RawBson, _)| value::compare(value.as_raw_bson_ref(), item);
            self.0.binary_search_by(compare).ok()
        };
        let held: HashSet<_> = items.iter().filter_map(|item| item.with(place)).collect();
        let before = items.len();
        let missing = self.missing_from(|at| held.contains(&at));
        items.extend(missing.cloned().map(Node::New));
        Ok(items.len() > before)
    }

    fn missing(&self) -> Result<Option<RawBson>> {
        let values = self.missing_from(|_| false);
        let array: RawArrayBuf = values.map(RawBson::as_raw_bson_ref).collect();
        Ok(Some(RawBson::Array(array)))
    }

    fn size(&self) -> usize {
        let values = self.0.iter();
        values
            .map(|(value, _)| value::size(value.as_raw_bson_ref()))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::updated;
    use bson::rawdoc;

    #[test]
    fn equal_values_are_added_once() {
        let update = rawdoc! { "$addToSet": { "a": { "$each": [1.0, 3, 3] }, "b": 1, "c": [1] } };
        let changed = updated(rawdoc! { "a": [1, 1], "c": [1] }, update).unwrap();
        assert_eq!(changed, rawdoc! { "a": [1, 1, 3], "c": [1, [1]], "b": [1] });
        let update = rawdoc! { "$addToSet": { "a": { "$each": [3, 2, 1.0, 1] }, "b": { "$each": [2, 1, 2.0] } } };
        let changed = updated(rawdoc! { "a": [2] }, update).unwrap();
        assert_eq!(changed, rawdoc! { "a": [2, 3, 1.0], "b": [2, 1] });
    }
}
