//! `$push`, with `$each`, `$position`, `$sort` and `$slice`: adds to an array.
//!
//! Elements go in at the position, then the array is sorted, then cut.
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

use super::node::Node;
use super::operation::{Operations, Operator};
use crate::sort::ElementOrder;
use crate::value::{self, Number};
use crate::{Error, Result};

#[derive(Debug)]
struct Push {
    values: Vec<RawBson>,
    /// From the end, if negative.
    position: Option<i64>,
    sort: Option<ElementOrder>,
    /// How many to keep; the last ones, if negative.
    slice: Option<i64>,
}

pub(super) fn parse(
    operations: &mut Operations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    let modifiers = operand
        .as_document()
        .filter(|document| value::get(document, "$each").is_some());
    let push = match modifiers {
        Some(modifiers) => Push::parse(path, modifiers)?,
        None => Push {
            values: vec![operand.into()],
            position: None,
            sort: None,
            slice: None,
        },
    };
    operations.change(path, push)
}

impl Push {
    fn parse(path: &str, modifiers: &RawDocument) -> Result<Push> {
        let mut push = Push {
            values: Vec::new(),
            position: None,
            sort: None,
            slice: None,
        };
        for (name, operand) in value::fields(modifiers) {
            let whole = || {
                let number = Number::from_bson(operand).and_then(Number::whole);
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
                "$position" => push.position = whole()?,
                "$slice" => push.slice = whole()?,
                "$sort" => {
                    let order = ElementOrder::parse(operand);
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

    /// Returns whether the array counts as modified, which it does if it has been sorted.
    fn apply(&self, items: &mut Vec<Node<'_>>) -> bool {
        let before = items.len();
        let at = match self.position {
            None => items.len(),
            Some(position) => offset(position, items.len()),
        };
        items.splice(at..at, self.values.iter().cloned().map(Node::New));
        let sorted = self.sort.is_some() && !items.is_empty();
        if let Some(order) = &self.sort {
            items.sort_by(|a, b| a.with(|a| b.with(|b| order.compare(a, b))));
        }
        match self.slice {
            Some(keep) if keep < 0 => drop(items.drain(..offset(keep, items.len()))),
            Some(keep) => items.truncate(offset(keep, items.len())),
            None => {}
        }
        !self.values.is_empty() || sorted || items.len() != before
    }
}

impl Operator for Push {
    fn existing(&self, path: &str, value: &mut Node<'_>) -> Result<bool> {
        let kind = value.with(value::type_name);
        let items = value.as_array().ok_or_else(|| {
            Error::bad_value(format!(
                "$push needs an array at '{path}', which is of type {kind}"
            ))
        })?;
        Ok(self.apply(items))
    }

    fn missing(&self) -> Result<Option<RawBson>> {
        let mut items = Vec::new();
        self.apply(&mut items);
        let mut array = RawArrayBuf::new();
        items
            .iter()
            .for_each(|item| item.with(|item| array.push(item)));
        Ok(Some(RawBson::Array(array)))
    }

    fn appends_to(&self, length: &dyn Fn() -> usize) -> bool {
        if self.sort.is_some() {
            return false;
        }
        let length = length();
        // MongoDB calls neither the first elements of an array appended, nor those at a position that exists.
        let is_behind = |position| usize::try_from(position).is_ok_and(|at| at > length);
        let uncut = |keep: i64| {
            usize::try_from(keep.unsigned_abs())
                .is_ok_and(|keep| keep >= length + self.values.len())
        };
        length > 0 && self.position.is_none_or(is_behind) && self.slice.is_none_or(uncut)
    }

    fn size(&self) -> usize {
        let values = self.values.iter();
        values
            .map(|value| value::size(value.as_raw_bson_ref()))
            .sum()
    }
}

/// A place among `length` elements, counted from the end if negative.
fn offset(place: i64, length: usize) -> usize {
    let distance = usize::try_from(place.unsigned_abs()).unwrap_or(usize::MAX);
    if place < 0 {
        length.saturating_sub(distance)
    } else {
        distance.min(length)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::updated;
    use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};

    fn pushed(array: &[i32], modifiers: RawDocumentBuf) -> RawDocumentBuf {
        let array: RawArrayBuf = array.iter().copied().collect();
        updated(
            rawdoc! { "a": array },
            rawdoc! { "$push": { "a": modifiers } },
        )
        .unwrap()
    }

    #[test]
    fn elements_go_in_then_are_sorted_then_cut() {
        let all = rawdoc! { "$each": [5, 1], "$position": 0, "$sort": -1, "$slice": 3 };
        assert_eq!(pushed(&[2, 4], all), rawdoc! { "a": [5, 4, 2] });
        let last = rawdoc! { "$each": [9], "$position": -1, "$slice": -2 };
        assert_eq!(pushed(&[1, 2], last), rawdoc! { "a": [9, 2] });
        let none = rawdoc! { "$each": [9], "$slice": 0 };
        assert_eq!(pushed(&[1], none), rawdoc! { "a": [] });
    }

    #[test]
    fn documents_are_sorted_by_their_fields() {
        let update = rawdoc! { "$push": { "a": { "$each": [{ "x": 1 }], "$sort": { "x": 1 } } } };
        let changed = updated(rawdoc! { "a": [{ "x": 2 }, 7] }, update).unwrap();
        assert_eq!(changed, rawdoc! { "a": [7, { "x": 1 }, { "x": 2 }] });
    }
}
