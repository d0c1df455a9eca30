//! Roots, powers, logarithms and trigonometry of decimals.
//!
//! The server computes most of them in binary floating point numbers of 113 bits, in which some
//! decimals have no exact form. The last digits of a result depend on that, so it is done alike here.

use dashu_float::round::Rounded;
use dashu_float::round::mode::HalfEven;
use dashu_float::{Context, FBig, FpResult, Repr};

use super::rounding::Rounding;
use super::wide::Wide;
use super::{BIAS, Decimal, LIMIT};

type Binary = FBig<HalfEven, 2>;
type Digits = FBig<HalfEven, 10>;

/// The bits of the server's intermediate results.
const BITS: usize = 113;
/// Digits that are more than enough to round to [`BITS`] or to a decimal afterwards.
const GUARDED: usize = 50;
/// Beyond this the exponential function has no decimal any more, neither there nor at its negative.
const LARGEST_EXPONENT: f64 = 14_300.0;

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
                    // So close to 1 that no digit of a decimal shows the difference.
                    F::Cos | F::Cosh if magnitude < 1e-20 => Decimal::from_integer(1).padded(),
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
        let context = Context::<HalfEven>::new(BITS);
        let wide = Context::<HalfEven>::new(2 * BITS);
        let digits = Context::<HalfEven>::new(GUARDED);
        let x = self.to_digits();
        let b = to_binary(x.clone());
        let (x, b) = (x.repr(), b.repr());
        // Those in the first group reduce the decimal itself, the others its binary form.
        match function {
            F::Cos => of_digits(digits.cos(x, None)),
            F::Sin => of_digits(digits.sin(x, None)),
            F::Tan => of_digits(digits.tan(x, None)),
            F::Cosh => of_digits(digits.cosh(x, None)),
            F::Sinh => of_digits(digits.sinh(x, None)),
            F::Exp => of_digits(digits.exp(x, None)),
            F::Atanh => of_digits(digits.atanh(x, None)),
            F::Acos => of_binary(context.acos(b, None)),
            F::Acosh => of_binary(context.acosh(b, None)),
            F::Asin => of_binary(context.asin(b, None)),
            F::Asinh => of_binary(context.asinh(b, None)),
            F::Atan => of_binary(context.atan(b, None)),
            F::Tanh => of_binary(context.tanh(b, None)),
            F::Ln => of_binary(context.ln(b, None)),
            F::Log10 => logarithm(&wide, b, 10),
            F::Log2 => logarithm(&wide, b, 2),
        }
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
        let (y, x) = (to_binary(y.to_digits()), to_binary(x.to_digits()));
        let angle = Context::<HalfEven>::new(BITS).atan2(y.repr(), x.repr(), None);
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
            self.apply(Function::Ln).divide(base.apply(Function::Ln))
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
        let magnitude = self.abs().apply(Function::Ln).to_double() * exponent.to_double();
        if magnitude.abs() > LARGEST_EXPONENT {
            return if magnitude > 0.0 {
                D::Infinity { negative }
            } else {
                D::least(negative)
            };
        }
        let (base, exponent) = (self.abs().to_digits(), exponent.to_digits());
        let power = Context::<HalfEven>::new(GUARDED).powf(base.repr(), exponent.repr(), None);
        match power {
            Ok(power) => {
                from_digits(&power.value().with_precision(34).value(), false).signed(negative)
            }
            Err(_) => D::NaN,
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
        match Context::<HalfEven>::new(34).sqrt(self.to_digits().repr()) {
            Ok(Rounded::Exact(root)) => from_digits(&root, true).towards(preferred),
            Ok(Rounded::Inexact(root, _)) => from_digits(&root, false),
            Err(_) => Decimal::NaN,
        }
    }

    fn to_digits(self) -> Digits {
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
        Digits::from_parts(significand.into(), exponent as isize)
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

fn to_binary(number: Digits) -> Binary {
    number.with_base_and_precision::<2>(BITS).value()
}

/// The logarithm to a base, from wide enough natural ones for whole results to come out whole.
fn logarithm(wide: &Context<HalfEven>, x: &Repr<2>, base: u32) -> Decimal {
    match (wide.ln(x, None), wide.ln(&Repr::new(base.into(), 0), None)) {
        (Ok(x), Ok(base)) => from_binary((x.value() / base.value()).with_precision(BITS).value()),
        _ => Decimal::NaN,
    }
}

fn of_binary(result: FpResult<Binary>) -> Decimal {
    result.map_or(Decimal::NaN, |result| from_binary(result.value()))
}

fn of_digits(result: FpResult<Digits>) -> Decimal {
    result.map_or(Decimal::NaN, |result| {
        from_binary(to_binary(result.value()))
    })
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
    let repr = number.repr();
    let significand = i128::try_from(repr.significand().clone()).unwrap_or_default();
    let Ok(exponent) = i32::try_from(repr.exponent()) else {
        return Decimal::Infinity {
            negative: significand < 0,
        };
    };
    let (mut coefficient, mut exponent) = (significand.unsigned_abs(), exponent);
    while coefficient != 0 && coefficient < LIMIT / 10 && (!is_exact || exponent > 0) {
        coefficient *= 10;
        exponent -= 1;
    }
    Decimal::round(significand < 0, Wide::from(coefficient), exponent, false)
}
