//! Conversion to text.

use bson::RawBsonRef;

use crate::Result;
use crate::expression::date::format_iso;
use crate::value::Decimal;

/// Converts a value to text. `None` if the type has no conversion.
///
/// # Errors
/// The year of a date is not between 0 and 9999.
pub(super) fn convert_to_text(value: RawBsonRef<'_>) -> Result<Option<String>> {
    Ok(Some(match value {
        RawBsonRef::Boolean(value) => value.to_string(),
        RawBsonRef::DateTime(date) => format_iso(date)?,
        RawBsonRef::Decimal128(decimal) => Decimal::from_bson(decimal).to_bson().to_string(),
        RawBsonRef::Double(double) => format_double(double),
        RawBsonRef::Int32(number) => number.to_string(),
        RawBsonRef::Int64(number) => number.to_string(),
        RawBsonRef::ObjectId(id) => id.to_hex(),
        RawBsonRef::String(text) => text.to_owned(),
        _ => return Ok(None),
    }))
}

/// Formats a double with six significant digits, as C's `%g` does.
pub(in crate::expression) fn format_double(number: f64) -> String {
    const SIGNIFICANT_DIGITS: i32 = 6;
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
    let scientific = format!("{number:.*e}", SIGNIFICANT_DIGITS as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..SIGNIFICANT_DIGITS).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.abs());
    }
    let places = (SIGNIFICANT_DIGITS - 1 - exponent).max(0).unsigned_abs() as usize;
    trim_zeros(&format!("{number:.places$}")).to_owned()
}

/// Removes trailing zeros after a decimal point.
fn trim_zeros(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
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
            (-1.234_567_8, "-1.23457"),
        ] {
            assert_eq!(format_double(number), text);
        }
    }
}
