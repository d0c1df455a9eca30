//! `$push`, with `$each`, `$position`, `$sort` and `$slice`: adds elements to an array.
//!
//! The elements are inserted at the position, then the array is sorted, then truncated.
//!
//! ```text
//! { "$push": { "scores": { "$each": [89, 92], "$sort": -1, "$slice": 3 } } }
//! in: { "scores": [90, 70] }
//! out: { "scores": [92, 90, 89] }
//!
//! { "$push": { "scores": { "$each": [1, 2], "$position": 1 } } }
//! in: { "scores": [90, 70] }
//! out: { "scores": [90, 1, 2, 70] }
//!
//! { "$push": { "scores": 5 } }
//! in: {}
//! out: { "scores": [5] }
//! ```

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument};

use super::node::UpdateNode;
use super::operation::{UpdateOperations, UpdateOperator};
use crate::collation::ValueOrder;
use crate::sort::ElementOrder;
use crate::value::{self, Number};
use crate::{Error, Result};

#[derive(Debug)]
struct PushElements {
    values: Vec<RawBson>,
    /// A negative position counts from the end.
    position: Option<i64>,
    sort: Option<ElementOrder>,
    /// The number of elements to keep. Negative: keep the last elements.
    slice: Option<i64>,
}

pub(super) fn parse_push(
    operations: &mut UpdateOperations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    let modifiers = operand
        .as_document()
        .filter(|document| value::get(document, "$each").is_some());
    let push = match modifiers {
        Some(modifiers) => PushElements::parse_modifiers(path, modifiers, operations.order())?,
        None => PushElements {
            values: vec![operand.into()],
            position: None,
            sort: None,
            slice: None,
        },
    };
    operations.push_change(path, push)
}

impl PushElements {
    fn parse_modifiers(
        path: &str,
        modifiers: &RawDocument,
        order: &ValueOrder,
    ) -> Result<PushElements> {
        let mut push = PushElements {
            values: Vec::new(),
            position: None,
            sort: None,
            slice: None,
        };
        for (name, operand) in value::fields(modifiers) {
            let integer = || {
                let number = Number::from_bson(operand).and_then(Number::whole_long);
                number.map(Some).ok_or_else(|| {
                    Error::bad_value(format!("{name} in $push to '{path}' takes a whole number"))
                })
            };
            match name {
                "$each" => {
                    let array = operand.as_array().ok_or_else(|| {
                        Error::bad_value(format!("$each in $push to '{path}' takes an array"))
                    })?;
                    push.values = value::items(array).map(RawBson::from).collect();
                }
                "$position" => push.position = integer()?,
                "$slice" => push.slice = integer()?,
                "$sort" => {
                    let order = ElementOrder::parse(operand, order);
                    push.sort = Some(order.map_err(|fault| Error::bad_value(fault.message()))?);
                }
                _ => {
                    let message = format!("unknown modifier of $push to '{path}': {name}");
                    return Err(Error::unknown_operator(2, message));
                }
            }
        }
        Ok(push)
    }

    /// Inserts, sorts and truncates. Returns whether the array counts as modified, which a sorted
    /// array always does.
    fn apply_to(&self, items: &mut Vec<UpdateNode<'_>>) -> bool {
        let before = items.len();
        let at = match self.position {
            None => items.len(),
            Some(position) => resolve_position(position, items.len()),
        };
        items.splice(at..at, self.values.iter().cloned().map(UpdateNode::New));
        let sorted = self.sort.is_some() && !items.is_empty();
        if let Some(order) = &self.sort {
            items.sort_by(|a, b| a.with_value(|a| b.with_value(|b| order.compare(a, b))));
        }
        match self.slice {
            Some(slice) if slice < 0 => drop(items.drain(..resolve_position(slice, items.len()))),
            Some(slice) => items.truncate(resolve_position(slice, items.len())),
            None => {}
        }
        !self.values.is_empty() || sorted || items.len() != before
    }
}

impl UpdateOperator for PushElements {
    fn change_existing(&self, path: &str, value: &mut UpdateNode<'_>) -> Result<bool> {
        let kind = value.with_value(value::type_name);
        let items = value.as_array().ok_or_else(|| {
            Error::bad_value(format!(
                "$push needs an array at '{path}', which is of type {kind}"
            ))
        })?;
        Ok(self.apply_to(items))
    }

    fn initial_value(&self) -> Result<Option<RawBson>> {
        let mut items = Vec::new();
        self.apply_to(&mut items);
        let mut array = RawArrayBuf::new();
        items
            .iter()
            .for_each(|item| item.with_value(|item| array.push(item)));
        Ok(Some(RawBson::Array(array)))
    }

    fn appends_to(&self, length: &dyn Fn() -> usize) -> bool {
        if self.sort.is_some() {
            return false;
        }
        let length = length();
        // MongoDB does not report elements as appended if the array was empty, or if a given
        // position is not beyond the end.
        let is_past_end = |position| usize::try_from(position).is_ok_and(|at| at > length);
        let uncut = |slice: i64| {
            usize::try_from(slice.unsigned_abs())
                .is_ok_and(|slice| slice >= length + self.values.len())
        };
        length > 0 && self.position.is_none_or(is_past_end) && self.slice.is_none_or(uncut)
    }

    fn added_bytes(&self) -> usize {
        let values = self.values.iter();
        values
            .map(|value| value::approximate_bytes(value.as_raw_bson_ref()))
            .sum()
    }
}

/// Returns the index of a position among `length` elements. A negative position counts from the
/// end.
fn resolve_position(place: i64, length: usize) -> usize {
    let distance = usize::try_from(place.unsigned_abs()).unwrap_or(usize::MAX);
    if place < 0 {
        length.saturating_sub(distance)
    } else {
        distance.min(length)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::apply_update;
    use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};

    fn apply_push(array: &[i32], modifiers: RawDocumentBuf) -> RawDocumentBuf {
        let array: RawArrayBuf = array.iter().copied().collect();
        apply_update(
            rawdoc! { "a": array },
            rawdoc! { "$push": { "a": modifiers } },
        )
        .unwrap()
    }

    #[test]
    fn push_appends_then_sorts_then_slices() {
        let all = rawdoc! { "$each": [5, 1], "$position": 0, "$sort": -1, "$slice": 3 };
        assert_eq!(apply_push(&[2, 4], all), rawdoc! { "a": [5, 4, 2] });
        let last = rawdoc! { "$each": [9], "$position": -1, "$slice": -2 };
        assert_eq!(apply_push(&[1, 2], last), rawdoc! { "a": [9, 2] });
        let none = rawdoc! { "$each": [9], "$slice": 0 };
        assert_eq!(apply_push(&[1], none), rawdoc! { "a": [] });
    }

    #[test]
    fn pushed_documents_are_sorted_by_their_fields() {
        let update = rawdoc! { "$push": { "a": { "$each": [{ "x": 1 }], "$sort": { "x": 1 } } } };
        let changed = apply_update(rawdoc! { "a": [{ "x": 2 }, 7] }, update).unwrap();
        assert_eq!(changed, rawdoc! { "a": [7, { "x": 1 }, { "x": 2 }] });
    }
}
