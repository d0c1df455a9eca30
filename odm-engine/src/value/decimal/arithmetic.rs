//! Addition and multiplication of decimals.
//!
//! Results are rounded half to even, as IEEE 754-2008 and MongoDB do by default.

use std::cmp::Ordering;

use super::wide::Wide;
use super::{BIAS, DIGITS, Decimal, LIMIT, MAX_EXPONENT};

impl Decimal {
    /// The sum, with the smaller exponent of the two as long as that fits.
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
                // `a` has the larger exponent: it is the one to be widened.
                let gap = a_exponent - b_exponent;
                if a == 0 {
                    return D::round(
                        b_negative && (a_negative || b != 0),
                        Wide::from(b),
                        b_exponent,
                        false,
                    );
                }
                let (mut a, mut gap) = (a, gap);
                while gap > 0 && a < LIMIT / 10 {
                    (a, gap) = (a * 10, gap - 1);
                }
                let a_exponent = b_exponent + gap;
                // Past this, `b` only tells on which side of `a` the sum lies.
                let shift = gap.min(DIGITS);
                let wide_a = Wide::product(a, 10_u128.pow(shift.unsigned_abs()));
                let (wide_b, sticky) = if gap > shift {
                    drop_digits(b, gap - shift)
                } else {
                    (b, false)
                };
                let exponent = a_exponent - shift;
                let wide_b = Wide::from(wide_b);
                if a_negative == b_negative {
                    return D::round(a_negative, wide_a.plus(wide_b), exponent, sticky);
                }
                match wide_a.cmp(&wide_b) {
                    Ordering::Less => D::round(b_negative, wide_b.minus(wide_a), exponent, sticky),
                    Ordering::Equal => D::round(false, Wide::default(), exponent, sticky),
                    Ordering::Greater if sticky => {
                        // What was dropped of `b` still takes something away.
                        let difference = wide_a.minus(wide_b).minus(Wide::from(1));
                        D::round(a_negative, difference, exponent, true)
                    }
                    Ordering::Greater => {
                        D::round(a_negative, wide_a.minus(wide_b), exponent, false)
                    }
                }
            }
        }
    }

    /// The product, with the sum of the exponents as long as that fits.
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
            ) => D::round(
                a_negative != b_negative,
                Wide::product(a, b),
                a_exponent + b_exponent,
                false,
            ),
        }
    }

    /// The difference.
    pub(crate) fn subtract(self, other: Decimal) -> Decimal {
        self.add(other.negated())
    }

    /// The nearest decimal to `coefficient × 10^exponent`; `sticky` says that a little more follows.
    pub(super) fn round(negative: bool, coefficient: Wide, exponent: i32, sticky: bool) -> Decimal {
        Decimal::round_digits(negative, &coefficient.to_digits(), exponent, sticky)
    }

    /// The nearest decimal to the number with these digits, none of them a leading zero, times
    /// `10^exponent`.
    pub(super) fn round_digits(
        negative: bool,
        digits: &[u8],
        exponent: i32,
        sticky: bool,
    ) -> Decimal {
        let excess = (digits.len() as i32 - DIGITS).max(-BIAS - exponent).max(0);
        let keep = (digits.len() as i32 - excess).max(-1);
        let kept = digits
            .get(..keep.max(0).unsigned_abs() as usize)
            .unwrap_or_default();
        // If every digit goes and one more, the first dropped digit is a zero.
        let dropped = if keep < 0 {
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
        let mut exponent = exponent + excess;
        if rounded == LIMIT {
            rounded /= 10;
            exponent += 1;
        }
        // Too large an exponent can move into spare digits of the coefficient.
        while exponent > MAX_EXPONENT && rounded < LIMIT / 10 && rounded != 0 {
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
            exponent: exponent.max(-BIAS),
        }
    }
}

/// Drops the last digits; also says whether any of them was not zero.
fn drop_digits(value: u128, count: i32) -> (u128, bool) {
    match 10_u128.checked_pow(count.unsigned_abs()) {
        Some(scale) => (value / scale, !value.is_multiple_of(scale)),
        None => (0, value != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
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
                decimal(a).add(decimal(b)).to_bson().to_string(),
                sum,
                "{a} + {b}"
            );
            assert_eq!(
                decimal(b).add(decimal(a)).to_bson().to_string(),
                sum,
                "{b} + {a}"
            );
            assert_eq!(
                decimal(a).multiply(decimal(b)).to_bson().to_string(),
                product,
                "{a} × {b}"
            );
        }
    }
}
