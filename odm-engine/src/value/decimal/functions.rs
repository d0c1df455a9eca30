//! Roots, powers, logarithms and trigonometry of decimals.
//!
//! The server computes most of these functions in 113-bit binary floating point, where some
//! decimals have no exact form. The last digits depend on the method, so this module copies the
//! server's method.

use dashu_float::round::Rounded;
use dashu_float::round::mode::{HalfEven, Zero};
use dashu_float::{Context, FBig, FpResult, Repr};

use super::rounding::Rounding;
use super::wide::WideCoefficient;
use super::{COEFFICIENT_LIMIT, Decimal, EXPONENT_BIAS};

type Binary = FBig<HalfEven, 2>;
type Digits = FBig<HalfEven, 10>;

/// The precision of the server's intermediate results in bits.
const QUAD_BITS: usize = 113;
/// The precision in decimal digits at which sums and products of decimals are exact.
const EXACT_DIGITS: usize = 150;
/// The magnitude above which the exponential function overflows or underflows a decimal.
const MAX_EXP_ARGUMENT: f64 = 14_300.0;

/// π/2 times 2^112, truncated, and 1/ln 10 times 2^114.
const HALF_PI: i128 = 0x0001_921f_b544_42d1_8469_898c_c517_01b8;
const ONE_BY_LN_10: i128 = 0x0001_bcb7_b152_6e50_e32a_6ab7_555f_5a68;
const ONE_HALF: Decimal = Decimal::Finite {
    negative: false,
    coefficient: 5,
    exponent: -1,
};

/// The functions of one decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecimalFunction {
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    Cos,
    Cosh,
    Exp,
    Ln,
    Log10,
    Log2,
    Sin,
    Sinh,
    Tan,
    Tanh,
}

impl Decimal {
    /// Returns the value of the function. NaN outside of the function's domain.
    pub(crate) fn apply_function(self, function: DecimalFunction) -> Decimal {
        use DecimalFunction as F;
        match self {
            Decimal::NaN => Decimal::NaN,
            Decimal::Infinity { negative } => at_infinity(function, negative),
            Decimal::Finite {
                negative,
                coefficient: 0,
                exponent,
            } => at_zero(function, negative, exponent),
            x => {
                let negative = x.is_negative();
                let magnitude = x.abs().to_double();
                match function {
                    F::Exp if magnitude > MAX_EXP_ARGUMENT && negative => {
                        Decimal::underflow_zero(false)
                    }
                    F::Exp | F::Cosh if magnitude > MAX_EXP_ARGUMENT => {
                        Decimal::Infinity { negative: false }
                    }
                    F::Sinh if magnitude > MAX_EXP_ARGUMENT => Decimal::Infinity { negative },
                    F::Tanh if magnitude > MAX_EXP_ARGUMENT => {
                        Decimal::from_integer(1).with_sign(negative)
                    }
                    // So close to zero that no digit of a decimal differs.
                    F::Cos if x.is_beyond(-52) => Decimal::from_integer(1).padded_to_34_digits(),
                    F::Sin | F::Tan if x.is_beyond(-52) => x.padded_to_34_digits(),
                    F::Atanh if x.is_beyond(-50) => x,
                    F::Cosh if magnitude <= 1e-40 => Decimal::from_integer(1).padded_to_34_digits(),
                    F::Asin | F::Sinh if magnitude <= 1e-40 => x.padded_to_34_digits(),
                    F::Acos | F::Acosh | F::Atanh | F::Ln | F::Log10 | F::Log2
                        if x.compare_decimal(Decimal::from_integer(1)).is_eq() =>
                    {
                        match function {
                            F::Acos => Decimal::underflow_zero(false),
                            F::Atanh => Decimal::Infinity { negative: false },
                            _ => Decimal::from_integer(0),
                        }
                    }
                    F::Atanh if x.compare_decimal(Decimal::from_integer(-1)).is_eq() => {
                        Decimal::Infinity { negative: true }
                    }
                    _ => x.apply_finite(function),
                }
            }
        }
    }

