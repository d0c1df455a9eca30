//! Decimal128: 34 decimal digits, converted and compared exactly.

mod arithmetic;
mod division;
mod functions;
mod parse;
mod rounding;
mod wide;

use std::cmp::Ordering;

use bson::Decimal128;

use super::number::{ExactNumber, compare_doubles};
pub(crate) use functions::DecimalFunction;
pub(crate) use rounding::Rounding;

/// The maximum number of digits of a coefficient.
const MAX_COEFFICIENT_DIGITS: i32 = 34;
/// The smallest coefficient that exceeds the digits.
const COEFFICIENT_LIMIT: u128 = 10_u128.pow(34);
const EXPONENT_BIAS: i32 = 6176;
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
            // The long form encodes coefficients of more than 34 digits only. Such a coefficient
            // reads as zero.
            combination if combination >> 3 == 0b11 => Decimal::Finite {
                negative,
                coefficient: 0,
                exponent: ((bits >> 111) & 0x3fff) as i32 - EXPONENT_BIAS,
            },
            _ => {
                let coefficient = bits & ((1 << 113) - 1);
                Decimal::Finite {
                    negative,
                    coefficient: if coefficient < COEFFICIENT_LIMIT {
                        coefficient
                    } else {
                        0
                    },
                    exponent: ((bits >> 113) & 0x3fff) as i32 - EXPONENT_BIAS,
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
                    | (((exponent + EXPONENT_BIAS).max(0) as u128) << 113)
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

    /// Converts a double by its 15 significant digits, as the server does for arithmetic.
    pub(crate) fn from_double(value: f64) -> Decimal {
        if value.is_nan() {
            return Decimal::NaN;
        }
        if value.is_infinite() {
            return Decimal::Infinity {
                negative: value < 0.0,
            };
        }
        let (coefficient, exponent) = expand_double(value, 15);
        let coefficient = coefficient
            .bytes()
            .fold(0, |all, digit| all * 10 + u128::from(digit - b'0'));
        Decimal::Finite {
            negative: value.is_sign_negative(),
            coefficient,
            exponent: if coefficient == 0 { 0 } else { exponent },
        }
    }

    /// Converts a double to the nearest decimal, with up to 34 digits.
    pub(crate) fn from_double_exact(value: f64) -> Decimal {
        if !value.is_finite() || value == 0.0 {
            return Decimal::from_double(value);
        }
        // 767 significant digits represent every double exactly.
        let (digits, exponent) = expand_double(value, 767);
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
                // A number in this form always parses.
                format!("{sign}{coefficient}e{exponent}")
                    .parse()
                    .unwrap_or(f64::NAN)
            }
        }
    }

    /// Returns the absolute value.
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

    /// Returns the number with the opposite sign.
    pub(crate) fn negated(self) -> Decimal {
        self.with_sign(!self.is_negative())
    }

    /// Returns the number with the given sign.
    pub(crate) fn with_sign(self, negative: bool) -> Decimal {
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

    /// Returns whether the number has a minus sign. True for −0.
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

    /// Returns zero with the exponent nearest to the given exponent.
    fn zero_with_exponent(negative: bool, exponent: i32) -> Decimal {
        Decimal::Finite {
            negative,
            coefficient: 0,
            exponent: exponent.clamp(-EXPONENT_BIAS, MAX_EXPONENT),
        }
    }

    pub(crate) fn is_nan(self) -> bool {
        self == Decimal::NaN
    }

    /// Returns the number truncated to an integer. `None` if the result does not fit into 64 bits.
    pub(crate) fn truncated_long(self) -> Option<i64> {
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

    /// Returns the number rounded half to even. `None` for NaN and results that do not fit into 64
    /// bits.
    pub(crate) fn nearest_long(self) -> Option<i64> {
        let integer = self.truncated_long()?;
        let Some(opposite) = integer.checked_neg() else {
            return Some(integer);
        };
        let Decimal::Finite {
            negative,
            coefficient,
            exponent,
        } = self.add(Decimal::from_integer(opposite))
        else {
            return None;
        };
        let rest = Decimal::Finite {
            negative: false,
            coefficient,
            exponent,
        };
        let half = Decimal::Finite {
            negative: false,
            coefficient: 5,
            exponent: -1,
        };
        match rest.compare_decimal(half) {
            Ordering::Less => Some(integer),
            Ordering::Equal if integer % 2 == 0 => Some(integer),
            _ if negative => integer.checked_sub(1),
            _ => integer.checked_add(1),
        }
    }

    pub(super) fn compare(self, other: ExactNumber) -> Ordering {
        match other {
            ExactNumber::Decimal(other) => self.compare_decimal(other),
            ExactNumber::Double(other) => self.compare_double(other),
        }
    }

    fn compare_decimal(self, other: Decimal) -> Ordering {
        let (a, b) = (self, other);
        a.order_class()
            .cmp(&b.order_class())
            .then_with(|| match (a, b) {
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
            // Every finite number has the same order relative to NaN and infinities as zero.
            return compare_doubles(0.0, other);
        }
        let other_class = i8::from(other > 0.0) - i8::from(other < 0.0);
        self.order_class().cmp(&other_class).then_with(|| {
            // 767 significant digits represent every double exactly.
            let (digits, other_exponent) = expand_double(other, 767);
            let order = compare_digits(
                (&coefficient.to_string(), exponent),
                (&digits, other_exponent),
            );
            if other < 0.0 { order.reverse() } else { order }
        })
    }

    /// Returns the position of the number relative to zero and infinities, independent of the
    /// digits.
    fn order_class(self) -> i8 {
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

/// Returns the decimal digits of a finite double's magnitude, and the exponent of the last digit.
fn expand_double(value: f64, digits: usize) -> (String, i32) {
    let text = format!("{:.*e}", digits - 1, value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    (mantissa.replace('.', ""), exponent + 1 - digits as i32)
}

/// Compares two magnitudes, each given as digits and the exponent of the last digit.
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

    fn parse_decimal(text: &str) -> Decimal {
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
        assert!(sorted.is_sorted_by(
            |a, b| parse_decimal(a).compare_decimal(parse_decimal(b)) == Ordering::Less
        ));
        assert_eq!(
            parse_decimal("1.0").compare_decimal(parse_decimal("1.000")),
            Ordering::Equal
        );
        assert_eq!(
            parse_decimal("-0").compare_decimal(parse_decimal("0E+5")),
            Ordering::Equal
        );
        assert_eq!(parse_decimal("0.1").compare_double(0.1), Ordering::Less);
        assert_eq!(parse_decimal("-2.5").compare_double(-2.5), Ordering::Equal);
        assert_eq!(
            parse_decimal("5").compare_double(f64::INFINITY),
            Ordering::Less
        );
        assert_eq!(parse_decimal("-5").compare_double(3.0), Ordering::Less);
        assert_eq!(
            parse_decimal("NaN").compare_double(f64::NAN),
            Ordering::Equal
        );
    }
}
