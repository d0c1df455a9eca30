//! `$bit`: bitwise operations on an integer.
//!
//! ```text
//! { "$bit": { "flags": { "or": 4 } } }
//! in: { "flags": 3 }
//! out: { "flags": 7 }
//!
//! { "$bit": { "flags": { "and": 6, "xor": 1 } } }
//! in: { "flags": 3 }
//! out: { "flags": 3 }
//! ```

use bson::{RawBson, RawBsonRef};

use super::node::UpdateNode;
use super::operation::{UpdateOperations, UpdateOperator};
use crate::value::{self, Number};
use crate::{Error, Result};

#[derive(Debug)]
struct Bit(Vec<(BitOperation, Number)>);

#[derive(Debug, Clone, Copy)]
enum BitOperation {
    And,
    Or,
    Xor,
}

pub(super) fn parse_bit(
    operations: &mut UpdateOperations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    let malformed = || {
        Error::bad_value(format!(
            "$bit of '{path}' takes a document {{ and | or | xor: integer }}"
        ))
    };
    let fields = operand.as_document().ok_or_else(malformed)?;
    let mut steps = Vec::new();
    for (name, operand) in value::fields(fields) {
        let combination = match name {
            "and" => BitOperation::And,
            "or" => BitOperation::Or,
            "xor" => BitOperation::Xor,
            _ => return Err(malformed()),
        };
        steps.push((combination, integer_of(operand).ok_or_else(malformed)?));
    }
    if steps.is_empty() {
        return Err(malformed());
    }
    operations.push_change(path, Bit(steps))
}

impl Bit {
    fn apply_to(&self, start: Number) -> Number {
        self.0.iter().fold(start, |value, (combination, operand)| {
            combination.apply_to(value, *operand)
        })
    }
}

impl BitOperation {
    fn apply_to(self, a: Number, b: Number) -> Number {
        let combined = |a: i64, b: i64| match self {
            BitOperation::And => a & b,
            BitOperation::Or => a | b,
            BitOperation::Xor => a ^ b,
        };
        match (a, b) {
            (Number::Int32(a), Number::Int32(b)) => Number::Int32(match self {
                BitOperation::And => a & b,
                BitOperation::Or => a | b,
                BitOperation::Xor => a ^ b,
            }),
            (a, b) => {
                let bits = |number: Number| number.whole_long().unwrap_or_default();
                Number::Int64(combined(bits(a), bits(b)))
            }
        }
    }
}

impl UpdateOperator for Bit {
    fn change_existing(&self, path: &str, value: &mut UpdateNode<'_>) -> Result<bool> {
        let number = value.with_value(|value| {
            integer_of(value).ok_or_else(|| {
                let kind = value::type_name(value);
                Error::bad_value(format!(
                    "$bit needs an integer at '{path}', which is of type {kind}"
                ))
            })
        })?;
        let result = self.apply_to(number);
        *value = UpdateNode::New(result.to_bson());
        Ok(!number.same_type(result) || number.compare(result).is_ne())
    }

    fn initial_value(&self) -> Result<Option<RawBson>> {
        Ok(Some(self.apply_to(Number::Int32(0)).to_bson()))
    }
}

fn integer_of(value: RawBsonRef<'_>) -> Option<Number> {
    let number = Number::from_bson(value)?;
    matches!(number, Number::Int32(_) | Number::Int64(_)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::super::tests::apply_update;
    use bson::rawdoc;

    #[test]
    fn bits_are_combined_one_after_another() {
        let update = rawdoc! { "$bit": { "a": { "and": 6, "or": 8 }, "b": { "xor": 3_i64 } } };
        let changed = apply_update(rawdoc! { "a": 5 }, update).unwrap();
        assert_eq!(changed, rawdoc! { "a": 12, "b": 3_i64 });
        assert!(
            apply_update(
                rawdoc! { "a": 1.0 },
                rawdoc! { "$bit": { "a": { "or": 1 } } }
            )
            .is_err()
        );
    }
}
