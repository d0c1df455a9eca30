//! Rounding of decimals to a place.

use super::{Decimal, LIMIT};

/// Which neighbour a number is rounded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// The greatest one below.
    Floor,
    /// The least one above.
    Ceiling,
    /// The one towards zero.
    Down,
    /// The nearest; of two that are as near the one with an even digit.
    HalfEven,
}

impl Decimal {
    /// The number with an exponent. `None` if it has not the room for its digits then, and for what
    /// is not finite.
    pub(crate) fn quantize(self, exponent: i32, rounding: Rounding) -> Option<Decimal> {
        let Decimal::Finite {
            negative,
            coefficient,
            exponent: own,
        } = self
        else {
            return None;
        };
        let coefficient = if own >= exponent {
            match coefficient {
                0 => 0,
                _ => 10_u128
                    .checked_pow((own - exponent).unsigned_abs())
                    .and_then(|scale| coefficient.checked_mul(scale))
                    .filter(|scaled| *scaled < LIMIT)?,
            }
        } else {
            let (kept, first, rest) = split(coefficient, (exponent - own).unsigned_abs());
            let away = match rounding {
                Rounding::Floor => negative && (first, rest) != (0, false),
                Rounding::Ceiling => !negative && (first, rest) != (0, false),
                Rounding::Down => false,
                Rounding::HalfEven => first > 5 || (first == 5 && (rest || kept % 2 == 1)),
            };
            kept + u128::from(away)
        };
        Some(Decimal::Finite {
            negative,
            coefficient,
            exponent,
        })
    }

    /// The number rounded to so many places behind the point, or in front of it. One without digits
    /// there only shows all its digits.
    pub(crate) fn round_to_place(self, place: i32, rounding: Rounding) -> Decimal {
        self.quantize(-place, rounding)
            .unwrap_or_else(|| self.padded())
    }

    /// The nearest whole number, as the server gives it where it does not look for an overflow.
    pub(crate) fn to_nearest_long(self) -> i64 {
        let whole = self.quantize(0, Rounding::HalfEven);
        whole.and_then(Decimal::truncated).unwrap_or(i64::MIN)
    }

    /// The nearest decimal to the number with these ASCII digits.
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
            return Decimal::zero(negative, exponent);
        }
        Decimal::round_digits(negative, &digits, exponent, false)
    }
}

/// A coefficient without its last digits, the first of those, and whether any other is not zero.
fn split(coefficient: u128, count: u32) -> (u128, u128, bool) {
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
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(round("2.5", 0, Rounding::HalfEven), some("2"));
        assert_eq!(round("2.51", 0, Rounding::HalfEven), some("3"));
        assert_eq!(round("-2.5", 0, Rounding::Floor), some("-3"));
        assert_eq!(round("-0.5", 0, Rounding::Ceiling), some("-0"));
        assert_eq!(round("2.9", 0, Rounding::Down), some("2"));
        assert_eq!(round("123.456", 3, Rounding::HalfEven), some("0E+3"));
        assert_eq!(round("1E-50", 0, Rounding::Ceiling), some("1"));
        assert_eq!(round("5", -2, Rounding::Down), some("5.00"));
        assert_eq!(round("1E+40", 0, Rounding::Down), None);
        assert_eq!(round("Infinity", 0, Rounding::Down), None);
    }
}
