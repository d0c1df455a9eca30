//! Series of preferred numbers, which the boundaries of buckets are rounded to.

use bson::{RawBson, RawBsonRef};

use crate::value::{Decimal, Number};
use crate::{Error, Result};

/// What boundaries are rounded to.
#[derive(Debug, Clone)]
pub(super) enum Granularity {
    /// The numbers of a series, ascending within one power of ten, and those times powers of ten.
    Series(Vec<i32>),
    PowersOfTwo,
}

/// The series by name. Those of Renard and the E series are rounded by standards, not by a formula.
const SERIES: &[(&str, &[i32])] = &[
    ("1-2-5", &[10, 20, 50]),
    ("E12", &[10, 12, 15, 18, 22, 27, 33, 39, 47, 56, 68, 82]),
    (
        "E24",
        &[
            10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75,
            82, 91,
        ],
    ),
    ("E6", &[10, 15, 22, 33, 47, 68]),
    ("R10", &[100, 125, 160, 200, 250, 315, 400, 500, 630, 800]),
    (
        "R20",
        &[
            100, 112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630,
            710, 800, 900,
        ],
    ),
    (
        "R40",
        &[
            100, 106, 112, 118, 125, 132, 140, 150, 160, 170, 180, 190, 200, 212, 224, 236, 250,
            265, 280, 300, 315, 335, 355, 375, 400, 425, 450, 475, 500, 530, 560, 600, 630, 670,
            710, 750, 800, 850, 900, 950,
        ],
    ),
    ("R5", &[10, 16, 25, 40, 63]),
    (
        "R80",
        &[
            103, 109, 115, 122, 128, 136, 145, 155, 165, 175, 185, 195, 206, 218, 230, 243, 258,
            272, 290, 307, 325, 345, 365, 387, 412, 437, 462, 487, 515, 545, 580, 615, 650, 690,
            730, 775, 825, 875, 925, 975,
        ],
    ),
];

impl Granularity {
    /// # Errors
    /// There is none of this name (code 40257).
    pub(super) fn named(name: &str) -> Result<Granularity> {
        if name == "POWERSOF2" {
            return Ok(Granularity::PowersOfTwo);
        }
        let finer = match name {
            "E48" => Some(48),
            "E96" => Some(96),
            "E192" => Some(192),
            _ => None,
        };
        if let Some(count) = finer {
            return Ok(Granularity::Series(geometric(count)));
        }
        let at = SERIES.binary_search_by_key(&name, |(known, _)| known);
        match at.ok().and_then(|at| SERIES.get(at)) {
            Some((_, series)) => Ok(Granularity::Series(series.to_vec())),
            None => {
                let message = format!("$bucketAuto has no granularity '{name}'");
                Err(Error::server(40257, message))
            }
        }
    }

    /// The next number above, or zero for zero.
    ///
    /// # Errors
    /// No number, or one below zero.
    pub(super) fn round_up(&self, value: &RawBson) -> Result<RawBson> {
        let number = boundary(value)?;
        if number.is_zero() {
            return Ok(value.clone());
        }
        Ok(match self {
            Granularity::PowersOfTwo => power_of_two(number, |exponent| exponent.floor() + 1.0),
            Granularity::Series(series) => up(series, number),
        }
        .to_bson())
    }

    /// The next number below, or zero for zero.
    ///
    /// # Errors
    /// As [`round_up`](Granularity::round_up).
    pub(super) fn round_down(&self, value: &RawBson) -> Result<RawBson> {
        let number = boundary(value)?;
        if number.is_zero() {
            return Ok(value.clone());
        }
        Ok(match self {
            Granularity::PowersOfTwo => power_of_two(number, |exponent| exponent.ceil() - 1.0),
            Granularity::Series(series) => down(series, number),
        }
        .to_bson())
    }
}

/// An E series: powers of a root of ten, rounded to three digits.
fn geometric(count: i32) -> Vec<i32> {
    (0..count)
        .map(|step| match (count, step) {
            // The standard's one exception.
            (192, 185) => 920,
            _ => (100.0 * 10_f64.powf(f64::from(step) / f64::from(count))).round() as i32,
        })
        .collect()
}

