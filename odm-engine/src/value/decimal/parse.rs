//! Parsing of decimals.

use super::Decimal;

impl Decimal {
    /// Parses a number in MongoDB's notation, rounded to 34 digits. `None` for invalid text and for
    /// numbers out of range.
    pub(crate) fn parse(text: &str) -> Option<Decimal> {
        let (negative, magnitude) = match text.as_bytes().first()? {
            b'-' => (true, text.get(1..)?),
            b'+' => (false, text.get(1..)?),
            _ => (false, text),
        };
        match magnitude.to_ascii_lowercase().as_str() {
            "nan" => return Some(Decimal::NaN),
            "inf" | "infinity" => return Some(Decimal::Infinity { negative }),
            _ => {}
        }
        let (digits, exponent) = match magnitude.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
            None => (magnitude, 0),
        };
        let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let digits = || integer.bytes().chain(fraction.bytes());
        if digits().next().is_none() || !digits().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let exponent = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
        if exponent.unsigned_abs() > 100_000 {
            return None;
        }
        let number = Decimal::from_digits(negative, digits(), exponent);
        let is_zero = digits().all(|digit| digit == b'0');
        (!number.is_infinite() && number.is_zero() == is_zero).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_are_read() {
        let parse = |text| Decimal::parse(text).map(|number| number.to_bson().to_string());
        for (text, expected) in [
            ("+5", "5"),
            ("-0", "-0"),
            ("1.", "1"),
            (".5", "0.5"),
            ("0.1e1", "1"),
            ("1E5000", "1E+5000"),
            ("INF", "Infinity"),
            ("-NaN", "NaN"),
            (
                "12345678901234567890123456789012345",
                "1.234567890123456789012345678901234E+34",
            ),
        ] {
            assert_eq!(parse(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "", "+", ".", "1e", "e5", " 1", "1 ", "0x10", "1_0", "--1", "1E7000", "1E-7000",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
