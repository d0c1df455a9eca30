//! `$addToSet`, with `$each`: adds values to an array unless the array contains them.
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

use super::node::UpdateNode;
use super::operation::{UpdateOperations, UpdateOperator};
use crate::collation::ValueOrder;
use crate::{Error, Result, value};

#[derive(Debug)]
struct AddToSet {
    /// The distinct values to add, sorted by value, each with its index in the operand.
    values: Vec<(RawBson, usize)>,
    order: ValueOrder,
}

pub(super) fn parse_add_to_set(
    operations: &mut UpdateOperations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    let values = values_to_add(path, operand)?.into_iter();
    let mut values: Vec<_> = values.map(RawBson::from).zip(0..).collect();
    // The sort is stable: of equal values, the first stays.
    let order = operations.order().clone();
    values.sort_by(|(a, _), (b, _)| order.compare(a.as_raw_bson_ref(), b.as_raw_bson_ref()));
    values.dedup_by(|(a, _), (b, _)| order.equal(a.as_raw_bson_ref(), b.as_raw_bson_ref()));
    operations.push_change(path, AddToSet { values, order })
}

fn values_to_add<'a>(path: &str, operand: RawBsonRef<'a>) -> Result<Vec<RawBsonRef<'a>>> {
    let fields = operand
        .as_document()
        .into_iter()
        .flat_map(value::fields)
        .collect::<Vec<_>>();
    match fields.as_slice() {
        [("$each", RawBsonRef::Array(array))] => Ok(value::items(array).collect()),
        [("$each", _)] => Err(Error::with_server_code(
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
    /// Returns the values that are not held, in the order of the operand.
    fn missing_from(&self, is_present: impl Fn(usize) -> bool) -> impl Iterator<Item = &RawBson> {
        let values = self.values.iter().enumerate();
        let mut missing: Vec<_> = values.filter(|(at, _)| !is_present(*at)).collect();
        missing.sort_by_key(|(_, (_, place))| *place);
        missing.into_iter().map(|(_, (value, _))| value)
    }
}

impl UpdateOperator for AddToSet {
    fn change_existing(&self, path: &str, value: &mut UpdateNode<'_>) -> Result<bool> {
        let kind = value.with_value(value::type_name);
        let items = value.as_array().ok_or_else(|| {
            let message = format!("$addToSet needs an array at '{path}', which is of type {kind}");
            Error::bad_value(message)
        })?;
        let place = |item: RawBsonRef<'_>| {
            let compare =
                |(value, _): &(RawBson, _)| self.order.compare(value.as_raw_bson_ref(), item);
            self.values.binary_search_by(compare).ok()
        };
        let present: HashSet<_> = items
            .iter()
            .filter_map(|item| item.with_value(place))
            .collect();
        let before = items.len();
        let missing = self.missing_from(|at| present.contains(&at));
        items.extend(missing.cloned().map(UpdateNode::New));
        Ok(items.len() > before)
    }

    fn initial_value(&self) -> Result<Option<RawBson>> {
        let values = self.missing_from(|_| false);
        let array: RawArrayBuf = values.map(RawBson::as_raw_bson_ref).collect();
        Ok(Some(RawBson::Array(array)))
    }

    fn added_bytes(&self) -> usize {
        let values = self.values.iter();
        values
            .map(|(value, _)| value::approximate_bytes(value.as_raw_bson_ref()))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::apply_update;
    use bson::rawdoc;

    #[test]
    fn equal_values_are_added_once() {
        let update = rawdoc! { "$addToSet": { "a": { "$each": [1.0, 3, 3] }, "b": 1, "c": [1] } };
        let changed = apply_update(rawdoc! { "a": [1, 1], "c": [1] }, update).unwrap();
        assert_eq!(changed, rawdoc! { "a": [1, 1, 3], "c": [1, [1]], "b": [1] });
        let update = rawdoc! { "$addToSet": { "a": { "$each": [3, 2, 1.0, 1] }, "b": { "$each": [2, 1, 2.0] } } };
        let changed = apply_update(rawdoc! { "a": [2] }, update).unwrap();
        assert_eq!(changed, rawdoc! { "a": [2, 3, 1.0], "b": [2, 1] });
    }
}
