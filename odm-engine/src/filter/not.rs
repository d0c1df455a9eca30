//! `$not`: the negation of conditions on a field.
//!
//! ```text
//! { "price": { "$not": { "$gt": 5 } } }
//! in: { "price": 3 }
//! in: { "price": 6 }
//! in: {}
//! out: { "price": 3 }
//! out: {}
//! ```

use bson::RawBsonRef;

use super::parse::{self, FieldOperand};
use super::{ValuePredicate, ValueTest};
use crate::pattern::Regex;
use crate::{Error, Result};

pub(super) fn parse_not(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    match operand.value {
        RawBsonRef::RegularExpression(literal) => {
            Ok(ValuePredicate::Test(ValueTest::Regex(Regex::from_literal(literal)?)).negated())
        }
        RawBsonRef::Document(conditions) if conditions.is_empty() => {
            Err(Error::bad_value("$not cannot be empty"))
        }
        RawBsonRef::Document(conditions) => {
            Ok(parse::parse_predicate(operand.field, conditions, operand.order)?.negated())
        }
        _ => Err(Error::bad_value(
            "$not needs conditions or a regular expression",
        )),
    }
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
    use bson::rawdoc;

    #[test]
    fn no_element_may_match() {
        let filter = Filter::parse(&rawdoc! { "a": { "$not": { "$gt": 5 } } }).unwrap();
        assert!(filter.matches(&rawdoc! {}).unwrap());
        assert!(filter.matches(&rawdoc! { "a": [1, 2] }).unwrap());
        assert!(!filter.matches(&rawdoc! { "a": [1, 9] }).unwrap());
    }
}
