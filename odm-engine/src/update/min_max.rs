//! `$min`, `$max`: replaces a value by a smaller or a greater value.
//!
//! ```text
//! { "$min": { "lowest": 3 }, "$max": { "highest": 9 } }
//! in: { "lowest": 5, "highest": 12 }
//! in: {}
//! out: { "lowest": 3, "highest": 12 }
//! out: { "highest": 9, "lowest": 3 }
//! ```

use std::cmp::Ordering;

use bson::{RawBson, RawBsonRef};

use super::node::UpdateNode;
use super::operation::{UpdateOperations, UpdateOperator};
use crate::collation::ValueOrder;
use crate::{Result, value};

#[derive(Debug)]
struct KeepExtreme {
    value: RawBson,
    /// The order of the new value relative to the old value that triggers the replacement.
    wanted: Ordering,
    order: ValueOrder,
}

pub(super) fn parse_min(
    operations: &mut UpdateOperations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    let order = operations.order().clone();
    operations.push_change(
        path,
        KeepExtreme {
            value: operand.into(),
            wanted: Ordering::Less,
            order,
        },
    )
}

pub(super) fn parse_max(
    operations: &mut UpdateOperations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    let order = operations.order().clone();
    operations.push_change(
        path,
        KeepExtreme {
            value: operand.into(),
            wanted: Ordering::Greater,
            order,
        },
    )
}

impl UpdateOperator for KeepExtreme {
    fn change_existing(&self, _: &str, value: &mut UpdateNode<'_>) -> Result<bool> {
        let order = value.with_value(|old| self.order.compare(self.value.as_raw_bson_ref(), old));
        if order == self.wanted {
            *value = UpdateNode::New(self.value.clone());
        }
        Ok(order == self.wanted)
    }

    fn initial_value(&self) -> Result<Option<RawBson>> {
        Ok(Some(self.value.clone()))
    }

    fn added_bytes(&self) -> usize {
        value::approximate_bytes(self.value.as_raw_bson_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::apply_update;
    use bson::rawdoc;

    #[test]
    fn values_of_all_types_are_ordered() {
        let update = rawdoc! { "$min": { "a": 3, "b": "x" }, "$max": { "c": 3, "d": "x", "e": 1 } };
        let changed = apply_update(rawdoc! { "a": 5, "b": 5, "c": 5, "d": 5 }, update).unwrap();
        assert_eq!(
            changed,
            rawdoc! { "a": 3, "b": 5, "c": 5, "d": "x", "e": 1 }
        );
    }
}