    fn apply_finite(self, function: DecimalFunction) -> Decimal {
        use DecimalFunction as F;
        let context = quad_context();
        let x = self.to_binary();
        let x = x.repr();
        match function {
            F::Acos | F::Asin => self.apply_inverse(function),
            F::Acosh => of_binary(context.acosh(x, None)),
            F::Asinh => of_binary(context.asinh(x, None)),
            F::Atan => of_binary(context.atan(x, None)),
            F::Tanh => of_binary(context.tanh(x, None)),
            F::Atanh => {
                let magnitude = self.abs();
                let ratio = magnitude.divide(Decimal::from_integer(1).subtract(magnitude));
                let log = context.ln_1p(ratio.add(ratio).to_binary().repr(), None);
                of_binary(log.map(half_of)).with_sign(self.is_negative())
            }
            F::Cosh | F::Sinh => self.apply_hyperbolic(function == F::Cosh),
            F::Exp => of_binary(self.to_exponential()),
            F::Cos | F::Sin | F::Tan => self.apply_circular(function),
            F::Ln => of_binary(self.to_logarithm()),
            F::Log10 => self.to_logarithm().map_or(Decimal::NaN, |log| {
                let scale = binary_constant(ONE_BY_LN_10, -114);
                from_binary(in_quad(log.value() * scale))
            }),
            F::Log2 => {
                // Double precision, so that whole results are exact.
                let wide = Context::<HalfEven>::new(2 * QUAD_BITS);
                match (
                    wide.ln(x, None),
                    wide.ln(&Repr::<2>::new(2.into(), 0), None),
                ) {
                    (Ok(log), Ok(base)) => from_binary(in_quad(log.value() / base.value())),
                    _ => Decimal::NaN,
                }
            }
        }
    }

    /// Computes arc sine or arc cosine. Near ±1, where the function is steep, the other coordinate
    /// gives a more precise result.
    fn apply_inverse(self, function: DecimalFunction) -> Decimal {
        let is_cosine = function == DecimalFunction::Acos;
        let x = self.to_binary();
        if self.abs().to_double() <= 0.7 {
            return of_binary(if is_cosine {
                quad_context().acos(x.repr(), None)
            } else {
                quad_context().asin(x.repr(), None)
            });
        }
        let square = self.to_exact() * self.to_exact();
        let other = from_digits(&round_to_34_digits(Digits::ONE - square), true).to_binary();
        let Ok(other) = quad_context().sqrt(other.repr()).map(Rounded::value) else {
            return Decimal::NaN;
        };
        let arc = if is_cosine {
            quad_context().asin(other.repr(), None)
        } else {
            quad_context().acos(other.repr(), None)
        };
        let Ok(arc) = arc.map(Rounded::value) else {
            return Decimal::NaN;
        };
        match (self.is_negative(), is_cosine) {
            (false, _) => from_binary(arc),
            (true, false) => from_binary(arc).negated(),
            (true, true) => from_binary(in_quad(binary_constant(HALF_PI, -111) - arc)),
        }
    }

    /// Computes the hyperbolic sine or cosine with the exponential function, except for small
    /// numbers.
    fn apply_hyperbolic(self, is_cosine: bool) -> Decimal {
        let x = self.to_binary();
        let magnitude = self.abs();
        let negative = self.is_negative() && !is_cosine;
        if magnitude.to_double() <= 1.0 {
            return of_binary(if is_cosine {
                quad_context().cosh(x.repr(), None)
            } else {
                quad_context().sinh(x.repr(), None)
            });
        }
        if magnitude.to_double() <= 64.0 {
            let power = magnitude.apply_function(DecimalFunction::Exp);
            let rest = Decimal::from_integer(1).divide(power).multiply(ONE_HALF);
            let rest = if is_cosine { rest } else { rest.negated() };
            return power.multiply_add(ONE_HALF, rest).with_sign(negative);
        }
        let Some(integer) = magnitude.quantize(0, Rounding::HalfEven) else {
            return Decimal::NaN;
        };
        let rest = magnitude.subtract(integer);
        let power = |number: Decimal| quad_context().exp(number.to_binary().repr(), None);
        match (power(integer), power(rest)) {
            (Ok(integer), Ok(rest)) => {
                let product = in_quad(integer.value() * rest.value());
                from_binary(product / 2_u8).with_sign(negative)
            }
            _ => Decimal::NaN,
        }
    }

