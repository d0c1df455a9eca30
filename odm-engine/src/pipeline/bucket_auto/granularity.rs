//! Series of preferred numbers, to which the boundaries of buckets are rounded.

use bson::{RawBson, RawBsonRef};

use crate::value::{Decimal, Number};
use crate::{Error, Result};

/// The numbers to which boundaries are rounded.
#[derive(Debug, Clone)]
pub(super) enum Granularity {
    /// The numbers of a series in ascending order within one power of ten. The series repeats at each power of ten.
    Series(Vec<i32>),
    PowersOfTwo,
}

/// The series by name. The Renard and E series follow standards, not a formula.
const PREFERRED_SERIES: &[(&str, &[i32])] = &[
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
    /// Returns the granularity with this name.
    ///
    /// # Errors
    /// The name is unknown (code 40257).
    pub(super) fn from_name(name: &str) -> Result<Granularity> {
        if name == "POWERSOF2" {
            return Ok(Granularity::PowersOfTwo);
        }
        let step_count = match name {
            "E48" => Some(48),
            "E96" => Some(96),
            "E192" => Some(192),
            _ => None,
        };
        if let Some(count) = step_count {
            return Ok(Granularity::Series(geometric_series(count)));
        }
        let position = PREFERRED_SERIES.binary_search_by_key(&name, |(known, _)| known);
        match position
            .ok()
            .and_then(|position| PREFERRED_SERIES.get(position))
        {
            Some((_, series)) => Ok(Granularity::Series(series.to_vec())),
            None => {
                let message = format!("$bucketAuto has no granularity '{name}'");
                Err(Error::with_server_code(40257, message))
            }
        }
    }

    /// Returns the next number above, or zero for zero.
    ///
    /// # Errors
    /// Not a number, or a negative number.
    pub(super) fn round_up(&self, value: &RawBson) -> Result<RawBson> {
        let number = boundary_number(value)?;
        if number.is_zero() {
            return Ok(value.clone());
        }
        Ok(match self {
            Granularity::PowersOfTwo => power_of_two(number, |exponent| exponent.floor() + 1.0),
            Granularity::Series(series) => next_above(series, number),
        }
        .to_bson())
    }

    /// Returns the next number below, or zero for zero.
    ///
    /// # Errors
    /// See [`round_up`](Granularity::round_up).
    pub(super) fn round_down(&self, value: &RawBson) -> Result<RawBson> {
        let number = boundary_number(value)?;
        if number.is_zero() {
            return Ok(value.clone());
        }
        Ok(match self {
            Granularity::PowersOfTwo => power_of_two(number, |exponent| exponent.ceil() - 1.0),
            Granularity::Series(series) => next_below(series, number),
        }
        .to_bson())
    }
}

/// Returns an E series: powers of a root of ten, rounded to three digits.
fn geometric_series(count: i32) -> Vec<i32> {
    (0..count)
        .map(|step| match (count, step) {
            // The standard has this one exception.
            (192, 185) => 920,
            _ => (100.0 * 10_f64.powf(f64::from(step) / f64::from(count))).round() as i32,
        })
        .collect()
}

/// Returns the number of a value, if the number can be a boundary.
fn boundary_number(value: &RawBson) -> Result<Number> {
    let rejection = |code, accepted: &str| {
        let message = format!("with 'granularity', $bucketAuto accepts {accepted}");
        Error::with_server_code(code, message)
    };
    let number = Number::from_bson(value.as_raw_bson_ref());
    let number = number.ok_or_else(|| rejection(40258, "numbers only"))?;
    if number.is_nan() {
        return Err(rejection(40259, "no NaN"));
    }
    if number.compare(Number::Int32(0)).is_lt() {
        return Err(rejection(40260, "no numbers below 0"));
    }
    let is_infinite = !number.to_double().is_finite();
    match value.as_raw_bson_ref() {
        RawBsonRef::Double(_) | RawBsonRef::Decimal128(_) if is_infinite => {
            Err(rejection(40260, "finite numbers only"))
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

/// Multiplies a number of a series by a power of ten.
fn times_power(number: i32, power: Number) -> Number {
    match power {
        Number::Decimal(power) => {
            Number::Decimal(Decimal::from_integer(number.into()).multiply(power))
        }
        power => Number::Double(f64::from(number) * power.to_double()),
    }
}

fn ten_times(power: Number) -> Number {
    times_power(10, power)
}

fn a_tenth(power: Number) -> Number {
    match power {
        Number::Decimal(power) => Number::Decimal(power.divide(Decimal::from_integer(10))),
        power => Number::Double(power.to_double() / 10.0),
    }
}

fn one_like(number: Number) -> Number {
    match number {
        Number::Decimal(_) => Number::Decimal(Decimal::from_integer(1)),
        _ => Number::Double(1.0),
    }
}

/// Returns the first number above `number` in the series at any power of ten.
fn next_above(series: &[i32], number: Number) -> Number {
    let (Some(&first), Some(&last)) = (series.first(), series.last()) else {
        return number;
    };
    let mut power = one_like(number);
    while number.compare(times_power(last, power)).is_ge() {
        power = ten_times(power);
    }
    while number.compare(times_power(first, power)).is_lt() {
        let above = times_power(first, power);
        power = a_tenth(power);
        if number.compare(times_power(last, power)).is_ge() {
            return above;
        }
    }
    let above = series
        .iter()
        .find(|next| number.compare(times_power(**next, power)).is_lt());
    above.map_or(number, |above| times_power(*above, power))
}

/// Returns the last number below `number` in the series at any power of ten.
fn next_below(series: &[i32], number: Number) -> Number {
    let (Some(&first), Some(&last)) = (series.first(), series.last()) else {
        return number;
    };
    let mut power = one_like(number);
    while number.compare(times_power(first, power)).is_le() {
        power = a_tenth(power);
    }
    while number.compare(times_power(last, power)).is_gt() {
        let lower = times_power(last, power);
        power = ten_times(power);
        if number.compare(times_power(first, power)).is_le() {
            return lower;
        }
    }
    let lower = series
        .iter()
        .rfind(|previous| number.compare(times_power(**previous, power)).is_gt());
    lower.map_or(number, |lower| times_power(*lower, power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_ascend_and_are_sorted_by_name() {
        assert!(PREFERRED_SERIES.is_sorted_by(|(a, _), (b, _)| a < b));
        let finer = [48, 96, 192].map(geometric_series);
        let all = PREFERRED_SERIES.iter().map(|(_, series)| *series);
        for series in all.chain(finer.iter().map(Vec::as_slice)) {
            assert!(series.is_sorted_by(|a, b| a < b), "{series:?}");
        }
    }

    #[test]
    fn numbers_are_rounded_away_to_both_sides() {
        let series = Granularity::from_name("1-2-5").unwrap();
        let rounded = |value: f64| {
            let value = RawBson::Double(value);
            let number = |value: RawBson| value.as_f64().unwrap();
            let rounded_down = number(series.round_down(&value).unwrap());
            (rounded_down, number(series.round_up(&value).unwrap()))
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
