//! Exact sums of doubles and integers, rounded only at the end.

use super::Decimal;

/// A sum as an unevaluated pair of doubles, with about 107 bits. The second double is smaller than
/// the last bit of the first.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ExactSum {
    high: f64,
    low: f64,
    /// The sum in plain double precision, for the result of infinities.
    plain: f64,
}

impl ExactSum {
    pub(crate) fn add_double(&mut self, number: f64) {
        self.plain += number;
        let (number, low) = fast_two_sum(number, self.low);
        let (high, rest) = two_sum(self.high, number);
        *self = ExactSum {
            high,
            low: low + rest,
            plain: self.plain,
        };
    }

    /// Adds an integer, which may have more digits than a double.
    pub(crate) fn add_integer(&mut self, number: i64) {
        // Both halves are exact doubles.
        let low = number & 0xffff_ffff;
        self.add_double((number - low) as f64);
        self.add_double(low as f64);
    }

    /// Returns the nearest double.
    pub(crate) fn to_double(self) -> f64 {
        if self.high.is_nan() {
            self.plain
        } else {
            self.high
        }
    }

    pub(crate) fn to_decimal(self) -> Decimal {
        if !self.high.is_finite() {
            return Decimal::from_double_exact(self.plain);
        }
        Decimal::from_double_exact(self.high).add(Decimal::from_double_exact(self.low))
    }

    /// Returns the sum as a whole number. `None` if out of range.
    ///
    /// Rounds as the server does: the high part first, then the rest, so that a half at the end of
    /// the high part is taken back.
    pub(crate) fn to_integer(self) -> Option<i64> {
        // 2^63 is the first double above the range, −2^63 is in range.
        const I64_UPPER_BOUND: f64 = 9_223_372_036_854_775_808.0;
        if self.high == I64_UPPER_BOUND && self.low < 0.0 {
            return i64::MAX.checked_add(self.low.round() as i64 + 1);
        }
        let is_in_range = -I64_UPPER_BOUND < self.high && self.high < I64_UPPER_BOUND
            || self.high == -I64_UPPER_BOUND && self.low >= 0.0;
        if !is_in_range {
            return None;
        }
        let integer = self.high.round();
        let rest = (self.high - integer + self.low).round();
        Some((integer as i64).saturating_add(rest as i64))
    }
}

/// Returns the sum of two doubles and the rounding error. `a` must not be smaller than `b` in
/// magnitude.
fn fast_two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    (sum, b - (sum - a))
}

/// Returns the sum of two doubles and the rounding error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let a_part = sum - b;
    let b_part = sum - a_part;
    (sum, (a - a_part) + (b - b_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of(numbers: &[f64]) -> ExactSum {
        let mut sum = ExactSum::default();
        numbers.iter().for_each(|number| sum.add_double(*number));
        sum
    }

    #[test]
    fn small_parts_are_not_lost() {
        assert_eq!(sum_of(&[0.1, 0.2, 0.3]).to_double(), 0.6);
        assert_eq!(sum_of(&[1e16, 1.0, 1.0]).to_double(), 1e16 + 2.0);
        assert!(sum_of(&[f64::INFINITY, 1.0]).to_double().is_infinite());
        assert!(
            sum_of(&[f64::INFINITY, f64::NEG_INFINITY])
                .to_double()
                .is_nan()
        );
    }

    #[test]
    fn integers_are_exact_to_the_edges() {
        let integers = |numbers: &[i64]| {
            let mut sum = ExactSum::default();
            numbers.iter().for_each(|number| sum.add_integer(*number));
            sum.to_integer()
        };
        assert_eq!(integers(&[i64::MAX]), Some(i64::MAX));
        assert_eq!(integers(&[i64::MAX, 1]), None);
        assert_eq!(integers(&[i64::MAX, 1, -1]), Some(i64::MAX));
        assert_eq!(integers(&[i64::MIN]), Some(i64::MIN));
        assert_eq!(integers(&[i64::MIN, -1]), None);
        assert_eq!(integers(&[i64::MAX, -5]), Some(i64::MAX - 5));
    }
}