    /// Computes sine, cosine or tangent. The decimal is reduced to an eighth of a turn before the
    /// conversion to binary, because a large number would lose its angle.
    fn apply_circular(self, function: DecimalFunction) -> Decimal {
        let Decimal::Finite { exponent, .. } = self else {
            return Decimal::NaN;
        };
        let context = quad_context();
        if exponent < -35 {
            // A number with this many decimal places is already small.
            let x = self.to_binary();
            return of_binary(match function {
                DecimalFunction::Cos => context.cos(x.repr(), None),
                DecimalFunction::Sin => context.sin(x.repr(), None),
                _ => context.tan(x.repr(), None),
            });
        }
        let (quarter, angle) = self.reduce_angle();
        let angle = angle.repr();
        let cosine = match function {
            DecimalFunction::Tan => {
                let Ok(tangent) = context.tan(angle, None).map(Rounded::value) else {
                    return Decimal::NaN;
                };
                return if quarter % 2 == 0 {
                    from_binary(tangent)
                } else {
                    from_binary(in_quad(-Binary::ONE / tangent))
                };
            }
            DecimalFunction::Cos => quarter % 2 == 0,
            _ => quarter % 2 == 1,
        };
        let value = of_binary(if cosine {
            context.cos(angle, None)
        } else {
            context.sin(angle, None)
        });
        let negative = match function {
            DecimalFunction::Cos => quarter == 1 || quarter == 2,
            _ => quarter >= 2,
        };
        if negative { value.negated() } else { value }
    }

    /// Reduces the number to a quarter turn, from 0 to 3, and an angle between −π/4 and π/4.
    fn reduce_angle(self) -> (u32, Binary) {
        let Decimal::Finite {
            negative, exponent, ..
        } = self
        else {
            return (0, Binary::ZERO);
        };
        // Enough digits for the whole part, which is discarded, and three times the digits that
        // remain.
        let digits = exponent.max(0).unsigned_abs() as usize + EXACT_DIGITS;
        let x = self.abs().to_exact().with_precision(digits).value();
        let quarters = x * 2_u8 / Digits::pi(digits);
        let mut integer = quarters.floor();
        let mut rest = quarters - &integer;
        let mut negative_rest = negative;
        let half = Digits::from_parts(5.into(), -1);
        if rest >= half {
            integer += Digits::ONE;
            rest = Digits::ONE - rest;
            negative_rest = !negative;
        }
        let quarter = u32::try_from(integer.to_int().value() % 4).unwrap_or_default();
        let quarter = if negative { (4 - quarter) % 4 } else { quarter };
        // As on the server, the fraction of a quarter turn is truncated, not rounded.
        let rest = rest
            .with_rounding::<Zero>()
            .with_base_and_precision::<2>(QUAD_BITS);
        let rest = rest.value().with_rounding::<HalfEven>();
        let angle = in_quad(rest * binary_constant(HALF_PI, -112));
        (quarter, if negative_rest { -angle } else { angle })
    }

    /// Returns e to the power of the number. The error of the binary conversion is corrected
    /// afterwards.
    fn to_exponential(self) -> FpResult<Binary> {
        let (high, low) = self.to_parts();
        let power = quad_context().exp(high.repr(), None)?.value();
        let correction = in_quad(power.clone() * low);
        Ok(Rounded::Exact(in_quad(power + correction)))
    }

