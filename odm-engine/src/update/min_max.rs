//! `$min`, `$max`: replaces a value by one that is smaller, or greater.
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

use super::node::Node;
use super::operation::{Operations, Operator};
use crate::{Result, value};

#[derive(Debug)]
struct Extreme {
    value: RawBson,
    /// How the new value must compare with the old one to take its place.
    wanted: Ordering,
}

pub(super) fn parse_min(
    operations: &mut Operations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    operations.change(
        path,
        Extreme {
            value: operand.into(),
            wanted: Ordering::Less,
        },
    )
}

pub(super) fn parse_max(
    operations: &mut Operations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    operations.change(
        path,
        Extreme {
            value: operand.into(),
            wanted: Ordering::Greater,
        },
    )
}

impl Operator for Extreme {
    fn existing(&self, _: &str, value: &mut Node<'_>) -> Result<bool> {
        let order = value.with(|old| value::compare(self.value.as_raw_bson_ref(), old));
        if order == self.wanted {
            *value = Node::New(self.value.clone());
        }
        Ok(order == self.wanted)
    }

    fn missing(&self) -> Result<Option<RawBson>> {
        Ok(Some(self.value.clone()))
    }

    fn size(&self) -> usize {
        value::size(self.value.as_raw_bson_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::updated;
    use bson::rawdoc;

    #[test]
    fn values_of_all_types_are_ordered() {
        let update = rawdoc! { "$min": { "a": 3, "b": "x" }, "$max": { "c": 3, "d": "x", "e": 1 } };
        let changed = updated(rawdoc! { "a": 5, "b": 5, "c": 5, "d": 5 }, update).unwrap();
        assert_eq!(
            changed,
            rawdoc! { "a": 3, "b": 5, "c": 5, "d": "x", "e": 1 }
        );
    }
}
