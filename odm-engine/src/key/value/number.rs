//! The encoding of numbers: one scale for int32, int64, double and Decimal128, without loss.
//!
//! The low bits of the tag hold the class: 0 NaN, 1 negative, 2 zero, 3 positive. Then comes the magnitude, as the greatest
//! double that is not above it, in 8 bytes. The byte `00` follows if the double is exact. Otherwise the byte `01` follows, then
//! the decimal exponent of the magnitude (2 bytes) and its 34 digits as an integer (15 bytes).
//!
//! Every number that is not a double is an integer or a decimal of at most 34 digits. Exponent and digits order all such numbers
//! between two adjacent doubles. The bytes after the tag are complemented for negative numbers.

use bson::RawBson;

use crate::value::{Decimal, Number};

/// The first integer with 35 digits.
const COEFFICIENT_LIMIT: u128 = 10_u128.pow(34);

/// The bias of decimal exponents (from −6176 to 6144), which makes them positive.
const EXPONENT_BIAS: i32 = 1 << 14;

pub(super) fn encode_number(number: Number, tag: u8, out: &mut Vec<u8>) {
    if number.is_nan() {
        out.push(tag);
        return;
    }
    let SplitMagnitude {
        negative,
        double,
        rest,
    } = split_magnitude(number);
    if double == 0.0 && rest.is_none() {
        out.push(tag + 2);
        return;
    }
    out.push(if negative { tag + 1 } else { tag + 3 });
    let start = out.len();
    out.extend_from_slice(&double.to_bits().to_be_bytes());
    match rest {
        None => out.push(0),
        Some((exponent, digits)) => {
            out.push(1);
            out.extend_from_slice(&exponent.to_be_bytes());
            // 34 digits fit into 113 bits.
            out.extend(digits.to_be_bytes().iter().skip(1));
        }
    }
    if negative {
        for byte in out.iter_mut().skip(start) {
            *byte = !*byte;
        }
    }
}

/// Decodes a number with the class `class`, 0 to 3, from the start of `rest`. Also returns the number of bytes read from `rest`.
///
/// Among equal numbers, returns the smallest type of int32, int64 and double. Returns `None` for a number that only a Decimal128
/// can hold.
pub(super) fn decode_number(class: u8, rest: &[u8]) -> Option<(RawBson, usize)> {
    let negative = match class {
        0 => return Some((RawBson::Double(f64::NAN), 0)),
        1 => true,
        2 => return Some((RawBson::Int32(0), 0)),
        3 => false,
        _ => return None,
    };
    let bytes = |from: usize, length: usize| -> Option<Vec<u8>> {
        let bytes = rest.get(from..from.checked_add(length)?)?.iter();
        Some(
            bytes
                .map(|byte| if negative { !byte } else { *byte })
                .collect(),
        )
    };
    let double = u64::from_be_bytes(bytes(0, 8)?.try_into().ok()?);
    let double = f64::from_bits(double);
    if bytes(8, 1)? == [0] {
        let value = if negative { -double } else { double };
        return Some((smallest_type(value), 9));
    }
    let exponent = u16::from_be_bytes(bytes(9, 2)?.try_into().ok()?);
    let mut digits = [0; 16];
    digits.get_mut(1..)?.copy_from_slice(&bytes(11, 15)?);
    // Only integers are neither doubles nor decimals.
    let exponent = u32::try_from(EXPONENT_BIAS - i32::from(exponent)).ok()?;
    let divisor = 10_u128.checked_pow(exponent)?;
    let digits = u128::from_be_bytes(digits);
    if digits.checked_rem(divisor)? != 0 {
        return None;
    }
    let magnitude = i128::try_from(digits / divisor).ok()?;
    let integer = i64::try_from(if negative { -magnitude } else { magnitude }).ok()?;
    Some((RawBson::Int64(integer), 26))
}

/// Returns a double as the smallest integer type, if the double represents exactly one integer.
fn smallest_type(value: f64) -> RawBson {
    const MAX_EXACT_INTEGER: f64 = (1_i64 << 53) as f64;
    if value.fract() != 0.0 || value.abs() > MAX_EXACT_INTEGER {
        return RawBson::Double(value);
    }
    let integer = value as i64;
    i32::try_from(integer).map_or(RawBson::Int64(integer), RawBson::Int32)
}

struct SplitMagnitude {
    negative: bool,
    /// The greatest double that is not above the magnitude.
    double: f64,
    /// The exponent and digits of the magnitude, if the double is not exact.
    rest: Option<(u16, u128)>,
}

fn split_magnitude(number: Number) -> SplitMagnitude {
    let decimal = match number {
        Number::Double(value) => return exact_magnitude(value),
        Number::Int32(value) => return exact_magnitude(value.into()),
        // Below 2^53, every integer is a double.
        Number::Int64(value) if value.unsigned_abs() < 1 << 53 => {
            return exact_magnitude(value as f64);
        }
        number => number.to_decimal(),
    };
    let Decimal::Finite {
        negative,
        coefficient,
        exponent,
    } = decimal
    else {
        return exact_magnitude(decimal.to_double());
    };
    if coefficient == 0 {
        return exact_magnitude(0.0);
    }
    let absolute = Number::Decimal(Decimal::Finite {
        negative: false,
        coefficient,
        exponent,
    });
    let nearest = absolute.to_double();
    let order = absolute.compare(Number::Double(nearest));
    SplitMagnitude {
        negative,
        double: if order.is_lt() {
            nearest.next_down()
        } else {
            nearest
        },
        rest: order
            .is_ne()
            .then(|| normalize_digits(coefficient, exponent)),
    }
}

fn exact_magnitude(value: f64) -> SplitMagnitude {
    SplitMagnitude {
        negative: value < 0.0,
        double: value.abs(),
        rest: None,
    }
}

/// Scales a magnitude to 34 digits, so that equal magnitudes have equal exponents and digits.
fn normalize_digits(mut coefficient: u128, mut exponent: i32) -> (u16, u128) {
    while coefficient < COEFFICIENT_LIMIT / 10 {
        coefficient *= 10;
        exponent -= 1;
    }
    let biased = u16::try_from(exponent + EXPONENT_BIAS).unwrap_or(0);
    (biased, coefficient)
}
