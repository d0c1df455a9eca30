//! Whole numbers of twice the digits of a decimal, for results before they are rounded.

use super::LIMIT;

/// A number of up to 68 digits: `high × 10^34 + low`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wide {
    high: u128,
    low: u128,
}

impl Wide {
    pub(super) fn from(value: u128) -> Wide {
        Wide {
            high: value / LIMIT,
            low: value % LIMIT,
        }
    }

    /// The product of two numbers of up to 34 digits (`10^34` itself included).
    pub(super) fn product(a: u128, b: u128) -> Wide {
        const HALF: u128 = 10_u128.pow(17);
        let (a_high, a_low, b_high, b_low) = (a / HALF, a % HALF, b / HALF, b % HALF);
        let middle = a_high * b_low + a_low * b_high;
        let low = (middle % HALF) * HALF + a_low * b_low;
        Wide {
            high: a_high * b_high + middle / HALF + low / LIMIT,
            low: low % LIMIT,
        }
    }

    pub(super) fn plus(self, other: Wide) -> Wide {
        let low = self.low + other.low;
        Wide {
            high: self.high + other.high + low / LIMIT,
            low: low % LIMIT,
        }
    }

    /// The difference to a smaller number.
    pub(super) fn minus(self, other: Wide) -> Wide {
        let borrow = u128::from(self.low < other.low);
        Wide {
            high: self.high.saturating_sub(other.high + borrow),
            low: (self.low + borrow * LIMIT).saturating_sub(other.low),
        }
    }

    /// The digits without leading zeros; none for zero.
    pub(super) fn to_digits(self) -> Vec<u8> {
        let text = format!("{}{:034}", self.high, self.low);
        text.trim_start_matches('0')
            .bytes()
            .map(|digit| digit - b'0')
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_have_all_their_digits() {
        let nines = LIMIT - 1;
        let digits = Wide::product(nines, nines).to_digits();
        let text: String = digits
            .iter()
            .map(|digit| char::from(b'0' + digit))
            .collect();
        assert_eq!(text, format!("{}8{}1", "9".repeat(33), "0".repeat(33)));
        let sum = Wide::product(nines, nines).plus(Wide::from(nines));
        assert_eq!(sum.minus(Wide::from(nines)), Wide::product(nines, nines));
    }
}
