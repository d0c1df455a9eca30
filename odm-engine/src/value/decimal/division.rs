//! Division of decimals.

use super::wide::WideCoefficient;
use super::{COEFFICIENT_LIMIT, Decimal};

impl Decimal {
    /// Returns the quotient. An exact quotient has the difference of the exponents if possible.
    /// Other quotients have 34 digits, rounded half to even.
    pub(crate) fn divide(self, other: Decimal) -> Decimal {
        use Decimal as D;
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (D::NaN, _) | (_, D::NaN) | (D::Infinity { .. }, D::Infinity { .. }) => D::NaN,
            (D::Infinity { .. }, _) => D::Infinity { negative },
            (_, D::Infinity { .. }) => D::zero_with_exponent(negative, i32::MIN),
            (D::Finite { coefficient: 0, .. }, D::Finite { coefficient: 0, .. }) => D::NaN,
            (_, D::Finite { coefficient: 0, .. }) => D::Infinity { negative },
            (
                D::Finite {
                    coefficient: a,
                    exponent: a_exponent,
                    ..
                },
                D::Finite {
                    coefficient: b,
                    exponent: b_exponent,
                    ..
                },
            ) => {
                let (mut quotient, mut remainder) = (a / b, a % b);
                let mut exponent = a_exponent - b_exponent;
                // Compute one digit more than fits, so that the rounding is correct.
                while remainder != 0 && quotient < COEFFICIENT_LIMIT {
                    remainder *= 10;
                    quotient = quotient * 10 + remainder / b;
                    remainder %= b;
                    exponent -= 1;
                }
                if quotient == 0 {
                    return D::zero_with_exponent(negative, exponent);
                }
                D::round_wide(
                    negative,
                    WideCoefficient::from(quotient),
                    exponent,
                    remainder != 0,
                )
            }
        }
    }

    /// Returns the remainder of the division truncated to a whole number, with the sign of the
    /// dividend.
    pub(crate) fn remainder(self, other: Decimal) -> Decimal {
        use Decimal as D;
        match (self, other) {
            (D::NaN | D::Infinity { .. }, _) | (_, D::NaN | D::Finite { coefficient: 0, .. }) => {
                D::NaN
            }
            (_, D::Infinity { .. }) => self,
            (
                D::Finite {
                    negative,
                    coefficient: a,
                    exponent: a_exponent,
                },
                D::Finite {
                    coefficient: b,
                    exponent: b_exponent,
                    ..
                },
            ) => {
                let gap = b_exponent - a_exponent;
                if gap <= 0 {
                    return D::Finite {
                        negative,
                        coefficient: scaled_remainder(a, gap.unsigned_abs(), b),
                        exponent: b_exponent,
                    };
                }
                let divisor = 10_u128
                    .checked_pow(gap.unsigned_abs())
                    .and_then(|scale| b.checked_mul(scale));
                D::Finite {
                    negative,
                    // A divisor that overflows is larger than every coefficient, so the dividend is
                    // the remainder.
                    coefficient: divisor.map_or(a, |divisor| a % divisor),
                    exponent: a_exponent,
                }
            }
        }
    }
}

/// Returns the remainder of `number × 10^scale`, for a divisor of up to 34 digits.
fn scaled_remainder(number: u128, scale: u32, divisor: u128) -> u128 {
    const MAX_STEP_DIGITS: u32 = 4;
    let mut remainder = number % divisor;
    let mut scale = scale;
    while scale > 0 && remainder != 0 {
        let step = scale.min(MAX_STEP_DIGITS);
        remainder = remainder * 10_u128.pow(step) % divisor;
        scale -= step;
    }
    remainder
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_decimal(text: &str) -> Decimal {
        Decimal::from_bson(text.parse().unwrap())
    }

    #[test]
    fn quotients_and_remainders_have_their_exponents() {
        for (a, b, quotient, remainder) in [
            ("1", "3", "0.3333333333333333333333333333333333", "1"),
            ("2", "3", "0.6666666666666666666666666666666667", "2"),
            ("6.00", "3", "2.00", "0.00"),
            ("6", "3.00", "2", "0.00"),
            ("1E+10", "8", "1.25E+9", "0"),
            ("100", "5E+3", "0.020", "100"),
            ("-7.5", "2.00", "-3.75", "-1.50"),
            ("1E+6000", "1E-6000", "Infinity", "0E-6000"),
            ("0", "5E+5", "0.00000", "0"),
            (
                "1E+6111",
                "7",
                "1.428571428571428571428571428571429E+6110",
                "6",
            ),
        ] {
            let (a, b) = (parse_decimal(a), parse_decimal(b));
            assert_eq!(a.divide(b).to_bson().to_string(), quotient);
            assert_eq!(a.remainder(b).to_bson().to_string(), remainder);
        }
    }
}
