//! `$bitsAllSet`, `$bitsAnySet`, `$bitsAllClear`, `$bitsAnyClear`: the bits of a number or of
//! binary data.
//!
//! The bits are given as a mask, as binary data or as positions.
//!
//! ```text
//! { "flags": { "$bitsAllSet": [1, 5] } }
//! in: { "flags": 34 }
//! in: { "flags": 32 }
//! out: { "flags": 34 }
//!
//! { "flags": { "$bitsAnySet": 34 } }
//! in: { "flags": 32 }
//! in: { "flags": 1 }
//! out: { "flags": 32 }
//!
//! { "flags": { "$bitsAllClear": [0, 1] } }
//! in: { "flags": 4 }
//! in: { "flags": 6 }
//! out: { "flags": 4 }
//!
//! { "flags": { "$bitsAnyClear": [0, 1] } }
//! in: { "flags": 2 }
//! in: { "flags": 3 }
//! out: { "flags": 2 }
//! ```

use bson::RawBsonRef;

use super::parse::FieldOperand;
use super::{OpaqueTest, ValuePredicate};
use crate::value::{self, Number};
use crate::{Error, Result};

/// A test of bit positions. `wanted` and `any` select one of the four operators.
#[derive(Debug)]
struct BitTest {
    positions: Vec<u32>,
    wanted: bool,
    any: bool,
}

pub(super) fn parse_all_set(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    parse_bit_test(operand, true, false)
}

pub(super) fn parse_any_set(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    parse_bit_test(operand, true, true)
}

pub(super) fn parse_all_clear(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    parse_bit_test(operand, false, false)
}

pub(super) fn parse_any_clear(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    parse_bit_test(operand, false, true)
}

fn parse_bit_test(operand: &FieldOperand<'_>, expected: bool, any: bool) -> Result<ValuePredicate> {
    Ok(ValuePredicate::from_opaque(BitTest {
        positions: read_positions(operand)?,
        wanted: expected,
        any,
    }))
}

fn read_positions(operand: &FieldOperand<'_>) -> Result<Vec<u32>> {
    let malformed = |code| {
        let name = operand.operator;
        Error::with_server_code(
            code,
            format!(
                "{name} takes a mask, binary data or an array of positions; numbers must not be negative"
            ),
        )
    };
    match operand.value {
        RawBsonRef::Array(array) => value::items(array)
            .map(|item| {
                let number = Number::from_bson(item).ok_or_else(|| malformed(2))?;
                let position = number.whole_long().ok_or_else(|| malformed(2))?;
                let position = i32::try_from(position)
                    .ok()
                    .and_then(|at| u32::try_from(at).ok());
                position.ok_or_else(|| malformed(2))
            })
            .collect(),
        RawBsonRef::Binary(binary) => {
            let bits = (0..).take(binary.bytes.len().saturating_mul(8));
            Ok(bits
                .filter(|position| bit_in_bytes(binary.bytes, *position))
                .collect())
        }
        value => {
            let number = Number::from_bson(value).ok_or_else(|| malformed(2))?;
            let mask = number.whole_long().ok_or_else(|| malformed(9))?;
            let mask = u64::try_from(mask).map_err(|_| malformed(9))?;
            Ok((0..64)
                .filter(|position| mask >> position & 1 == 1)
                .collect())
        }
    }
}

impl OpaqueTest for BitTest {
    fn match_rank(&self) -> u8 {
        14
    }

    fn matches_value(&self, value: Option<RawBsonRef<'_>>) -> bool {
        let bit: &dyn Fn(u32) -> bool = match value {
            Some(RawBsonRef::Binary(binary)) => {
                &move |position| bit_in_bytes(binary.bytes, position)
            }
            value => match value
                .and_then(Number::from_bson)
                .and_then(Number::bitwise_long)
            {
                // Positions above 63 repeat the sign bit.
                Some(number) => &move |position| number >> position.min(63) & 1 == 1,
                None => return false,
            },
        };
        let mut bits = self
            .positions
            .iter()
            .map(|position| bit(*position) == self.wanted);
        if self.any {
            bits.any(|hit| hit)
        } else {
            bits.all(|hit| hit)
        }
    }
}

fn bit_in_bytes(bytes: &[u8], position: u32) -> bool {
    bytes
        .get(position as usize / 8)
        .is_some_and(|byte| byte >> (position % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
    use bson::{Decimal128, RawDocumentBuf, rawdoc};

    fn matches(filter: RawDocumentBuf, document: RawDocumentBuf) -> bool {
        Filter::parse(&filter).unwrap().matches(&document).unwrap()
    }

    #[test]
    fn decimals_are_rounded() {
        let has = |decimal: &str, bit: i32| {
            let decimal: Decimal128 = decimal.parse().unwrap();
            matches(
                rawdoc! { "a": { "$bitsAllSet": [bit] } },
                rawdoc! { "a": decimal },
            )
        };
        assert!(has("0.6", 0) && !has("0.5", 0));
        assert!(has("1.5", 1) && has("2.5", 1) && !has("2.5", 0));
        assert!(has("-1.5", 63) && has("-1.5", 62) && !has("-1.5", 0));
        assert!(has("NaN", 63) && has("1E+30", 63) && !has("1E+30", 62));
    }

    #[test]
    fn bits_are_tested_by_mask_and_position() {
        assert!(matches(
            rawdoc! { "a": { "$bitsAllSet": 6 } },
            rawdoc! { "a": 7 }
        ));
        assert!(!matches(
            rawdoc! { "a": { "$bitsAllSet": [3] } },
            rawdoc! { "a": 7 }
        ));
        assert!(matches(
            rawdoc! { "a": { "$bitsAnyClear": [0, 3] } },
            rawdoc! { "a": 7 }
        ));
        assert!(matches(
            rawdoc! { "a": { "$bitsAllSet": [200] } },
            rawdoc! { "a": -1 }
        ));
        assert!(!matches(
            rawdoc! { "a": { "$bitsAllClear": 1 } },
            rawdoc! { "a": 1.5 }
        ));
    }
}
