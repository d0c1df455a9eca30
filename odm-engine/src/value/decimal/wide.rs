//! Whole numbers of up to 68 digits, for results before rounding.

use super::COEFFICIENT_LIMIT;

/// A number of up to 68 digits: `high × 10^34 + low`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WideCoefficient {
    high: u128,
    low: u128,
}

impl WideCoefficient {
    pub(super) fn from(value: u128) -> WideCoefficient {
        WideCoefficient {
            high: value / COEFFICIENT_LIMIT,
            low: value % COEFFICIENT_LIMIT,
        }
    }

    /// Returns the product of two numbers of up to 34 digits, or `10^34`.
    pub(super) fn product_of(a: u128, b: u128) -> WideCoefficient {
        const HALF_COEFFICIENT_LIMIT: u128 = 10_u128.pow(17);
        let (a_high, a_low, b_high, b_low) = (
            a / HALF_COEFFICIENT_LIMIT,
            a % HALF_COEFFICIENT_LIMIT,
            b / HALF_COEFFICIENT_LIMIT,
            b % HALF_COEFFICIENT_LIMIT,
        );
        let middle = a_high * b_low + a_low * b_high;
        let low = (middle % HALF_COEFFICIENT_LIMIT) * HALF_COEFFICIENT_LIMIT + a_low * b_low;
        WideCoefficient {
            high: a_high * b_high + middle / HALF_COEFFICIENT_LIMIT + low / COEFFICIENT_LIMIT,
            low: low % COEFFICIENT_LIMIT,
        }
    }

    pub(super) fn plus_wide(self, other: WideCoefficient) -> WideCoefficient {
        let low = self.low + other.low;
        WideCoefficient {
            high: self.high + other.high + low / COEFFICIENT_LIMIT,
            low: low % COEFFICIENT_LIMIT,
        }
    }

    /// Returns the difference. `other` must not be greater.
    pub(super) fn minus_wide(self, other: WideCoefficient) -> WideCoefficient {
        let borrow = u128::from(self.low < other.low);
        WideCoefficient {
            high: self.high.saturating_sub(other.high + borrow),
            low: (self.low + borrow * COEFFICIENT_LIMIT).saturating_sub(other.low),
        }
    }

    /// Returns the digits without leading zeros. Empty for zero.
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
        let nines = COEFFICIENT_LIMIT - 1;
        let digits = WideCoefficient::product_of(nines, nines).to_digits();
        let text: String = digits
            .iter()
            .map(|digit| char::from(b'0' + digit))
            .collect();
        assert_eq!(text, format!("{}8{}1", "9".repeat(33), "0".repeat(33)));
        let sum = WideCoefficient::product_of(nines, nines).plus_wide(WideCoefficient::from(nines));
        assert_eq!(
            sum.minus_wide(WideCoefficient::from(nines)),
            WideCoefficient::product_of(nines, nines)
        );
    }
}