    /// Returns the natural logarithm. Near 1, the error of the binary conversion is corrected.
    fn to_logarithm(self) -> FpResult<Binary> {
        let x = self.to_binary();
        let mut log = quad_context().ln(x.repr(), None)?.value();
        let offset = in_quad(x.clone() - Binary::ONE);
        if offset.to_f64().value().abs() < 0.5 {
            let exact = self.subtract(Decimal::from_integer(1)).to_binary();
            let correction = in_quad(in_quad(offset - exact) / x);
            log = in_quad(log - correction);
        }
        Ok(Rounded::Exact(log))
    }

    /// Returns the angle of the point (`x`, `self`), between −π and π.
    pub(crate) fn atan2(self, x: Decimal) -> Decimal {
        use Decimal as D;
        let unit = |number: Decimal| match number {
            D::Infinity { negative } => D::from_integer(1).with_sign(negative),
            number => D::from_integer(0).with_sign(number.is_negative()),
        };
        let (y, x) = match (self, x) {
            (D::NaN, _) | (_, D::NaN) => return D::NaN,
            (D::Infinity { .. }, _) | (_, D::Infinity { .. }) => (unit(self), unit(x)),
            both => both,
        };
        if y.is_zero() && !x.is_negative() {
            return D::underflow_zero(y.is_negative());
        }
        let angle = quad_context().atan2(y.to_binary().repr(), x.to_binary().repr(), None);
        let angle = of_binary(angle);
        // Restore the sign. The binary zero has no sign, so the angle would be on the other side of
        // the axis.
        if self.is_negative() {
            angle.abs().negated()
        } else {
            angle
        }
    }

    /// Returns the logarithm to a base. Both numbers must be positive.
    pub(crate) fn logarithm(self, base: Decimal) -> Decimal {
        let is_base = |number| base.compare_decimal(Decimal::from_integer(number)).is_eq();
        if is_base(2) {
            self.apply_function(DecimalFunction::Log2)
        } else if is_base(10) {
            self.apply_function(DecimalFunction::Log10)
        } else {
            // The server divides by the base instead of by the logarithm of the base, and the
            // engine must agree.
            self.apply_function(DecimalFunction::Ln).divide(base)
        }
    }

    /// Returns the number raised to a power. Finite results have 34 digits.
    pub(crate) fn power(self, exponent: Decimal) -> Decimal {
        use Decimal as D;
        if exponent.is_zero() {
            return D::from_integer(1).padded_to_34_digits();
        }
        let (D::Finite { .. }, D::Finite { .. }, false) = (self, exponent, self.is_zero()) else {
            // Zeros, infinities and NaN behave alike in doubles and decimals.
            let power = D::from_double_exact(self.to_double().powf(exponent.to_double()));
            return if power.is_zero() {
                D::underflow_zero(false)
            } else {
                power.padded_to_34_digits()
            };
        };
        let is_integer = exponent
            .quantize(0, Rounding::Down)
            .is_none_or(|integer| integer.compare_decimal(exponent).is_eq());
        let is_odd = exponent
            .remainder(D::from_integer(2))
            .abs()
            .compare_decimal(D::from_integer(1))
            .is_eq();
        if self.is_negative() && !is_integer {
            return D::NaN;
        }
        let negative = self.is_negative() && is_odd;
        let is_base = |number| self.compare_decimal(D::from_integer(number)).is_eq();
        if is_base(2) || is_base(10) {
            // The server has special functions for the bases 2 and 10.
            match exponent.to_double() {
                large if large > MAX_EXP_ARGUMENT * 2.0 => return D::Infinity { negative: false },
                small if small < -MAX_EXP_ARGUMENT * 2.0 => return D::underflow_zero(false),
                _ => {}
            }
            let power = Context::<HalfEven>::new(EXACT_DIGITS).powf(
                self.to_exact().repr(),
                exponent.to_exact().repr(),
                None,
            );
            return power.map_or(D::NaN, |power| {
                let power = power.value();
                if is_integer {
                    from_digits(&round_to_34_digits(power), false)
                } else {
                    from_binary(power.with_base_and_precision::<2>(QUAD_BITS).value())
                        .padded_to_34_digits()
                }
            });
        }
        let Ok(log) = Context::<HalfEven>::new(EXACT_DIGITS).ln(self.abs().to_exact().repr(), None)
        else {
            return D::NaN;
        };
        // Split the logarithm into two parts, the first with 28 binary places.
        let log = log.value();
        let (high, low) = if log.to_f64().value().abs() < 1e-9 {
            let high = round_to_34_digits(log.clone());
            let low = round_to_34_digits(log - &high);
            (high, low)
        } else {
            let high = (log.clone() << 28).trunc() >> 28;
            let low = ((log - &high) << 47).trunc() >> 47;
            (high, low)
        };
        let (high, low) = (from_digits(&high, true), from_digits(&low, true));
        let product = exponent.multiply(high);
        let rest = exponent.multiply_add(high, product.negated());
        let rest = exponent.multiply_add(low, rest);
        let power = product.apply_function(DecimalFunction::Exp);
        match power {
            D::Finite { coefficient: 0, .. } => D::underflow_zero(false),
            D::Finite { .. } => power
                .multiply_add(rest, power)
                .padded_to_34_digits()
                .with_sign(negative),
            power => power,
        }
    }

