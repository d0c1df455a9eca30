//! `$set`, and `$setOnInsert` for upserts that insert: sets a value.
//!
//! ```text
//! { "$set": { "address.city": "Bern" }, "$setOnInsert": { "created": "2026-01-01" } }
//! in: { "address": { "city": "Basel", "cc": "CH" } }
//! in: {}
//! out: { "address": { "city": "Bern", "cc": "CH" } }
//! out: { "address": { "city": "Bern" } }
//! ```

use bson::{RawBson, RawBsonRef};

use super::node::UpdateNode;
use super::operation::{UpdateOperations, UpdateOperator};
use crate::{Result, value};

#[derive(Debug)]
pub(super) struct Set(RawBson);

pub(super) fn parse_set(
    operations: &mut UpdateOperations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    operations.push_change(path, Set::new(operand.into()))
}

pub(super) fn parse_set_on_insert(
    operations: &mut UpdateOperations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    operations.push_change_on_insert(path, Set::new(operand.into()))
}

impl Set {
    pub(super) fn new(value: RawBson) -> Set {
        Set(value)
    }
}

impl UpdateOperator for Set {
    fn change_existing(&self, _: &str, value: &mut UpdateNode<'_>) -> Result<bool> {
        let new = self.0.as_raw_bson_ref();
        if value.with_value(|old| value::same_bytes(old, new)) {
            return Ok(false);
        }
        *value = UpdateNode::New(self.0.clone());
        Ok(true)
    }

    fn initial_value(&self) -> Result<Option<RawBson>> {
        Ok(Some(self.0.clone()))
    }

    fn added_bytes(&self) -> usize {
        value::approximate_bytes(self.0.as_raw_bson_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::apply_update;
    use bson::rawdoc;

    #[test]
    fn values_are_replaced_in_place_and_new_ones_come_last_in_order() {
        let update = rawdoc! { "$set": { "z": 1, "b": 2, "a": 3 }, "$setOnInsert": { "c": 1 } };
        let expected = rawdoc! { "b": 2, "d": 0, "a": 3, "z": 1 };
        assert_eq!(
            apply_update(rawdoc! { "b": 0, "d": 0 }, update).unwrap(),
            expected
        );
    }
}