/// The number in a value that a boundary can be.
fn boundary(value: &RawBson) -> Result<Number> {
    let refused = |code, what: &str| {
        let message = format!("with 'granularity', $bucketAuto takes {what}");
        Error::server(code, message)
    };
    let number = Number::from_bson(value.as_raw_bson_ref());
    let number = number.ok_or_else(|| refused(40258, "numbers only"))?;
    if number.is_nan() {
        return Err(refused(40259, "no NaN"));
    }
    if number.compare(Number::Int32(0)).is_lt() {
        return Err(refused(40260, "no numbers below 0"));
    }
    let is_infinite = !number.to_double().is_finite();
    match value.as_raw_bson_ref() {
        RawBsonRef::Double(_) | RawBsonRef::Decimal128(_) if is_infinite => {
            Err(refused(40260, "finite numbers only"))
        }
        RawBsonRef::Decimal128(_) => Ok(number),
        _ => Ok(Number::Double(number.to_double())),
    }
}

fn power_of_two(number: Number, exponent: impl Fn(f64) -> f64) -> Number {
    let exponent = exponent(number.to_double().log2());
    match number {
        Number::Decimal(_) => Number::Decimal(Decimal::from_double(exponent.exp2())),
        _ if (0.0..31.0).contains(&exponent) => Number::Int32(1 << exponent as u32),
        _ if (0.0..63.0).contains(&exponent) => Number::Int64(1 << exponent as u32),
        _ => Number::Double(exponent.exp2()),
    }
}

/// A number of a series times a power of ten.
fn times(number: i32, power: Number) -> Number {
    match power {
        Number::Decimal(power) => {
            Number::Decimal(Decimal::from_integer(number.into()).multiply(power))
        }
        power => Number::Double(f64::from(number) * power.to_double()),
    }
}

fn ten_times(power: Number) -> Number {
    times(10, power)
}

fn a_tenth(power: Number) -> Number {
    match power {
        Number::Decimal(power) => Number::Decimal(power.divide(Decimal::from_integer(10))),
        power => Number::Double(power.to_double() / 10.0),
    }
}

fn one(number: Number) -> Number {
    match number {
        Number::Decimal(_) => Number::Decimal(Decimal::from_integer(1)),
        _ => Number::Double(1.0),
    }
}

/// The first number of the series, times any power of ten, above a number.
fn up(series: &[i32], number: Number) -> Number {
    let (Some(&first), Some(&last)) = (series.first(), series.last()) else {
        return number;
    };
    let mut power = one(number);
    while number.compare(times(last, power)).is_ge() {
        power = ten_times(power);
    }
    while number.compare(times(first, power)).is_lt() {
        let above = times(first, power);
        power = a_tenth(power);
        if number.compare(times(last, power)).is_ge() {
            return above;
        }
    }
    let above = series
        .iter()
        .find(|next| number.compare(times(**next, power)).is_lt());
    above.map_or(number, |above| times(*above, power))
}

/// The last number of the series, times any power of ten, below a number.
fn down(series: &[i32], number: Number) -> Number {
    let (Some(&first), Some(&last)) = (series.first(), series.last()) else {
        return number;
    };
    let mut power = one(number);
    while number.compare(times(first, power)).is_le() {
        power = a_tenth(power);
    }
    while number.compare(times(last, power)).is_gt() {
        let below = times(last, power);
        power = ten_times(power);
        if number.compare(times(first, power)).is_le() {
            return below;
        }
    }
    let below = series
        .iter()
        .rfind(|previous| number.compare(times(**previous, power)).is_gt());
    below.map_or(number, |below| times(*below, power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_ascend_and_are_sorted_by_name() {
        assert!(SERIES.is_sorted_by(|(a, _), (b, _)| a < b));
        let finer = [48, 96, 192].map(geometric);
        let all = SERIES.iter().map(|(_, series)| *series);
        for series in all.chain(finer.iter().map(Vec::as_slice)) {
            assert!(series.is_sorted_by(|a, b| a < b), "{series:?}");
        }
    }

    #[test]
    fn numbers_are_rounded_away_to_both_sides() {
        let series = Granularity::named("1-2-5").unwrap();
        let rounded = |value: f64| {
            let value = RawBson::Double(value);
            let number = |value: RawBson| value.as_f64().unwrap();
            let down = number(series.round_down(&value).unwrap());
            (down, number(series.round_up(&value).unwrap()))
        };
        assert_eq!(rounded(3.0), (2.0, 5.0));
        assert_eq!(rounded(20.0), (10.0, 50.0));
        assert_eq!(rounded(70.0), (50.0, 100.0));
        assert_eq!(rounded(0.0), (0.0, 0.0));
        let powers = Granularity::PowersOfTwo;
        assert_eq!(
            powers.round_up(&RawBson::Int32(8)).unwrap(),
            RawBson::Int32(16)
        );
        assert_eq!(
            powers.round_down(&RawBson::Int32(8)).unwrap(),
            RawBson::Int32(4)
        );
    }
}
