//! Numbers of all BSON types on one exact scale.

use std::cmp::Ordering;
use std::mem;

use bson::{RawBson, RawBsonRef};

use super::Decimal;

/// A BSON number of any type.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Int32(i32),
    Int64(i64),
    Double(f64),
    Decimal(Decimal),
}

impl Number {
    /// Returns the number in a value. `None` if the value is not a number.
    pub(crate) fn from_bson(value: RawBsonRef<'_>) -> Option<Number> {
        match value {
            RawBsonRef::Int32(value) => Some(Number::Int32(value)),
            RawBsonRef::Int64(value) => Some(Number::Int64(value)),
            RawBsonRef::Double(value) => Some(Number::Double(value)),
            RawBsonRef::Decimal128(value) => Some(Number::Decimal(Decimal::from_bson(value))),
            _ => None,
        }
    }

    /// Returns the number as a value of the same type.
    pub(crate) fn to_bson(self) -> RawBson {
        match self {
            Number::Int32(value) => RawBson::Int32(value),
            Number::Int64(value) => RawBson::Int64(value),
            Number::Double(value) => RawBson::Double(value),
            Number::Decimal(value) => RawBson::Decimal128(value.to_bson()),
        }
    }

    /// Compares numbers exactly. NaN equals NaN and is below all numbers.
    pub(crate) fn compare(self, other: Number) -> Ordering {
        use Number as N;
        match (self, other) {
            (N::Decimal(a), b) => a.compare(b.to_exact_decimal_or_double()),
            (a, N::Decimal(b)) => b.compare(a.to_exact_decimal_or_double()).reverse(),
            (N::Double(a), N::Double(b)) => compare_doubles(a, b),
            (N::Double(a), b) => compare_integer_to_double(b.integer_or_zero(), a).reverse(),
            (a, N::Double(b)) => compare_integer_to_double(a.integer_or_zero(), b),
            (a, b) => a.integer_or_zero().cmp(&b.integer_or_zero()),
        }
    }

    pub(crate) fn same_type(self, other: Number) -> bool {
        mem::discriminant(&self) == mem::discriminant(&other)
    }

    pub(crate) fn is_zero(self) -> bool {
        self.compare(Number::Int32(0)) == Ordering::Equal
    }

    pub(crate) fn is_nan(self) -> bool {
        match self {
            Number::Double(value) => value.is_nan(),
            Number::Decimal(value) => value.is_nan(),
            _ => false,
        }
    }

    /// Returns the number truncated to an integer. `None` for NaN and results that do not fit into
    /// 64 bits.
    pub(crate) fn truncated_long(self) -> Option<i64> {
        match self {
            Number::Int32(value) => Some(value.into()),
            Number::Int64(value) => Some(value),
            Number::Double(value) => double_to_integer(value.trunc()),
            Number::Decimal(value) => value.truncated_long(),
        }
    }

    /// Returns the number if the number is whole and fits into 64 bits.
    pub(crate) fn whole_long(self) -> Option<i64> {
        self.truncated_long()
            .filter(|&integer| self.compare(Number::Int64(integer)) == Ordering::Equal)
    }

    /// Returns the number as 64 bits, as the bit operators do. A decimal is rounded, and out of
    /// range becomes the smallest long. A double must be whole.
    pub(crate) fn bitwise_long(self) -> Option<i64> {
        match self {
            Number::Decimal(value) => Some(value.nearest_long().unwrap_or(i64::MIN)),
            number => number.whole_long(),
        }
    }

    /// Converts to a decimal. A double contributes 15 significant digits.
    pub(crate) fn to_decimal(self) -> Decimal {
        match self {
            Number::Int32(value) => Decimal::from_integer(value.into()),
            Number::Int64(value) => Decimal::from_integer(value),
            Number::Double(value) => Decimal::from_double(value),
            Number::Decimal(value) => value,
        }
    }

    /// Converts to the nearest double.
    pub(crate) fn to_double(self) -> f64 {
        match self {
            Number::Int32(value) => value.into(),
            Number::Int64(value) => value as f64,
            Number::Double(value) => value,
            Number::Decimal(value) => value.to_double(),
        }
    }

    fn to_exact_decimal_or_double(self) -> ExactNumber {
        match self {
            Number::Double(value) => ExactNumber::Double(value),
            number => ExactNumber::Decimal(number.to_decimal()),
        }
    }

    fn integer_or_zero(self) -> i64 {
        match self {
            Number::Int32(value) => value.into(),
            Number::Int64(value) => value,
            Number::Double(_) | Number::Decimal(_) => 0,
        }
    }
}

/// The exact form of a number, for a comparison with a decimal.
#[derive(Debug, Clone, Copy)]
pub(super) enum ExactNumber {
    Double(f64),
    Decimal(Decimal),
}

pub(super) fn compare_doubles(a: f64, b: f64) -> Ordering {
    // Only NaN has no order. NaN is below all numbers.
    a.partial_cmp(&b)
        .unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

fn compare_integer_to_double(a: i64, b: f64) -> Ordering {
    if b.is_nan() {
        return Ordering::Greater;
    }
    match double_to_integer(b.trunc()) {
        Some(integer) => a
            .cmp(&integer)
            .then_with(|| compare_doubles(0.0, b.fract())),
        None => compare_doubles(0.0, b),
    }
}

/// Converts a whole double to an integer if in range.
fn double_to_integer(value: f64) -> Option<i64> {
    // 2^63 is the first double above the range, −2^63 is in range.
    const I64_UPPER_BOUND: f64 = 9_223_372_036_854_775_808.0;
    (-I64_UPPER_BOUND..I64_UPPER_BOUND)
        .contains(&value)
        .then_some(value as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_is_exact_across_types() {
        let big = 9_007_199_254_740_993_i64;
        assert_eq!(
            Number::Int64(big).compare(Number::Double(9_007_199_254_740_992.0)),
            Ordering::Greater
        );
        let tenth = Number::Decimal(Decimal::from_bson("0.1".parse().unwrap()));
        assert_eq!(Number::Double(0.1).compare(tenth), Ordering::Greater);
        assert_eq!(
            Number::Double(0.25).compare(Number::Decimal(Decimal::from_bson(
                "0.250".parse().unwrap()
            ))),
            Ordering::Equal
        );
        assert_eq!(
            Number::Double(-0.0).compare(Number::Int32(0)),
            Ordering::Equal
        );
        assert_eq!(
            Number::Double(f64::NAN).compare(Number::Double(f64::NEG_INFINITY)),
            Ordering::Less
        );
        assert_eq!(
            Number::Int64(i64::MAX).compare(Number::Double(9.3e18)),
            Ordering::Less
        );
    }

    #[test]
    fn only_whole_numbers_in_range_are_integers() {
        assert_eq!(Number::Double(2.0).whole_long(), Some(2));
        assert_eq!(Number::Double(2.5).whole_long(), None);
        assert_eq!(Number::Double(2.5).truncated_long(), Some(2));
        assert_eq!(Number::Double(1e19).truncated_long(), None);
        assert_eq!(Number::Double(f64::NAN).truncated_long(), None);
    }
}
