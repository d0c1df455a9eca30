//! Decimal128: 34 decimal digits, exact comparison, addition and multiplication.
//!
//! Results are rounded half to even, as IEEE 754-2008 and MongoDB do by default.

use std::cmp::Ordering;

use bson::Decimal128;

use super::number::{Exact, compare_doubles};

/// How many digits a coefficient has.
const DIGITS: i32 = 34;
/// The first number with more digits.
const LIMIT: u128 = 10_u128.pow(34);
const BIAS: i32 = 6176;
const MAX_EXPONENT: i32 = 6111;

/// A decoded Decimal128.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Decimal {
    NaN,
    Infinity {
        negative: bool,
    },
    Finite {
        negative: bool,
        coefficient: u128,
        exponent: i32,
    },
}

impl Decimal {
    /// Decodes the binary integer encoding that BSON uses.
    pub(crate) fn from_bson(value: Decimal128) -> Decimal {
        let bits = u128::from_le_bytes(value.bytes());
        let negative = bits >> 127 == 1;
        match (bits >> 122) & 0b1_1111 {
            0b1_1111 => Decimal::NaN,
            0b1_1110 => Decimal::Infinity { negative },
            // The long form of a coefficient starts above 34 digits, which reads as zero.
            combination if combination >> 3 == 0b11 => Decimal::Finite {
                negative,
                coefficient: 0,
                exponent: ((bits >> 111) & 0x3fff) as i32 - BIAS,
            },
            _ => {
                let coefficient = bits & ((1 << 113) - 1);
                Decimal::Finite {
                    negative,
                    coefficient: if coefficient < LIMIT { coefficient } else { 0 },
                    exponent: ((bits >> 113) & 0x3fff) as i32 - BIAS,
                }
            }
        }
    }

    /// Encodes the number.
    pub(crate) fn to_bson(self) -> Decimal128 {
        let bits = match self {
            Decimal::NaN => 0b1_1111 << 122,
            Decimal::Infinity { negative } => (u128::from(negative) << 127) | (0b1_1110 << 122),
            Decimal::Finite {
                negative,
                coefficient,
                exponent,
            } => {
                (u128::from(negative) << 127)
                    | (((exponent + BIAS).max(0) as u128) << 113)
                    | coefficient
            }
        };
        Decimal128::from_bytes(bits.to_le_bytes())
    }

    pub(crate) fn from_integer(value: i64) -> Decimal {
        Decimal::Finite {
            negative: value < 0,
            coefficient: value.unsigned_abs().into(),
            exponent: 0,
        }
    }

    /// The number by its 15 significant digits, as the server converts for arithmetic.
    pub(crate) fn from_double(value: f64) -> Decimal {
        if value.is_nan() {
            return Decimal::NaN;
        }
        if value.is_infinite() {
            return Decimal::Infinity {
                negative: value < 0.0,
            };
        }
        let (coefficient, exponent) = expand(value, 15);
        let coefficient = coefficient
            .bytes()
            .fold(0, |all, digit| all * 10 + u128::from(digit - b'0'));
        Decimal::Finite {
            negative: value.is_sign_negative(),
            coefficient,
            exponent: if coefficient == 0 { 0 } else { exponent },
        }
    }

    pub(crate) fn to_double(self) -> f64 {
        match self {
            Decimal::NaN => f64::NAN,
            Decimal::Infinity { negative: true } => f64::NEG_INFINITY,
            Decimal::Infinity { negative: false } => f64::INFINITY,
            Decimal::Finite {
                negative,
                coefficient,
                exponent,
            } => {
                let sign = if negative { "-" } else { "" };
                // A number written this way always parses.
                format!("{sign}{coefficient}e{exponent}")
                    .parse()
                    .unwrap_or(f64::NAN)
            }
        }
    }

    pub(crate) fn is_nan(self) -> bool {
        self == Decimal::NaN
    }

    /// The number rounded towards zero. `None` for what does not fit.
    pub(crate) fn truncated(self) -> Option<i64> {
        let Decimal::Finite {
            negative,
            coefficient,
            exponent,
        } = self
        else {
            return None;
        };
        let magnitude = if exponent < 0 {
            10_u128
                .checked_pow(exponent.unsigned_abs())
                .map_or(0, |scale| coefficient / scale)
        } else if coefficient == 0 {
            0
        } else {
            coefficient.checked_mul(10_u128.checked_pow(exponent.unsigned_abs())?)?
        };
        let magnitude = i128::try_from(magnitude).ok()?;
        i64::try_from(if negative { -magnitude } else { magnitude }).ok()
    }

    pub(super) fn compare(self, other: Exact) -> Ordering {
        match other {
            Exact::Decimal(other) => self.compare_decimal(other),
            Exact::Double(other) => self.compare_double(other),
        }
    }

    /// The sum, or `None` if it needs more exponent than there is.
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