    /// Returns the square root. NaN for negative numbers.
    pub(crate) fn sqrt(self) -> Decimal {
        let Decimal::Finite {
            negative,
            coefficient,
            exponent,
        } = self
        else {
            return if self == (Decimal::Infinity { negative: false }) {
                self
            } else {
                Decimal::NaN
            };
        };
        let preferred = exponent.div_euclid(2);
        if coefficient == 0 {
            return Decimal::zero_with_exponent(negative, preferred);
        }
        match Context::<HalfEven>::new(34).sqrt(self.to_exact().repr()) {
            Ok(Rounded::Exact(root)) => with_exponent(&root).towards_exponent(preferred),
            Ok(Rounded::Inexact(root, _)) => from_digits(&root, false),
            Err(_) => Decimal::NaN,
        }
    }

    /// Returns `self × factor + addend`, rounded once.
    fn multiply_add(self, factor: Decimal, addend: Decimal) -> Decimal {
        let sum = self.to_exact() * factor.to_exact() + addend.to_exact();
        from_digits(&round_to_34_digits(sum), false)
    }

    /// Converts a finite number to a form with exact sums and products.
    fn to_exact(self) -> Digits {
        let Decimal::Finite {
            negative,
            coefficient,
            exponent,
        } = self
        else {
            return Digits::ZERO;
        };
        let significand = i128::try_from(coefficient).unwrap_or_default();
        let significand = if negative { -significand } else { significand };
        let number = Digits::from_parts(significand.into(), exponent as isize);
        number.with_precision(EXACT_DIGITS).value()
    }

    /// Returns the nearest 113-bit binary number.
    fn to_binary(self) -> Binary {
        self.to_exact()
            .with_base_and_precision::<2>(QUAD_BITS)
            .value()
    }

    /// Returns the leading 113 bits of the number, and the rest.
    fn to_parts(self) -> (Binary, Binary) {
        let wide = self
            .to_exact()
            .with_base_and_precision::<2>(4 * QUAD_BITS)
            .value();
        let high = wide
            .clone()
            .with_rounding::<Zero>()
            .with_precision(QUAD_BITS);
        let high = high.value().with_rounding::<HalfEven>();
        let low = in_quad(wide - &high);
        (high, low)
    }

    /// Returns whether the last digit stands after the given decimal place.
    fn is_beyond(self, place: i32) -> bool {
        matches!(self, Decimal::Finite { exponent, .. } if exponent < place)
    }

    /// Returns the zero that a number too small for a decimal becomes.
    fn underflow_zero(negative: bool) -> Decimal {
        Decimal::zero_with_exponent(negative, -EXPONENT_BIAS)
    }

