//! `$pop`: removes the last element of an array, or with −1 the first.
//!
//! ```text
//! { "$pop": { "queue": -1 } }
//! in: { "queue": [1, 2, 3] }
//! out: { "queue": [2, 3] }
//!
//! { "$pop": { "queue": 1 } }
//! in: { "queue": [1, 2, 3] }
//! out: { "queue": [1, 2] }
//! ```

use bson::{RawBson, RawBsonRef};

use super::node::UpdateNode;
use super::operation::{UpdateOperations, UpdateOperator};
use crate::value::{self, Number};
use crate::{Error, Result};

#[derive(Debug, Clone, Copy)]
enum Pop {
    First,
    Last,
}

pub(super) fn parse_pop(
    operations: &mut UpdateOperations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    match Number::from_bson(operand).and_then(Number::whole_long) {
        Some(1) => operations.push_change(path, Pop::Last),
        Some(-1) => operations.push_change(path, Pop::First),
        _ => Err(Error::with_server_code(
            9,
            format!("$pop of '{path}' takes 1 or -1"),
        )),
    }
}

impl UpdateOperator for Pop {
    fn change_existing(&self, path: &str, value: &mut UpdateNode<'_>) -> Result<bool> {
        let kind = value.with_value(value::type_name);
        let items = value.as_array().ok_or_else(|| {
            Error::with_server_code(
                14,
                format!("$pop needs an array at '{path}', which is of type {kind}"),
            )
        })?;
        let popped = match self {
            Pop::First => items.drain(..items.len().min(1)).next(),
            Pop::Last => items.pop(),
        };
        Ok(popped.is_some())
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
    fn both_ends_can_be_removed() {
        let update = rawdoc! { "$pop": { "a": 1, "b": -1, "c": 1, "d": -1 } };
        let changed = apply_update(rawdoc! { "a": [1, 2], "b": [1, 2], "c": [] }, update).unwrap();
        assert_eq!(changed, rawdoc! { "a": [1], "b": [2], "c": [] });
        let code = |document, by: i32| {
            apply_update(document, rawdoc! { "$pop": { "a": by } })
                .unwrap_err()
                .code()
        };
        assert_eq!(code(rawdoc! { "a": 1 }, 1), Some(14));
        assert_eq!(code(rawdoc! { "a": [1] }, 2), Some(9));
    }
}
