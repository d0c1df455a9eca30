//! Decimals of the crate `rust_decimal`.

use std::{borrow::Cow, fmt};

use bson::{Decimal128, RawBson};
use rust_decimal::Decimal;

use super::{NativeForm, native_values, tagged::deserialize_own_or_bson};
use crate::{
    action::{Arithmetic, Increment, OutOfRange},
    language::query::encode_value,
};

impl NativeForm for Decimal {
    type Form = Decimal128;

    fn to_form(&self) -> Result<Decimal128, impl fmt::Display> {
        self.to_string().parse::<Decimal128>()
    }

    fn from_form(decimal: Decimal128) -> Result<Self, impl fmt::Display> {
        to_decimal(decimal)
    }
}
native_values!(Decimal: [NAN NUMBER], rounds: false, |deserializer| {
    deserialize_own_or_bson(deserializer, to_decimal)
});

/// Converts a decimal to the 28 or 29 digits of the type; BSON decimals have 34. Rounds as arithmetic of the type does.
fn to_decimal(decimal: Decimal128) -> Result<Decimal, String> {
    let text = decimal.to_string();
    let invalid = |error: &dyn fmt::Display| {
        format!("{text} does not fit a `rust_decimal::Decimal`: {error}")
    };
    let plain = without_exponent(&text).ok_or_else(|| invalid(&"too large"))?;
    plain.parse().map_err(|error| invalid(&error))
}

/// Returns a number without an exponent, or `None` if the integer part is too long for any decimal. Returns other texts
/// unchanged.
fn without_exponent(text: &str) -> Option<Cow<'_, str>> {
    /// With more zeros, the number is out of range, or rounds to 0.
    const MAX_PADDING_ZEROS: usize = 100;
    let Some((mantissa, exponent)) = text.split_once('E') else {
        return Some(text.into());
    };
    let exponent: i32 = exponent.parse().ok()?;
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", mantissa),
    };
    let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = format!("{integer}{fraction}");
    let point = i64::try_from(integer.len()).ok()? + i64::from(exponent);
    let plain = match usize::try_from(point) {
        Ok(point) if point > digits.len() + MAX_PADDING_ZEROS => return None,
        Ok(point) => {
            let zeros = "0".repeat(point.saturating_sub(digits.len()));
            let integer = digits.get(..point).unwrap_or(&digits);
            let fraction = digits.get(point..).unwrap_or_default();
            format!("{sign}0{integer}{zeros}.{fraction}0")
        }
        Err(_) => {
            let zeros = usize::try_from(-point).ok()?.min(MAX_PADDING_ZEROS);
            format!("{sign}0.{}{digits}", "0".repeat(zeros))
        }
    };
    Some(plain.into())
}

#[diagnostic::do_not_recommend]
impl Increment<Decimal> for Decimal {
    fn encode_amount(by: Decimal) -> crate::Result<RawBson> {
        encode_value(&by)
    }

    fn out_of_range(operation: Arithmetic, by: &Decimal) -> Option<OutOfRange> {
        // Bounds are integers: rounding could move a number from outside of the range to a bound.
        let (less, greater) = match operation {
            Arithmetic::Add if by.is_zero() => return None,
            Arithmetic::Add if by.is_sign_positive() => (None, Some(Self::MAX - by.ceil())),
            Arithmetic::Add => (Some(Self::MIN - by.floor()), None),
            Arithmetic::Multiply if by.abs() <= Self::ONE => return None,
            Arithmetic::Multiply => {
                let bound = (Self::MAX / by.abs()).floor();
                (Some(-bound), Some(bound))
            }
        };
        let stored = |bound: Self| encode_value(&bound).ok();
        Some(OutOfRange {
            less_than: less.and_then(stored),
            greater_than: greater.and_then(stored),
            missing: false,
            is_checked_by_backend: false,
            of: "`rust_decimal::Decimal`, -79228162514264337593543950335 to 79228162514264337593543950335",
        })
    }
}
#[diagnostic::do_not_recommend]
impl Increment<Decimal> for Option<Decimal> {
    fn encode_amount(by: Decimal) -> crate::Result<RawBson> {
        encode_value(&by)
    }

    fn out_of_range(operation: Arithmetic, by: &Decimal) -> Option<OutOfRange> {
        <Decimal as Increment<Decimal>>::out_of_range(operation, by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_decimal(text: &str) -> Result<String, String> {
        let decimal: Decimal128 = text.parse().unwrap();
        to_decimal(decimal).map(|decimal| decimal.normalize().to_string())
    }

    #[test]
    fn decimals_are_read_in_every_notation() {
        for (text, plain) in [
            ("0", "0"),
            ("-7.50", "-7.5"),
            ("1E+3", "1000"),
            ("1.25E+2", "125"),
            ("-1.25E-2", "-0.0125"),
            ("5E-28", "0.0000000000000000000000000005"),
            (
                "79228162514264337593543950335",
                "79228162514264337593543950335",
            ),
            // Rounded.
            (
                "1.23456789012345678901234567895",
                "1.234567890123456789012345679",
            ),
            ("5E-29", "0.0000000000000000000000000001"),
            ("4E-29", "0"),
            ("-1E-6000", "0"),
        ] {
            assert_eq!(read_decimal(text).as_deref(), Ok(plain), "{text}");
        }
        for text in [
            "79228162514264337593543950336",
            "1E+29",
            "1E+6000",
            "NaN",
            "Infinity",
        ] {
            assert!(read_decimal(text).is_err(), "{text}");
        }
    }
}
