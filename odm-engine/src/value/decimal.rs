//! Decimal128: 34 decimal digits, converted and compared exactly.

mod arithmetic;
mod division;
mod functions;
mod parse;
mod rounding;
mod wide;

use std::cmp::Ordering;

use bson::Decimal128;

use super::number::{Exact, compare_doubles};
pub(crate) use functions::Function;
pub(crate) use rounding::Rounding;

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

    /// The number by all the digits that a decimal has room for.
    pub(crate) fn from_double_exact(value: f64) -> Decimal {
        if !value.is_finite() || value == 0.0 {
            return Decimal::from_double(value);
        }
        // 767 digits write every double exactly.
        let (digits, exponent) = expand(value, 767);
        let significant = digits.trim_end_matches('0');
        let exponent = exponent + (digits.len() - significant.len()) as i32;
        let negative = value.is_sign_negative();
        let exact = Decimal::from_digits(negative, significant.bytes(), exponent);
        exact
            .quantize(0, Rounding::HalfEven)
            .filter(|_| exponent > 0)
            .unwrap_or(exact)
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

    /// The number without its sign.
    pub(crate) fn abs(self) -> Decimal {
        match self {
            Decimal::NaN => Decimal::NaN,
            Decimal::Infinity { .. } => Decimal::Infinity { negative: false },
            Decimal::Finite {
                coefficient,
                exponent,
                ..
            } => Decimal::Finite {
                negative: false,
                coefficient,
                exponent,
            },
        }
    }

    /// The number with the other sign.
    pub(crate) fn negated(self) -> Decimal {
        self.signed(!self.is_negative())
    }

    /// The number with a sign.
    pub(crate) fn signed(self, negative: bool) -> Decimal {
        match self {
            Decimal::NaN => Decimal::NaN,
            Decimal::Infinity { .. } => Decimal::Infinity { negative },
            Decimal::Finite {
                coefficient,
                exponent,
                ..
            } => Decimal::Finite {
                negative,
                coefficient,
                exponent,
            },
        }
    }

    /// Whether it has a minus sign, be it in front of a zero.
    pub(crate) fn is_negative(self) -> bool {
        match self {
            Decimal::NaN => false,
            Decimal::Infinity { negative } | Decimal::Finite { negative, .. } => negative,
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        matches!(self, Decimal::Finite { coefficient: 0, .. })
    }

    pub(crate) fn is_infinite(self) -> bool {
        matches!(self, Decimal::Infinity { .. })
    }

    /// A zero with an exponent as near to the given one as there is.
    fn zero(negative: bool, exponent: i32) -> Decimal {
        Decimal::Finite {
            negative,
            coefficient: 0,
            exponent: exponent.clamp(-BIAS, MAX_EXPONENT),
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
            coefficient,
            exponent,
            ..
        } = self
        else {
            return compare_doubles(self.to_double(), other);
        };
        if !other.is_finite() {
            // Every finite number lies on the same side of it as zero.
            return compare_doubles(0.0, other);
        }
        let other_class = i8::from(other > 0.0) - i8::from(other < 0.0);
        self.class().cmp(&other_class).then_with(|| {
            // 767 digits write every double exactly.
            let (digits, other_exponent) = expand(other, 767);
            let order = compare_digits(
                (&coefficient.to_string(), exponent),
                (&digits, other_exponent),
            );
            if other < 0.0 { order.reverse() } else { order }
        })
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
