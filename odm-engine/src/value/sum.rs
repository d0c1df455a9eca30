//! Sums of doubles and integers that lose nothing on the way.

use super::Decimal;

/// A sum as two doubles, the second so small that it does not show in the first: about 107 bits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    high: f64,
    low: f64,
    /// The sum as doubles add up. It tells what became of infinities.
    plain: f64,
}

impl Sum {
    pub(crate) fn add(&mut self, number: f64) {
        self.plain += number;
        let (number, low) = fast_two_sum(number, self.low);
        let (high, rest) = two_sum(self.high, number);
        *self = Sum {
            high,
            low: low + rest,
            plain: self.plain,
        };
    }

    /// Adds a number that may have more digits than a double.
    pub(crate) fn add_integer(&mut self, number: i64) {
        // Both halves are doubles without loss.
        let low = number & 0xffff_ffff;
        self.add((number - low) as f64);
        self.add(low as f64);
    }

    /// The nearest double.
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

    /// The sum as a whole number, rounded as the server does it: a half at the end of the larger part
    /// is taken away again. `None` if it is out of range.
    pub(crate) fn to_integer(self) -> Option<i64> {
        // 2^63 is the first double above the range, −2^63 is still in it.
        const LIMIT: f64 = 9_223_372_036_854_775_808.0;
        if self.high == LIMIT && self.low < 0.0 {
            return i64::MAX.checked_add(self.low.round() as i64 + 1);
        }
        let is_in_range =
            -LIMIT < self.high && self.high < LIMIT || self.high == -LIMIT && self.low >= 0.0;
        if !is_in_range {
            return None;
        }
        let whole = self.high.round();
        let rest = (self.high - whole + self.low).round();
        Some((whole as i64).saturating_add(rest as i64))
    }
}

/// The sum of two doubles and what it lacks, if the first is not the smaller one.
fn fast_two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    (sum, b - (sum - a))
}

/// The sum of two doubles and what it lacks.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let a_part = sum - b;
    let b_part = sum - a_part;
    (sum, (a - a_part) + (b - b_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(numbers: &[f64]) -> Sum {
        let mut sum = Sum::default();
        numbers.iter().for_each(|number| sum.add(*number));
        sum
    }

    #[test]
    fn small_parts_are_not_lost() {
        assert_eq!(sum(&[0.1, 0.2, 0.3]).to_double(), 0.6);
        assert_eq!(sum(&[1e16, 1.0, 1.0]).to_double(), 1e16 + 2.0);
        assert!(sum(&[f64::INFINITY, 1.0]).to_double().is_infinite());
        assert!(
            sum(&[f64::INFINITY, f64::NEG_INFINITY])
                .to_double()
                .is_nan()
        );
    }

    #[test]
    fn integers_are_exact_to_the_edges() {
        let integers = |numbers: &[i64]| {
            let mut sum = Sum::default();
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
