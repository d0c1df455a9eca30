//! `$pullAll`: removes every element of an array that equals one of the given values.
//!
//! ```text
//! { "$pullAll": { "tags": ["old", "used"] } }
//! in: { "tags": ["old", "new", "used"] }
//! out: { "tags": ["new"] }
//! ```

use bson::{RawBson, RawBsonRef};

use super::node::UpdateNode;
use super::operation::{UpdateOperations, UpdateOperator};
use super::pull::retain_items;
use crate::collation::ValueOrder;
use crate::{Error, Result, value};

#[derive(Debug)]
struct PullAll {
    /// The values to remove, sorted.
    values: Vec<RawBson>,
    order: ValueOrder,
}

pub(super) fn parse_pull_all(
    operations: &mut UpdateOperations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    let array = operand
        .as_array()
        .ok_or_else(|| Error::bad_value(format!("$pullAll of '{path}' takes an array")))?;
    let mut values: Vec<_> = value::items(array).map(RawBson::from).collect();
    let order = operations.order().clone();
    values.sort_by(|a, b| order.compare(a.as_raw_bson_ref(), b.as_raw_bson_ref()));
    operations.push_change(path, PullAll { values, order })
}

impl UpdateOperator for PullAll {
    fn change_existing(&self, path: &str, value: &mut UpdateNode<'_>) -> Result<bool> {
        retain_items(value, "$pullAll", path, |item| {
            let compare = |value: &RawBson| self.order.compare(value.as_raw_bson_ref(), item);
            self.values.binary_search_by(compare).is_err()
        })
    }

    fn initial_value(&self) -> Result<Option<RawBson>> {
        Ok(None)
    }

    fn only_removes(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::apply_update;
    use bson::rawdoc;

    #[test]
    fn all_listed_values_are_removed() {
        let update = rawdoc! { "$pullAll": { "a": [1, { "x": 1 }] } };
        let document = rawdoc! { "a": [1, 2, { "x": 1 }, 1.0, { "x": 1, "y": 2 }] };
        assert_eq!(
            apply_update(document, update).unwrap(),
            rawdoc! { "a": [2, { "x": 1, "y": 2 }] }
        );
    }
}
