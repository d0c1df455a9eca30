//! `$exists`: whether a field exists. A null value counts as existing.
//!
//! ```text
//! { "email": { "$exists": true } }
//! in: { "email": null }
//! in: {}
//! out: { "email": null }
//! ```

use super::parse::FieldOperand;
use super::{ValuePredicate, ValueTest};
use crate::{Result, value};

pub(super) fn parse_exists(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    let exists = ValuePredicate::Test(ValueTest::Exists);
    Ok(if value::is_truthy(operand.value) {
        exists
    } else {
        exists.negated()
    })
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
    use bson::{RawBson, rawdoc};

    #[test]
    fn null_exists() {
        let exists = Filter::parse(&rawdoc! { "a.b": { "$exists": true } }).unwrap();
        assert!(
            exists
                .matches(&rawdoc! { "a": [{ "b": RawBson::Null }] })
                .unwrap()
        );
        let missing = Filter::parse(&rawdoc! { "a.b": { "$exists": 0 } }).unwrap();
        assert!(missing.matches(&rawdoc! { "a": [{ "c": 1 }] }).unwrap());
    }
}
