//! `$mod`: numbers with a given remainder.
//!
//! ```text
//! { "count": { "$mod": [4, 0] } }
//! in: { "count": 8 }
//! in: { "count": 9.5 }
//! in: { "count": "8" }
//! out: { "count": 8 }
//! ```

use bson::RawBsonRef;

use super::parse::FieldOperand;
use super::{OpaqueTest, ValuePredicate};
use crate::value::{self, Number};
use crate::{Error, Result};

#[derive(Debug)]
struct ModuloTest {
    divisor: i64,
    remainder: i64,
}

pub(super) fn parse_mod(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    let malformed =
        || Error::bad_value("$mod needs an array of two numbers: divisor and remainder");
    let array = operand.value.as_array().ok_or_else(malformed)?;
    let mut items = value::items(array);
    let (Some(divisor), Some(remainder), None) = (items.next(), items.next(), items.next()) else {
        return Err(malformed());
    };
    let integer = |value| {
        Number::from_bson(value)
            .and_then(Number::truncated_long)
            .ok_or_else(malformed)
    };
    let (divisor, remainder) = (integer(divisor)?, integer(remainder)?);
    if divisor == 0 {
        return Err(Error::bad_value("the divisor of $mod cannot be 0"));
    }
    Ok(ValuePredicate::from_opaque(ModuloTest {
        divisor,
        remainder,
    }))
}

impl OpaqueTest for ModuloTest {
    fn match_rank(&self) -> u8 {
        11
    }

    fn matches_value(&self, value: Option<RawBsonRef<'_>>) -> bool {
        value
            .and_then(Number::from_bson)
            .and_then(Number::truncated_long)
            .is_some_and(|value| value.wrapping_rem(self.divisor) == self.remainder)
    }

    fn requires_existing(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
    use bson::rawdoc;

    #[test]
    fn fractions_are_cut_off() {
        let filter = Filter::parse(&rawdoc! { "a": { "$mod": [4, 1.9] } }).unwrap();
        assert!(filter.matches(&rawdoc! { "a": 5.5 }).unwrap());
        assert!(!filter.matches(&rawdoc! { "a": -5 }).unwrap());
        assert!(!filter.matches(&rawdoc! { "a": f64::NAN }).unwrap());
        assert!(Filter::parse(&rawdoc! { "a": { "$mod": [0, 1] } }).is_err());
    }
}
