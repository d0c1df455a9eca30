//! `$bit`: combines the bits of an integer with others.
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

use super::node::Node;
use super::operation::{Operations, Operator};
use crate::value::{self, Number};
use crate::{Error, Result};

#[derive(Debug)]
struct Bit(Vec<(Combination, Number)>);

#[derive(Debug, Clone, Copy)]
enum Combination {
    And,
    Or,
    Xor,
}

pub(super) fn parse(
    operations: &mut Operations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    let malformed = || {
        Error::bad_value(format!(
            "$bit of '{path}' takes {{ and | or | xor: an integer }}"
        ))
    };
    let fields = operand.as_document().ok_or_else(malformed)?;
    let mut steps = Vec::new();
    for (name, operand) in value::fields(fields) {
        let combination = match name {
            "and" => Combination::And,
            "or" => Combination::Or,
            "xor" => Combination::Xor,
            _ => return Err(malformed()),
        };
        steps.push((combination, integer(operand).ok_or_else(malformed)?));
    }
    if steps.is_empty() {
        return Err(malformed());
    }
    operations.change(path, Bit(steps))
}

impl Bit {
    fn apply(&self, start: Number) -> Number {
        self.0.iter().fold(start, |value, (combination, operand)| {
            combination.apply(value, *operand)
        })
    }
}

impl Combination {
    fn apply(self, a: Number, b: Number) -> Number {
        let combined = |a: i64, b: i64| match self {
            Combination::And => a & b,
            Combination::Or => a | b,
            Combination::Xor => a ^ b,
        };
        match (a, b) {
            (Number::Int32(a), Number::Int32(b)) => Number::Int32(match self {
                Combination::And => a & b,
                Combination::Or => a | b,
                Combination::Xor => a ^ b,
            }),
            (a, b) => {
                let bits = |number: Number| number.whole().unwrap_or_default();
                Number::Int64(combined(bits(a), bits(b)))
            }
        }
    }
}

impl Operator for Bit {
    fn existing(&self, path: &str, value: &mut Node<'_>) -> Result<bool> {
        let number = value.with(|value| {
            integer(value).ok_or_else(|| {
                let kind = value::type_name(value);
                Error::bad_value(format!(
                    "$bit needs an integer at '{path}', which is of type {kind}"
                ))
            })
        })?;
        let result = self.apply(number);
        *value = Node::New(result.to_bson());
        Ok(!number.same_type(result) || number.compare(result).is_ne())
    }

    fn missing(&self) -> Result<Option<RawBson>> {
        Ok(Some(self.apply(Number::Int32(0)).to_bson()))
    }
}

fn integer(value: RawBsonRef<'_>) -> Option<Number> {
    let number = Number::from_bson(value)?;
    matches!(number, Number::Int32(_) | Number::Int64(_)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::super::tests::updated;
    use bson::rawdoc;

    #[test]
    fn bits_are_combined_one_after_another() {
        let update = rawdoc! { "$bit": { "a": { "and": 6, "or": 8 }, "b": { "xor": 3_i64 } } };
        let changed = updated(rawdoc! { "a": 5 }, update).unwrap();
        assert_eq!(changed, rawdoc! { "a": 12, "b": 3_i64 });
        assert!(
            updated(
                rawdoc! { "a": 1.0 },
                rawdoc! { "$bit": { "a": { "or": 1 } } }
            )
            .is_err()
        );
    }
}
