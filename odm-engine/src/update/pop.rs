//! `$pop`: takes the last element off an array, or with −1 the first.
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

use super::node::Node;
use super::operation::{Operations, Operator};
use crate::value::{self, Number};
use crate::{Error, Result};

#[derive(Debug, Clone, Copy)]
enum Pop {
    First,
    Last,
}

pub(super) fn parse(
    operations: &mut Operations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    match Number::from_bson(operand).and_then(Number::whole) {
        Some(1) => operations.change(path, Pop::Last),
        Some(-1) => operations.change(path, Pop::First),
        _ => Err(Error::server(9, format!("$pop of '{path}' takes 1 or -1"))),
    }
}

impl Operator for Pop {
    fn existing(&self, path: &str, value: &mut Node<'_>) -> Result<bool> {
        let kind = value.with(value::type_name);
        let items = value.as_array().ok_or_else(|| {
            Error::server(
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

    fn missing(&self) -> Result<Option<RawBson>> {
        Ok(None)
    }

    fn only_removes(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::updated;
    use bson::rawdoc;

    #[test]
    fn either_end_can_go() {
        let update = rawdoc! { "$pop": { "a": 1, "b": -1, "c": 1, "d": -1 } };
        let changed = updated(rawdoc! { "a": [1, 2], "b": [1, 2], "c": [] }, update).unwrap();
        assert_eq!(changed, rawdoc! { "a": [1], "b": [2], "c": [] });
        let code = |document, by: i32| {
            updated(document, rawdoc! { "$pop": { "a": by } })
                .unwrap_err()
                .code()
        };
        assert_eq!(code(rawdoc! { "a": 1 }, 1), Some(14));
        assert_eq!(code(rawdoc! { "a": [1] }, 2), Some(9));
    }
}
