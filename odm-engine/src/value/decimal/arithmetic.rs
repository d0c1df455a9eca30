//! Addition and multiplication of decimals.
//!
//! Results are rounded half to even, the default of IEEE 754-2008 and MongoDB.

use std::cmp::Ordering;

use super::wide::WideCoefficient;
use super::{COEFFICIENT_LIMIT, Decimal, EXPONENT_BIAS, MAX_COEFFICIENT_DIGITS, MAX_EXPONENT};

impl Decimal {
    /// Returns the sum, with the smaller of the two exponents if possible.
    pub(crate) fn add(self, other: Decimal) -> Decimal {
        use Decimal as D;
        match (self, other) {
            (D::NaN, _) | (_, D::NaN) => D::NaN,
            (D::Infinity { negative: a }, D::Infinity { negative: b }) if a != b => D::NaN,
            (D::Infinity { negative }, _) | (_, D::Infinity { negative }) => {
                D::Infinity { negative }
            }
            (
                D::Finite {
                    negative: a_negative,
                    coefficient: a,
                    exponent: a_exponent,
                },
                D::Finite {
                    negative: b_negative,
                    coefficient: b,
                    exponent: b_exponent,
                },
            ) => {
                if a_exponent < b_exponent {
                    return other.add(self);
                }
                // `a` has the larger exponent, so `a` is scaled.
                let gap = a_exponent - b_exponent;
                if a == 0 {
                    return D::round_wide(
                        b_negative && (a_negative || b != 0),
                        WideCoefficient::from(b),
                        b_exponent,
                        false,
                    );
                }
                let (mut a, mut gap) = (a, gap);
                while gap > 0 && a < COEFFICIENT_LIMIT / 10 {
                    (a, gap) = (a * 10, gap - 1);
                }
                let a_exponent = b_exponent + gap;
                // Beyond this shift, the digits of `b` only decide the rounding.
                let shift = gap.min(MAX_COEFFICIENT_DIGITS);
                let wide_a = WideCoefficient::product_of(a, 10_u128.pow(shift.unsigned_abs()));
                let (wide_b, sticky) = if gap > shift {
                    drop_digits(b, gap - shift)
                } else {
                    (b, false)
                };
                let exponent = a_exponent - shift;
                let wide_b = WideCoefficient::from(wide_b);
                if a_negative == b_negative {
                    return D::round_wide(a_negative, wide_a.plus_wide(wide_b), exponent, sticky);
                }
                match wide_a.cmp(&wide_b) {
                    Ordering::Less => {
                        D::round_wide(b_negative, wide_b.minus_wide(wide_a), exponent, sticky)
                    }
                    Ordering::Equal => {
                        D::round_wide(false, WideCoefficient::default(), exponent, sticky)
                    }
                    Ordering::Greater if sticky => {
                        // The dropped digits of `b` reduce the difference.
                        let difference = wide_a
                            .minus_wide(wide_b)
                            .minus_wide(WideCoefficient::from(1));
                        D::round_wide(a_negative, difference, exponent, true)
                    }
                    Ordering::Greater => {
                        D::round_wide(a_negative, wide_a.minus_wide(wide_b), exponent, false)
                    }
                }
            }
        }
    }

    /// Returns the product, with the sum of the exponents if possible.
    pub(crate) fn multiply(self, other: Decimal) -> Decimal {
        use Decimal as D;
        match (self, other) {
            (D::NaN, _) | (_, D::NaN) => D::NaN,
            (D::Infinity { negative: a }, b) | (b, D::Infinity { negative: a }) => match b {
                D::Finite { coefficient: 0, .. } => D::NaN,
                D::Finite { negative, .. } | D::Infinity { negative } => D::Infinity {
                    negative: a != negative,
                },
                D::NaN => D::NaN,
            },
            (
                D::Finite {
                    negative: a_negative,
                    coefficient: a,
                    exponent: a_exponent,
                },
                D::Finite {
                    negative: b_negative,
                    coefficient: b,
                    exponent: b_exponent,
                },
            ) => D::round_wide(
                a_negative != b_negative,
                WideCoefficient::product_of(a, b),
                a_exponent + b_exponent,
                false,
            ),
        }
    }