    /// Returns the same number with 34 digits if possible.
    pub(super) fn padded_to_34_digits(self) -> Decimal {
        self.towards_exponent(i32::MIN)
    }

    /// Returns the same number with an exponent as close to `preferred` as the digits allow.
    fn towards_exponent(self, preferred: i32) -> Decimal {
        let Decimal::Finite {
            negative,
            mut coefficient,
            mut exponent,
        } = self
        else {
            return self;
        };
        while coefficient != 0
            && coefficient < COEFFICIENT_LIMIT / 10
            && exponent > preferred.max(-EXPONENT_BIAS)
        {
            coefficient *= 10;
            exponent -= 1;
        }
        Decimal::Finite {
            negative,
            coefficient,
            exponent,
        }
    }
}

fn at_infinity(function: DecimalFunction, negative: bool) -> Decimal {
    use DecimalFunction as F;
    let half_pi = || Decimal::from_integer(1).atan2(Decimal::from_integer(0));
    match function {
        F::Asinh | F::Sinh => Decimal::Infinity { negative },
        F::Atan => half_pi().with_sign(negative),
        F::Tanh => Decimal::from_integer(1).with_sign(negative),
        F::Cosh => Decimal::Infinity { negative: false },
        F::Exp if negative => Decimal::from_integer(0),
        F::Acosh | F::Exp | F::Ln | F::Log10 | F::Log2 if !negative => {
            Decimal::Infinity { negative }
        }
        _ => Decimal::NaN,
    }
}

fn at_zero(function: DecimalFunction, negative: bool, exponent: i32) -> Decimal {
    use DecimalFunction as F;
    match function {
        F::Sin | F::Atan | F::Tanh => Decimal::zero_with_exponent(negative, exponent),
        // As on the server, which multiplies the number by a tiny number.
        F::Asin | F::Sinh | F::Tan => Decimal::zero_with_exponent(negative, exponent - 40),
        F::Asinh | F::Atanh => Decimal::underflow_zero(negative),
        F::Cos | F::Cosh => Decimal::from_integer(1).padded_to_34_digits(),
        F::Exp => Decimal::from_integer(1),
        F::Acos => Decimal::from_integer(1).atan2(Decimal::from_integer(0)),
        F::Acosh => Decimal::NaN,
        F::Ln | F::Log10 | F::Log2 => Decimal::Infinity { negative: true },
    }
}

fn quad_context() -> Context<HalfEven> {
    Context::new(QUAD_BITS)
}

fn in_quad(number: Binary) -> Binary {
    number.with_precision(QUAD_BITS).value()
}

fn round_to_34_digits(number: Digits) -> Digits {
    number.with_precision(34).value()
}

fn binary_constant(significand: i128, exponent: isize) -> Binary {
    Binary::from_parts(significand.into(), exponent)
}

fn half_of(number: Rounded<Binary>) -> Rounded<Binary> {
    Rounded::Exact(number.value() / 2_u8)
}

fn of_binary(result: FpResult<Binary>) -> Decimal {
    result.map_or(Decimal::NaN, |result| from_binary(result.value()))
}

fn from_binary(number: Binary) -> Decimal {
    match number.with_base_and_precision::<10>(34) {
        Rounded::Exact(number) => from_digits(&number, true),
        Rounded::Inexact(number, _) => from_digits(&number, false),
    }
}

/// Converts a number of up to 34 digits. An exact number has as few digits as possible, a whole
/// number the exponent 0. Other numbers have 34 digits.
fn from_digits(number: &Digits, is_exact: bool) -> Decimal {
    with_exponent(number).towards_exponent(if is_exact { 0 } else { i32::MIN })
}

