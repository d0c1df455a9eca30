//! Rounding of decimals to a decimal place.

use super::{COEFFICIENT_LIMIT, Decimal};

/// The direction of rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Towards negative infinity.
    Floor,
    /// Towards positive infinity.
    Ceiling,
    /// Towards zero.
    Down,
    /// To the nearest number, or in a tie to the even digit.
    HalfEven,
}

impl Decimal {
    /// Returns the number with the given exponent. `None` if the digits do not fit, and for
    /// infinities and NaN.
    pub(crate) fn quantize(self, exponent: i32, rounding: Rounding) -> Option<Decimal> {
        let Decimal::Finite {
            negative,
            coefficient,
            exponent: current,
        } = self
        else {
            return None;
        };
        let coefficient = if current >= exponent {
            match coefficient {
                0 => 0,
                _ => 10_u128
                    .checked_pow((current - exponent).unsigned_abs())
                    .and_then(|scale| coefficient.checked_mul(scale))
                    .filter(|scaled| *scaled < COEFFICIENT_LIMIT)?,
            }
        } else {
            let (kept, first, rest) =
                split_digits(coefficient, (exponent - current).unsigned_abs());
            let round_up = match rounding {
                Rounding::Floor => negative && (first, rest) != (0, false),
                Rounding::Ceiling => !negative && (first, rest) != (0, false),
                Rounding::Down => false,
                Rounding::HalfEven => first > 5 || (first == 5 && (rest || kept % 2 == 1)),
            };
            kept + u128::from(round_up)
        };
        Some(Decimal::Finite {
            negative,
            coefficient,
            exponent,
        })
    }

    /// Returns the number rounded to a decimal place. A negative place counts to the left of the
    /// point.
    ///
    /// If the result does not fit into 34 digits, the number is returned padded to 34 digits.
    pub(crate) fn round_to_place(self, place: i32, rounding: Rounding) -> Decimal {
        self.quantize(-place, rounding)
            .unwrap_or_else(|| self.padded_to_34_digits())
    }

    /// Returns the nearest whole number. Out of range, the smallest long is returned, as by the
    /// server where no overflow is checked.
    pub(crate) fn to_nearest_long(self) -> i64 {
        let integer = self.quantize(0, Rounding::HalfEven);
        integer
            .and_then(Decimal::truncated_long)
            .unwrap_or(i64::MIN)
    }

    /// Returns the decimal nearest to the number with these ASCII digits.
    pub(super) fn from_digits(
        negative: bool,
        digits: impl Iterator<Item = u8>,
        exponent: i32,
    ) -> Decimal {
        let digits: Vec<u8> = digits
            .map(|digit| digit.wrapping_sub(b'0'))
            .skip_while(|digit| *digit == 0)
            .collect();
        if digits.is_empty() {
            return Decimal::zero_with_exponent(negative, exponent);
        }
        Decimal::round_digits(negative, &digits, exponent, false)
    }
}

/// Splits a coefficient into the remaining digits, the first dropped digit, and whether any other
/// dropped digit is not zero.
fn split_digits(coefficient: u128, count: u32) -> (u128, u128, bool) {
    let Some(unit) = 10_u128.checked_pow(count - 1) else {
        return (0, 0, coefficient != 0);
    };
    let (kept, rest) = (coefficient / unit, coefficient % unit);
    (kept / 10, kept % 10, rest != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_has_four_directions() {
        let round = |text: &str, place, rounding| {
            let number = Decimal::from_bson(text.parse().unwrap());
            let rounded: Option<Decimal> = number.quantize(place, rounding);
            rounded.map(|rounded| rounded.to_bson().to_string())
        };
        let expected = |text: &str| Some(text.to_owned());
        assert_eq!(round("2.5", 0, Rounding::HalfEven), expected("2"));
        assert_eq!(round("2.51", 0, Rounding::HalfEven), expected("3"));
        assert_eq!(round("-2.5", 0, Rounding::Floor), expected("-3"));
        assert_eq!(round("-0.5", 0, Rounding::Ceiling), expected("-0"));
        assert_eq!(round("2.9", 0, Rounding::Down), expected("2"));
        assert_eq!(round("123.456", 3, Rounding::HalfEven), expected("0E+3"));
        assert_eq!(round("1E-50", 0, Rounding::Ceiling), expected("1"));
        assert_eq!(round("5", -2, Rounding::Down), expected("5.00"));
        assert_eq!(round("1E+40", 0, Rounding::Down), None);
        assert_eq!(round("Infinity", 0, Rounding::Down), None);
    }
}