    /// The nearest decimal to `coefficient × 10^exponent`; `sticky` says that a little more follows.
    fn round(negative: bool, coefficient: Wide, exponent: i32, sticky: bool) -> Decimal {
        let digits = coefficient.to_digits();
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

    fn compare_decimal(self, other: Decimal) -> Ordering {
        let (a, b) = (self, other);
        a.class().cmp(&b.class()).then_with(|| match (a, b) {
            (
                Decimal::Finite {
                    negative,
                    coefficient: a,
                    exponent: a_exponent,
                },
                Decimal::Finite {
                    coefficient: b,
                    exponent: b_exponent,
                    ..
                },
            ) => {
                let order =
                    compare_digits((&a.to_string(), a_exponent), (&b.to_string(), b_exponent));
                if negative { order.reverse() } else { order }
            }
            _ => Ordering::Equal,
        })
    }

    fn compare_double(self, other: f64) -> Ordering {
        let Decimal::Finite {
            negative,
            coefficient,
            exponent,
        } = self
        else {
            return compare_doubles(self.to_double(), other);
        };
        if coefficient == 0 || !other.is_finite() || other == 0.0 || negative != (other < 0.0) {
            let sign = match (coefficient, negative) {
                (0, _) => 0.0,
                (_, true) => -1.0,
                (_, false) => 1.0,
            };
            return compare_doubles(
                sign,
                if other.is_finite() {
                    other.signum() * f64::from(other != 0.0)
                } else {
                    other
                },
            );
        }
        // 767 digits write every double exactly.
        let (digits, other_exponent) = expand(other, 767);
        let order = compare_digits(
            (&coefficient.to_string(), exponent),
            (&digits, other_exponent),
        );
        if negative { order.reverse() } else { order }
    }

    /// Where the number lies, as far as that can be told without its digits.
    fn class(self) -> i8 {
        match self {
            Decimal::NaN => -3,
            Decimal::Infinity { negative: true } => -2,
            Decimal::Finite { coefficient: 0, .. } => 0,
            Decimal::Finite { negative: true, .. } => -1,
            Decimal::Finite {
                negative: false, ..
            } => 1,
            Decimal::Infinity { negative: false } => 2,
        }
    }
}

/// The decimal digits of a finite double's magnitude and the exponent of the last of them.
fn expand(value: f64, digits: usize) -> (String, i32) {
    let text = format!("{:.*e}", digits - 1, value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    (mantissa.replace('.', ""), exponent + 1 - digits as i32)
}

/// Compares two magnitudes, each written as digits and the exponent of the last one.
fn compare_digits(a: (&str, i32), b: (&str, i32)) -> Ordering {
    let normal = |(digits, exponent): (&str, i32)| {
        let significant = digits.trim_start_matches('0');
        let leading = match significant.len() {
            0 => i32::MIN,
            digits => exponent + digits as i32,
        };
        (leading, significant.trim_end_matches('0').to_owned())
    };
    normal(a).cmp(&normal(b))
}

/// Drops the last digits; also says whether any of them was not zero.
fn drop_digits(value: u128, count: i32) -> (u128, bool) {
    match 10_u128.checked_pow(count.unsigned_abs()) {
        Some(scale) => (value / scale, !value.is_multiple_of(scale)),
        None => (0, value != 0),
    }
}

/// A number of up to 68 digits: `high × 10^34 + low`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Wide {
    high: u128,
    low: u128,
}

impl Wide {
    fn from(value: u128) -> Wide {
        Wide {
            high: value / LIMIT,
            low: value % LIMIT,
        }
    }

    /// The product of two numbers of up to 34 digits (`10^34` itself included).
    fn product(a: u128, b: u128) -> Wide {
        const HALF: u128 = 10_u128.pow(17);
        let (a_high, a_low, b_high, b_low) = (a / HALF, a % HALF, b / HALF, b % HALF);
        let middle = a_high * b_low + a_low * b_high;
        let low = (middle % HALF) * HALF + a_low * b_low;
        Wide {
            high: a_high * b_high + middle / HALF + low / LIMIT,
            low: low % LIMIT,
        }
    }

    fn plus(self, other: Wide) -> Wide {
        let low = self.low + other.low;
        Wide {
            high: self.high + other.high + low / LIMIT,
            low: low % LIMIT,
        }
    }

    /// The difference to a smaller number.
    fn minus(self, other: Wide) -> Wide {
        let borrow = u128::from(self.low < other.low);
        Wide {
            high: self.high.saturating_sub(other.high + borrow),
            low: (self.low + borrow * LIMIT).saturating_sub(other.low),
        }
    }

    /// The digits without leading zeros; none for zero.
    fn to_digits(self) -> Vec<u8> {
        let text = format!("{}{:034}", self.high, self.low);
        text.trim_start_matches('0')
            .bytes()
            .map(|digit| digit - b'0')
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::from_bson(text.parse().unwrap())
    }

    #[test]
    fn encoding_round_trips() {
        for text in [
            "0",
            "-0",
            "1.50",
            "-7E+6111",
            "9999999999999999999999999999999999E-6176",
            "Infinity",
            "-Infinity",
        ] {
            let value: Decimal128 = text.parse().unwrap();
            assert_eq!(Decimal::from_bson(value).to_bson(), value, "{text}");
        }
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

    #[test]
    fn order_is_by_value() {
        let sorted = [
            "NaN",
            "-Infinity",
            "-1E+3",
            "-1.5",
            "-1E-300",
            "0",
            "1E-300",
            "0.1",
            "1.5",
            "100",
            "1E+3",
            "Infinity",
        ];
        assert!(
            sorted.is_sorted_by(|a, b| decimal(a).compare_decimal(decimal(b)) == Ordering::Less)
        );
        assert_eq!(
            decimal("1.0").compare_decimal(decimal("1.000")),
            Ordering::Equal
        );
        assert_eq!(
            decimal("-0").compare_decimal(decimal("0E+5")),
            Ordering::Equal
        );
        assert_eq!(decimal("0.1").compare_double(0.1), Ordering::Less);
        assert_eq!(decimal("-2.5").compare_double(-2.5), Ordering::Equal);
        assert_eq!(decimal("5").compare_double(f64::INFINITY), Ordering::Less);
        assert_eq!(decimal("-5").compare_double(3.0), Ordering::Less);
        assert_eq!(decimal("NaN").compare_double(f64::NAN), Ordering::Equal);
    }
}
