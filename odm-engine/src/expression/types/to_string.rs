//! Conversion to text.

use bson::{DateTime, RawBsonRef};

use crate::value::Decimal;
use crate::{Error, Result};

/// The text of a value. `None` if the type has no conversion.
///
/// # Errors
/// A date outside of the years 0 to 9999.
pub(super) fn convert(value: RawBsonRef<'_>) -> Result<Option<String>> {
    Ok(Some(match value {
        RawBsonRef::Boolean(value) => value.to_string(),
        RawBsonRef::DateTime(date) => self::date(date)?,
        RawBsonRef::Decimal128(decimal) => Decimal::from_bson(decimal).to_bson().to_string(),
        RawBsonRef::Double(double) => self::double(double),
        RawBsonRef::Int32(number) => number.to_string(),
        RawBsonRef::Int64(number) => number.to_string(),
        RawBsonRef::ObjectId(id) => id.to_hex(),
        RawBsonRef::String(text) => text.to_owned(),
        _ => return Ok(None),
    }))
}

/// Six significant digits, as C's `%g` writes them.
fn double(number: f64) -> String {
    const DIGITS: i32 = 6;
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned();
    }
    let scientific = format!("{number:.*e}", DIGITS as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..DIGITS).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let places = (DIGITS - 1 - exponent).max(0).unsigned_abs() as usize;
    trimmed(&format!("{number:.places$}")).to_owned()
}

/// Digits without zeros at their end, if there is a point among them.
fn trimmed(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

fn date(date: DateTime) -> Result<String> {
    const DAY: i64 = 86_400_000;
    let millis = date.timestamp_millis();
    let (year, month, day) = civil(millis.div_euclid(DAY));
    if !(0..=9999).contains(&year) {
        let message = format!("a date of the year {year} has no text: 0 to 9999 have");
        return Err(Error::server(18537, message));
    }
    let time = millis.rem_euclid(DAY);
    let (hour, minute) = (time / 3_600_000, time / 60_000 % 60);
    let (second, milli) = (time / 1000 % 60, time % 1000);
    Ok(format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"
    ))
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
fn civil(day: i64) -> (i64, i64, i64) {
    // Years that begin in March have their leap day at the end, and 400 of them are a cycle.
    const CYCLE: i64 = 146_097;
    let day = day + 719_468;
    let (cycle, day) = (day.div_euclid(CYCLE), day.rem_euclid(CYCLE));
    let year = (day - day / 1460 + day / 36_524 - day / (CYCLE - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (year + cycle * 400 + carry, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_have_six_digits() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (100_000.0, "100000"),
            (1_234_567.0, "1.23457e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.234e-5, "1.234e-05"),
            (999_999.5, "1e+06"),
            (1e300, "1e+300"),
            (-3.141_592_65, "-3.14159"),
        ] {
            assert_eq!(double(number), text);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let text = |millis| date(DateTime::from_millis(millis));
        assert_eq!(text(0).unwrap(), "1970-01-01T00:00:00.000Z");
        assert_eq!(text(-1).unwrap(), "1969-12-31T23:59:59.999Z");
        assert_eq!(text(951_782_400_000).unwrap(), "2000-02-29T00:00:00.000Z");
        assert_eq!(
            text(253_402_300_799_999).unwrap(),
            "9999-12-31T23:59:59.999Z"
        );
        assert_eq!(
            text(-62_135_596_800_001).unwrap(),
            "0000-12-31T23:59:59.999Z"
        );
        assert_eq!(text(253_402_300_800_000).unwrap_err().code(), Some(18537));
        assert_eq!(text(i64::MIN).unwrap_err().code(), Some(18537));
    }
}
