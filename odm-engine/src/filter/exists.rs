//! `$exists`: whether there is a value, null included.
//!
//! ```text
//! { "email": { "$exists": true } }
//! in: { "email": null }
//! in: {}
//! out: { "email": null }
//! ```

use super::parse::Operand;
use super::{Predicate, Test};
use crate::{Result, value};

pub(super) fn parse(operand: &Operand<'_>) -> Result<Predicate> {
    let exists = Predicate::Test(Test::Exists);
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