/// Converts a number of up to 34 digits, with as few digits as possible.
fn with_exponent(number: &Digits) -> Decimal {
    let repr = number.repr();
    let significand = i128::try_from(repr.significand().clone()).unwrap_or_default();
    let negative = significand < 0;
    match i32::try_from(repr.exponent()) {
        Ok(exponent) => Decimal::round_wide(
            negative,
            WideCoefficient::from(significand.unsigned_abs()),
            exponent,
            false,
        ),
        Err(_) => Decimal::Infinity { negative },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_decimal(text: &str) -> Decimal {
        Decimal::from_bson(text.parse().unwrap())
    }

    /// Results of a MongoDB 6.0 server.
    #[test]
    fn functions_have_the_digits_of_the_server() {
        use DecimalFunction as F;
        for (function, x, value) in [
            (F::Acos, "-0.1", "1.670963747956456415576844871092445"),
            (F::Acosh, "1E+6000", "13816.20370514483404941736596022764"),
            (F::Asin, "0.72", "0.8038023189330300322118773314734336"),
            (F::Asinh, "1E-10", "9.999999999999999999983333333333334E-11"),
            (F::Atan, "Infinity", "1.570796326794896619231321691639751"),
            (
                F::Atanh,
                "0.0065555",
                "0.006555593909041709173926857873036476",
            ),
            (
                F::Cos,
                "8.619530626942055225635633947",
                "-0.6929329280216753289682021589751243",
            ),
            (F::Cosh, "0", "1.000000000000000000000000000000000"),
            (F::Exp, "1", "2.718281828459045235360287471352662"),
            (F::Exp, "-14220", "2E-6176"),
            (
                F::Ln,
                "2.718281828459045235360287471352662",
                "0.9999999999999999999999999999999998",
            ),
            (F::Log10, "1E+40", "40.00000000000000000000000000000001"),
            (F::Sin, "1E-10", "9.999999999999999999983333333333332E-11"),
            (F::Sin, "1E+6000", "-0.7249266534376325863453460198136025"),
            (F::Sinh, "-26", "-97864804714.41938213488564439353362"),
            (
                F::Tan,
                "6.5023704E+20",
                "1.693393327994585616935636937279783",
            ),
            (
                F::Tanh,
                "-1E-10",
                "-9.999999999999999999966666666666667E-11",
            ),
        ] {
            let computed = parse_decimal(x)
                .apply_function(function)
                .to_bson()
                .to_string();
            assert_eq!(computed, value, "{function:?} of {x}");
        }
    }

    #[test]
    fn powers_have_all_digits() {
        for (base, exponent, power) in [
            ("3", "35", "50031545098999706.99999999999999999"),
            ("5", "-112", "5.192296858534827628530496329220096E-79"),
            ("2", "3", "8.000000000000000000000000000000000"),
            ("10", "2", "100.0000000000000000000000000000000"),
            ("10.00", "-2", "0.01000000000000000000000000000000000"),
            ("2", "0.5", "1.414213562373095048801688724209698"),
            ("-2", "3", "-8.000000000000000000000000000000000"),
            ("0", "2", "0E-6176"),
            ("-2", "0.5", "NaN"),
            ("1E+6000", "2", "Infinity"),
            ("1E-6000", "2", "0E-6176"),
            ("10", "1E+6000", "Infinity"),
            ("2", "-1E+6000", "0E-6176"),
            ("3", "1E+6000", "Infinity"),
            ("1", "5", "1.000000000000000000000000000000000"),
        ] {
            let computed = parse_decimal(base)
                .power(parse_decimal(exponent))
                .to_bson()
                .to_string();
            assert_eq!(computed, power, "{base} to the power of {exponent}");
        }
    }

    #[test]
    fn roots_have_half_the_exponent() {
        for (number, root) in [
            ("4.00", "2.0"),
            ("1.44", "1.2"),
            ("4E+2", "2E+1"),
            ("0E+5", "0E+2"),
            ("2", "1.414213562373095048801688724209698"),
            ("0.5", "0.7071067811865475244008443621048490"),
        ] {
            assert_eq!(parse_decimal(number).sqrt().to_bson().to_string(), root);
        }
    }
}