    /// Returns the difference.
    pub(crate) fn subtract(self, other: Decimal) -> Decimal {
        self.add(other.negated())
    }

    /// Returns the decimal nearest to `coefficient × 10^exponent`. `sticky` means that nonzero
    /// digits follow.
    pub(super) fn round_wide(
        negative: bool,
        coefficient: WideCoefficient,
        exponent: i32,
        sticky: bool,
    ) -> Decimal {
        Decimal::round_digits(negative, &coefficient.to_digits(), exponent, sticky)
    }

    /// Returns the decimal nearest to the digits times `10^exponent`. The digits must not start
    /// with a zero.
    pub(super) fn round_digits(
        negative: bool,
        digits: &[u8],
        exponent: i32,
        sticky: bool,
    ) -> Decimal {
        let excess_digits = (digits.len() as i32 - MAX_COEFFICIENT_DIGITS)
            .max(-EXPONENT_BIAS - exponent)
            .max(0);
        let kept_digits = (digits.len() as i32 - excess_digits).max(-1);
        let kept = digits
            .get(..kept_digits.max(0).unsigned_abs() as usize)
            .unwrap_or_default();
        // If one more digit than there are is dropped, the first dropped digit is a zero.
        let dropped = if kept_digits < 0 {
            &[][..]
        } else {
            digits.get(kept.len()..).unwrap_or_default()
        };
        let mut rounded = kept
            .iter()
            .fold(0_u128, |all, digit| all * 10 + u128::from(*digit));
        let (first, rest) = match dropped.split_first() {
            Some((first, rest)) => (*first, sticky || rest.iter().any(|digit| *digit != 0)),
            None => (0, sticky),
        };
        if first > 5 || (first == 5 && (rest || rounded % 2 == 1)) {
            rounded += 1;
        }
        let mut exponent = exponent + excess_digits;
        if rounded == COEFFICIENT_LIMIT {
            rounded /= 10;
            exponent += 1;
        }
        // An exponent that is too large can be reduced by appending zeros to the coefficient.
        while exponent > MAX_EXPONENT && rounded < COEFFICIENT_LIMIT / 10 && rounded != 0 {
            rounded *= 10;
            exponent -= 1;
        }
        if exponent > MAX_EXPONENT {
            if rounded != 0 {
                return Decimal::Infinity { negative };
            }
            exponent = MAX_EXPONENT;
        }
        Decimal::Finite {
            negative,
            coefficient: rounded,
            exponent: exponent.max(-EXPONENT_BIAS),
        }
    }
}

/// Drops the last digits. Also returns whether a dropped digit was not zero.
fn drop_digits(value: u128, count: i32) -> (u128, bool) {
    match 10_u128.checked_pow(count.unsigned_abs()) {
        Some(scale) => (value / scale, !value.is_multiple_of(scale)),
        None => (0, value != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_decimal(text: &str) -> Decimal {
        Decimal::from_bson(text.parse().unwrap())
    }

    #[test]
    fn arithmetic_keeps_exponents_and_rounds_half_to_even() {
        for (a, b, sum, product) in [
            ("1.50", "2.5", "4.00", "3.750"),
            ("-1", "1", "0", "-1"),
            (
                "9999999999999999999999999999999999",
                "1",
                "1.000000000000000000000000000000000E+34",
                "9999999999999999999999999999999999",
            ),
            (
                "1E+40",
                "-1",
                "1.000000000000000000000000000000000E+40",
                "-1E+40",
            ),
            ("1", "1E-40", "1.000000000000000000000000000000000", "1E-40"),
            ("Infinity", "-Infinity", "NaN", "-Infinity"),
        ] {
            assert_eq!(
                parse_decimal(a).add(parse_decimal(b)).to_bson().to_string(),
                sum,
                "{a} + {b}"
            );
            assert_eq!(
                parse_decimal(b).add(parse_decimal(a)).to_bson().to_string(),
                sum,
                "{b} + {a}"
            );
            assert_eq!(
                parse_decimal(a)
                    .multiply(parse_decimal(b))
                    .to_bson()
                    .to_string(),
                product,
                "{a} × {b}"
            );
        }
    }
}
