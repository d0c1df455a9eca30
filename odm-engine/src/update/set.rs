//! `$set`, and `$setOnInsert` for upserts that insert: puts a value in.
//!
//! ```text
//! { "$set": { "address.city": "Bern" }, "$setOnInsert": { "created": "2026-01-01" } }
//! in: { "address": { "city": "Basel", "cc": "CH" } }
//! in: {}
//! out: { "address": { "city": "Bern", "cc": "CH" } }
//! out: { "address": { "city": "Bern" } }
//! ```

use bson::{RawBson, RawBsonRef};

use super::node::Node;
use super::operation::{Operations, Operator};
use crate::{Result, value};

#[derive(Debug)]
pub(super) struct Set(RawBson);

pub(super) fn parse(
    operations: &mut Operations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    operations.change(path, Set::new(operand.into()))
}

pub(super) fn parse_on_insert(
    operations: &mut Operations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    operations.change_on_insert(path, Set::new(operand.into()))
}

impl Set {
    pub(super) fn new(value: RawBson) -> Set {
        Set(value)
    }
}

impl Operator for Set {
    fn existing(&self, _: &str, value: &mut Node<'_>) -> Result<bool> {
        let new = self.0.as_raw_bson_ref();
        if value.with(|old| value::identical(old, new)) {
            return Ok(false);
        }
        *value = Node::New(self.0.clone());
        Ok(true)
    }

    fn missing(&self) -> Result<Option<RawBson>> {
        Ok(Some(self.0.clone()))
    }

    fn size(&self) -> usize {
        value::size(self.0.as_raw_bson_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::updated;
    use bson::rawdoc;

    #[test]
    fn values_are_replaced_in_place_and_new_ones_come_last_in_order() {
        let update = rawdoc! { "$set": { "z": 1, "b": 2, "a": 3 }, "$setOnInsert": { "c": 1 } };
        let expected = rawdoc! { "b": 2, "d": 0, "a": 3, "z": 1 };
        assert_eq!(
            updated(rawdoc! { "b": 0, "d": 0 }, update).unwrap(),
            expected
        );
    }
}
