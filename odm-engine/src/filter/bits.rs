//! `$bitsAllSet`, `$bitsAnySet`, `$bitsAllClear`, `$bitsAnyClear`: the bits of a number or binary.
//!
//! Bits are named by a mask, by binary data or by their positions.
//!
//! ```json
//! { "flags": { "$bitsAllSet": [1, 5] } }
//! ```

use bson::RawBsonRef;

use super::parse::Operand;
use super::{Operator, Predicate};
use crate::value::{self, Number};
use crate::{Error, Result};

/// A test of some bits. Its own opposites are what makes the four operators.
#[derive(Debug)]
struct Bits {
    positions: Vec<u32>,
    wanted: bool,
    any: bool,
}

pub(super) fn parse_all_set(operand: &Operand<'_>) -> Result<Predicate> {
    parse(operand, true, false)
}

pub(super) fn parse_any_set(operand: &Operand<'_>) -> Result<Predicate> {
    parse(operand, true, true)
}

pub(super) fn parse_all_clear(operand: &Operand<'_>) -> Result<Predicate> {
    parse(operand, false, false)
}

pub(super) fn parse_any_clear(operand: &Operand<'_>) -> Result<Predicate> {
    parse(operand, false, true)
}

fn parse(operand: &Operand<'_>, wanted: bool, any: bool) -> Result<Predicate> {
    Ok(Predicate::other(Bits {
        positions: positions(operand)?,
        wanted,
        any,
    }))
}

fn positions(operand: &Operand<'_>) -> Result<Vec<u32>> {
    let malformed = |code| {
        let name = operand.operator;
        Error::server(
            code,
            format!(
                "{name} takes a mask, binary data or an array of positions, none of them negative"
            ),
        )
    };
    match operand.value {
        RawBsonRef::Array(array) => value::items(array)
            .map(|item| {
                let number = Number::from_bson(item).ok_or_else(|| malformed(2))?;
                let position = number.whole().ok_or_else(|| malformed(2))?;
                let position = i32::try_from(position)
                    .ok()
                    .and_then(|at| u32::try_from(at).ok());
                position.ok_or_else(|| malformed(2))
            })
            .collect(),
        RawBsonRef::Binary(binary) => {
            let bits = (0..).take(binary.bytes.len().saturating_mul(8));
            Ok(bits
                .filter(|position| bit_of_bytes(binary.bytes, *position))
                .collect())
        }
        value => {
            let number = Number::from_bson(value).ok_or_else(|| malformed(2))?;
            let mask = number.whole().ok_or_else(|| malformed(9))?;
            let mask = u64::try_from(mask).map_err(|_| malformed(9))?;
            Ok((0..64)
                .filter(|position| mask >> position & 1 == 1)
                .collect())
        }
    }
}

impl Operator for Bits {
    fn matches(&self, value: Option<RawBsonRef<'_>>) -> bool {
        let bit: &dyn Fn(u32) -> bool = match value {
            Some(RawBsonRef::Binary(binary)) => {
                &move |position| bit_of_bytes(binary.bytes, position)
            }
            value => match value.and_then(Number::from_bson).and_then(Number::whole) {
                // The sign is extended for ever.
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

fn bit_of_bytes(bytes: &[u8], position: u32) -> bool {
    bytes
        .get(position as usize / 8)
        .is_some_and(|byte| byte >> (position % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
    use bson::{RawDocumentBuf, rawdoc};

    fn matches(filter: RawDocumentBuf, document: RawDocumentBuf) -> bool {
        Filter::parse(&filter).unwrap().matches(&document).unwrap()
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
