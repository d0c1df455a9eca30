//! Roots, powers, logarithms and trigonometry of decimals.
//!
//! The server computes most of them in binary floating point numbers of 113 bits, in which some
//! decimals have no exact form. The last digits of a result depend on that, so it is done alike here.

use dashu_float::round::Rounded;
use dashu_float::round::mode::{HalfEven, Zero};
use dashu_float::{Context, FBig, FpResult, Repr};

use super::rounding::Rounding;
use super::wide::Wide;
use super::{BIAS, Decimal, LIMIT};

type Binary = FBig<HalfEven, 2>;
type Digits = FBig<HalfEven, 10>;

/// The bits of the server's intermediate results.
const BITS: usize = 113;
/// Digits in which sums and products of decimals are exact.
const EXACT: usize = 150;
/// Beyond this the exponential function has no decimal any more, neither there nor at its negative.
const LARGEST_EXPONENT: f64 = 14_300.0;

/// π/2 times 2^112, cut off, and 1/ln 10 times 2^114.
const HALF_PI: i128 = 0x0001_921f_b544_42d1_8469_898c_c517_01b8;
const ONE_BY_LN_10: i128 = 0x0001_bcb7_b152_6e50_e32a_6ab7_555f_5a68;
const HALF: Decimal = Decimal::Finite {
    negative: false,
    coefficient: 5,
    exponent: -1,
};

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
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
    /// The value of the function. NaN where it has none.
    pub(crate) fn apply(self, function: Function) -> Decimal {
        use Function as F;
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
                    F::Exp if magnitude > LARGEST_EXPONENT && negative => Decimal::least(false),
                    F::Exp | F::Cosh if magnitude > LARGEST_EXPONENT => {
                        Decimal::Infinity { negative: false }
                    }
                    F::Sinh if magnitude > LARGEST_EXPONENT => Decimal::Infinity { negative },
                    F::Tanh if magnitude > LARGEST_EXPONENT => {
                        Decimal::from_integer(1).signed(negative)
                    }
                    // So near to zero that no digit of a decimal shows the difference.
                    F::Cos if x.is_beyond(-52) => Decimal::from_integer(1).padded(),
                    F::Sin | F::Tan if x.is_beyond(-52) => x.padded(),
                    F::Atanh if x.is_beyond(-50) => x,
                    F::Cosh if magnitude <= 1e-40 => Decimal::from_integer(1).padded(),
                    F::Asin | F::Sinh if magnitude <= 1e-40 => x.padded(),
                    F::Acos | F::Acosh | F::Atanh | F::Ln | F::Log10 | F::Log2
                        if x.compare_decimal(Decimal::from_integer(1)).is_eq() =>
                    {
                        match function {
                            F::Acos => Decimal::least(false),
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

    fn apply_finite(self, function: Function) -> Decimal {
        use Function as F;
        let context = quad();
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
                of_binary(log.map(halved)).signed(self.is_negative())
            }
            F::Cosh | F::Sinh => self.apply_hyperbolic(function == F::Cosh),
            F::Exp => of_binary(self.to_exponential()),
            F::Cos | F::Sin | F::Tan => self.apply_circular(function),
            F::Ln => of_binary(self.to_logarithm()),
            F::Log10 => self.to_logarithm().map_or(Decimal::NaN, |log| {
                let scale = constant(ONE_BY_LN_10, -114);
                from_binary(in_quad(log.value() * scale))
            }),
            F::Log2 => {
                // Wide enough for whole results to come out whole.
                let wide = Context::<HalfEven>::new(2 * BITS);
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

    /// Near ±1, where the arc is steep, it is computed from the other coordinate.
    fn apply_inverse(self, function: Function) -> Decimal {
        let is_cosine = function == Function::Acos;
        let x = self.to_binary();
        if self.abs().to_double() <= 0.7 {
            return of_binary(if is_cosine {
                quad().acos(x.repr(), None)
            } else {
                quad().asin(x.repr(), None)
            });
        }
        let square = self.to_exact() * self.to_exact();
        let other = from_digits(&rounded(Digits::ONE - square), true).to_binary();
        let Ok(other) = quad().sqrt(other.repr()).map(Rounded::value) else {
            return Decimal::NaN;
        };
        let arc = if is_cosine {
            quad().asin(other.repr(), None)
        } else {
            quad().acos(other.repr(), None)
        };
        let Ok(arc) = arc.map(Rounded::value) else {
            return Decimal::NaN;
        };
        match (self.is_negative(), is_cosine) {
            (false, _) => from_binary(arc),
            (true, false) => from_binary(arc).negated(),
            (true, true) => from_binary(in_quad(constant(HALF_PI, -111) - arc)),
        }
    }

    /// By the exponential function, but for small numbers.
    fn apply_hyperbolic(self, is_cosine: bool) -> Decimal {
        let x = self.to_binary();
        let magnitude = self.abs();
        let negative = self.is_negative() && !is_cosine;
        if magnitude.to_double() <= 1.0 {
            return of_binary(if is_cosine {
                quad().cosh(x.repr(), None)
            } else {
                quad().sinh(x.repr(), None)
            });
        }
        if magnitude.to_double() <= 64.0 {
            let power = magnitude.apply(Function::Exp);
            let rest = Decimal::from_integer(1).divide(power).multiply(HALF);
            let rest = if is_cosine { rest } else { rest.negated() };
            return power.fused(HALF, rest).signed(negative);
        }
        let Some(whole) = magnitude.quantize(0, Rounding::HalfEven) else {
            return Decimal::NaN;
        };
        let rest = magnitude.subtract(whole);
        let power = |number: Decimal| quad().exp(number.to_binary().repr(), None);
        match (power(whole), power(rest)) {
            (Ok(whole), Ok(rest)) => {
                let product = in_quad(whole.value() * rest.value());
                from_binary(product / 2_u8).signed(negative)
            }
            _ => Decimal::NaN,
        }
    }

    /// The decimal itself is reduced to an eighth of a turn, and only then made binary.
    fn apply_circular(self, function: Function) -> Decimal {
        let Decimal::Finite { exponent, .. } = self else {
            return Decimal::NaN;
        };
        let context = quad();
        if exponent < -35 {
            // What has so many digits behind the point is small enough already.
            let x = self.to_binary();
            return of_binary(match function {
                Function::Cos => context.cos(x.repr(), None),
                Function::Sin => context.sin(x.repr(), None),
                _ => context.tan(x.repr(), None),
            });
        }
        let (quarter, angle) = self.reduced();
        let angle = angle.repr();
        let cosine = match function {
            Function::Tan => {
                let Ok(tangent) = context.tan(angle, None).map(Rounded::value) else {
                    return Decimal::NaN;
                };
                return if quarter % 2 == 0 {
                    from_binary(tangent)
                } else {
                    from_binary(in_quad(-Binary::ONE / tangent))
                };
            }
            Function::Cos => quarter % 2 == 0,
            _ => quarter % 2 == 1,
        };
        let value = of_binary(if cosine {
            context.cos(angle, None)
        } else {
            context.sin(angle, None)
        });
        let negative = match function {
            Function::Cos => quarter == 1 || quarter == 2,
            _ => quarter >= 2,
        };
        if negative { value.negated() } else { value }
    }

    /// The number as a quarter of a turn, from 0 to 3, and an angle between −π/4 and π/4.
    fn reduced(self) -> (u32, Binary) {
        let Decimal::Finite {
            negative, exponent, ..
        } = self
        else {
            return (0, Binary::ZERO);
        };
        // Enough digits for those in front of the point, which go, and three times those that stay.
        let digits = exponent.max(0).unsigned_abs() as usize + EXACT;
        let x = self.abs().to_exact().with_precision(digits).value();
        let quarters = x * 2_u8 / Digits::pi(digits);
        let mut whole = quarters.floor();
        let mut rest = quarters - &whole;
        let mut negative_rest = negative;
        let half = Digits::from_parts(5.into(), -1);
        if rest >= half {
            whole += Digits::ONE;
            rest = Digits::ONE - rest;
            negative_rest = !negative;
        }
        let quarter = u32::try_from(whole.to_int().value() % 4).unwrap_or_default();
        let quarter = if negative { (4 - quarter) % 4 } else { quarter };
        // The part of a quarter is cut off, not rounded.
        let rest = rest
            .with_rounding::<Zero>()
            .with_base_and_precision::<2>(BITS);
        let rest = rest.value().with_rounding::<HalfEven>();
        let angle = in_quad(rest * constant(HALF_PI, -112));
        (quarter, if negative_rest { -angle } else { angle })
    }

    /// e to the power of the number. What its binary form lacks is made up for afterwards.
    fn to_exponential(self) -> FpResult<Binary> {
        let (high, low) = self.to_parts();
        let power = quad().exp(high.repr(), None)?.value();
        let correction = in_quad(power.clone() * low);
        Ok(Rounded::Exact(in_quad(power + correction)))
    }

    /// The natural logarithm. Near 1, what the binary form of the number lacks is made up for.
    fn to_logarithm(self) -> FpResult<Binary> {
        let x = self.to_binary();
        let mut log = quad().ln(x.repr(), None)?.value();
        let excess = in_quad(x.clone() - Binary::ONE);
        if excess.to_f64().value().abs() < 0.5 {
            let exact = self.subtract(Decimal::from_integer(1)).to_binary();
            let correction = in_quad(in_quad(excess - exact) / x);
            log = in_quad(log - correction);
        }
        Ok(Rounded::Exact(log))
    }

    /// The angle of the point (`x`, `self`), between −π and π.
    pub(crate) fn atan2(self, x: Decimal) -> Decimal {
        use Decimal as D;
        let unit = |number: Decimal| match number {
            D::Infinity { negative } => D::from_integer(1).signed(negative),
            number => D::from_integer(0).signed(number.is_negative()),
        };
        let (y, x) = match (self, x) {
            (D::NaN, _) | (_, D::NaN) => return D::NaN,
            (D::Infinity { .. }, _) | (_, D::Infinity { .. }) => (unit(self), unit(x)),
            both => both,
        };
        if y.is_zero() && !x.is_negative() {
            return D::least(y.is_negative());
        }
        let angle = quad().atan2(y.to_binary().repr(), x.to_binary().repr(), None);
        let angle = of_binary(angle);
        // A zero without its sign lies on the other side of the axis.
        if self.is_negative() {
            angle.abs().negated()
        } else {
            angle
        }
    }

    /// The logarithm to some base, both above zero.
    pub(crate) fn logarithm(self, base: Decimal) -> Decimal {
        let is = |number| base.compare_decimal(Decimal::from_integer(number)).is_eq();
        if is(2) {
            self.apply(Function::Log2)
        } else if is(10) {
            self.apply(Function::Log10)
        } else {
            // The server divides by the base where its logarithm is due, and so do we.
            self.apply(Function::Ln).divide(base)
        }
    }

    /// The number to the power of another. Finite results have all 34 digits.
    pub(crate) fn power(self, exponent: Decimal) -> Decimal {
        use Decimal as D;
        if exponent.is_zero() {
            return D::from_integer(1).padded();
        }
        let (D::Finite { .. }, D::Finite { .. }, false) = (self, exponent, self.is_zero()) else {
            // Zeros, infinities and NaN are the same in both kinds of number.
            let power = D::from_double_exact(self.to_double().powf(exponent.to_double()));
            return if power.is_zero() {
                D::least(false)
            } else {
                power.padded()
            };
        };
        let is_whole = exponent
            .quantize(0, Rounding::Down)
            .is_none_or(|whole| whole.compare_decimal(exponent).is_eq());
        let is_odd = exponent
            .remainder(D::from_integer(2))
            .abs()
            .compare_decimal(D::from_integer(1))
            .is_eq();
        if self.is_negative() && !is_whole {
            return D::NaN;
        }
        let negative = self.is_negative() && is_odd;
        let is = |number| self.compare_decimal(D::from_integer(number)).is_eq();
        if is(2) || is(10) {
            // The server has functions of their own for these.
            match exponent.to_double() {
                large if large > LARGEST_EXPONENT * 2.0 => return D::Infinity { negative: false },
                small if small < -LARGEST_EXPONENT * 2.0 => return D::least(false),
                _ => {}
            }
            let power = Context::<HalfEven>::new(EXACT).powf(
                self.to_exact().repr(),
                exponent.to_exact().repr(),
                None,
            );
            return power.map_or(D::NaN, |power| {
                let power = power.value();
                if is_whole {
                    from_digits(&rounded(power), false)
                } else {
                    from_binary(power.with_base_and_precision::<2>(BITS).value()).padded()
                }
            });
        }
        let Ok(log) = Context::<HalfEven>::new(EXACT).ln(self.abs().to_exact().repr(), None) else {
            return D::NaN;
        };
        // The logarithm in two parts, the first with 28 places behind the point.
        let log = log.value();
        let (high, low) = if log.to_f64().value().abs() < 1e-9 {
            let high = rounded(log.clone());
            let low = rounded(log - &high);
            (high, low)
        } else {
            let high = (log.clone() << 28).trunc() >> 28;
            let low = ((log - &high) << 47).trunc() >> 47;
            (high, low)
        };
        let (high, low) = (from_digits(&high, true), from_digits(&low, true));
        let product = exponent.multiply(high);
        let rest = exponent.fused(high, product.negated());
        let rest = exponent.fused(low, rest);
        let power = product.apply(Function::Exp);
        match power {
            D::Finite { coefficient: 0, .. } => D::least(false),
            D::Finite { .. } => power.fused(rest, power).padded().signed(negative),
            power => power,
        }
    }

    /// The square root. NaN for numbers below zero.
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
            return Decimal::zero(negative, preferred);
        }
        match Context::<HalfEven>::new(34).sqrt(self.to_exact().repr()) {
            Ok(Rounded::Exact(root)) => with_exponent(&root).towards(preferred),
            Ok(Rounded::Inexact(root, _)) => from_digits(&root, false),
            Err(_) => Decimal::NaN,
        }
    }

    /// `self × factor + addend`, rounded only once.
    fn fused(self, factor: Decimal, addend: Decimal) -> Decimal {
        let sum = self.to_exact() * factor.to_exact() + addend.to_exact();
        from_digits(&rounded(sum), false)
    }

    /// A finite number, ready for exact sums and products.
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
        number.with_precision(EXACT).value()
    }

    /// The nearest number that the server computes with.
    fn to_binary(self) -> Binary {
        self.to_exact().with_base_and_precision::<2>(BITS).value()
    }

    /// The number's first digits as the server computes with them, and what they lack.
    fn to_parts(self) -> (Binary, Binary) {
        let wide = self
            .to_exact()
            .with_base_and_precision::<2>(4 * BITS)
            .value();
        let high = wide.clone().with_rounding::<Zero>().with_precision(BITS);
        let high = high.value().with_rounding::<HalfEven>();
        let low = in_quad(wide - &high);
        (high, low)
    }

    /// Whether the last digit stands behind a place of the digits behind the point.
    fn is_beyond(self, place: i32) -> bool {
        matches!(self, Decimal::Finite { exponent, .. } if exponent < place)
    }

    /// What is left of a number too small for a decimal.
    fn least(negative: bool) -> Decimal {
        Decimal::zero(negative, -BIAS)
    }

    /// The same number, with all 34 digits if there is room.
    pub(super) fn padded(self) -> Decimal {
        self.towards(i32::MIN)
    }

    /// The same number, with an exponent as near to a smaller one as its digits allow.
    fn towards(self, preferred: i32) -> Decimal {
        let Decimal::Finite {
            negative,
            mut coefficient,
            mut exponent,
        } = self
        else {
            return self;
        };
        while coefficient != 0 && coefficient < LIMIT / 10 && exponent > preferred.max(-BIAS) {
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

fn at_infinity(function: Function, negative: bool) -> Decimal {
    use Function as F;
    let half_pi = || Decimal::from_integer(1).atan2(Decimal::from_integer(0));
    match function {
        F::Asinh | F::Sinh => Decimal::Infinity { negative },
        F::Atan => half_pi().signed(negative),
        F::Tanh => Decimal::from_integer(1).signed(negative),
        F::Cosh => Decimal::Infinity { negative: false },
        F::Exp if negative => Decimal::from_integer(0),
        F::Acosh | F::Exp | F::Ln | F::Log10 | F::Log2 if !negative => {
            Decimal::Infinity { negative }
        }
        _ => Decimal::NaN,
    }
}

fn at_zero(function: Function, negative: bool, exponent: i32) -> Decimal {
    use Function as F;
    match function {
        F::Sin | F::Atan | F::Tanh => Decimal::zero(negative, exponent),
        // The server multiplies the number by a tiny one.
        F::Asin | F::Sinh | F::Tan => Decimal::zero(negative, exponent - 40),
        F::Asinh | F::Atanh => Decimal::least(negative),
        F::Cos | F::Cosh => Decimal::from_integer(1).padded(),
        F::Exp => Decimal::from_integer(1),
        F::Acos => Decimal::from_integer(1).atan2(Decimal::from_integer(0)),
        F::Acosh => Decimal::NaN,
        F::Ln | F::Log10 | F::Log2 => Decimal::Infinity { negative: true },
    }
}

fn quad() -> Context<HalfEven> {
    Context::new(BITS)
}

fn in_quad(number: Binary) -> Binary {
    number.with_precision(BITS).value()
}

fn rounded(number: Digits) -> Digits {
    number.with_precision(34).value()
}

fn constant(significand: i128, exponent: isize) -> Binary {
    Binary::from_parts(significand.into(), exponent)
}

fn halved(number: Rounded<Binary>) -> Rounded<Binary> {
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

/// A number of up to 34 digits: an exact one with as few of them as possible, but for whole ones
/// with the exponent zero, others with all of them.
fn from_digits(number: &Digits, is_exact: bool) -> Decimal {
    with_exponent(number).towards(if is_exact { 0 } else { i32::MIN })
}

/// A number of up to 34 digits, with as few of them as possible.
fn with_exponent(number: &Digits) -> Decimal {
    let repr = number.repr();
    let significand = i128::try_from(repr.significand().clone()).unwrap_or_default();
    let negative = significand < 0;
    match i32::try_from(repr.exponent()) {
        Ok(exponent) => Decimal::round(
            negative,
            Wide::from(significand.unsigned_abs()),
            exponent,
            false,
        ),
        Err(_) => Decimal::Infinity { negative },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::from_bson(text.parse().unwrap())
    }

    /// Values of a MongoDB 6.0 server.
    #[test]
    fn functions_have_the_digits_of_the_server() {
        use Function as F;
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
            let computed = decimal(x).apply(function).to_bson().to_string();
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
            let computed = decimal(base).power(decimal(exponent)).to_bson().to_string();
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
            assert_eq!(decimal(number).sqrt().to_bson().to_string(), root);
        }
    }
}
