//! `$in`, `$nin`: a value among others, or matching one of some patterns.
//!
//! ```text
//! { "status": { "$in": ["new", "open"] } }
//! in: { "status": "open" }
//! in: { "status": ["closed", "new"] }
//! in: { "status": "closed" }
//! out: { "status": "open" }
//! out: { "status": ["closed", "new"] }
//!
//! { "status": { "$nin": ["new", { "$regularExpression": { "pattern": "^o", "options": "" } }] } }
//! in: { "status": "open" }
//! in: { "status": "closed" }
//! in: {}
//! out: { "status": "closed" }
//! out: {}
//! ```

use bson::{RawBson, RawBsonRef};

use super::parse::Operand;
use super::{Predicate, Test};
use crate::pattern::Regex;
use crate::{Error, Result, value};

/// A set of values and patterns.
#[derive(Debug)]
pub(crate) struct Membership {
    /// Sorted, without duplicates.
    values: Vec<RawBson>,
    patterns: Vec<Regex>,
}

pub(super) fn parse_in(operand: &Operand<'_>) -> Result<Predicate> {
    let needs_array = || Error::bad_value(format!("{} needs an array", operand.operator));
    let array = operand.value.as_array().ok_or_else(needs_array)?;
    let mut values = Vec::new();
    let mut patterns = Vec::new();
    for item in value::items(array) {
        match item {
            RawBsonRef::RegularExpression(literal) => patterns.push(Regex::from_literal(literal)?),
            RawBsonRef::Undefined => {
                return Err(Error::bad_value(format!(
                    "{} cannot hold undefined",
                    operand.operator
                )));
            }
            RawBsonRef::Document(inner) if has_operator(inner) => {
                let message = format!("{} takes values, not conditions", operand.operator);
                return Err(Error::bad_value(message));
            }
            item => values.push(RawBson::from(item)),
        }
    }
    let membership = Membership::of_values(values);
    Ok(Predicate::Test(Test::In(Membership {
        patterns,
        ..membership
    })))
}

pub(super) fn parse_nin(operand: &Operand<'_>) -> Result<Predicate> {
    parse_in(operand).map(Predicate::negated)
}

impl Membership {
    pub(super) fn of_values(mut values: Vec<RawBson>) -> Membership {
        values.sort_by(|a, b| value::compare(a.as_raw_bson_ref(), b.as_raw_bson_ref()));
        values.dedup_by(|a, b| value::equal(a.as_raw_bson_ref(), b.as_raw_bson_ref()));
        Membership {
            values,
            patterns: Vec::new(),
        }
    }

    /// The values, sorted, without duplicates.
    pub(crate) fn values(&self) -> &[RawBson] {
        &self.values
    }

    /// The patterns that are among the values.
    pub(crate) fn patterns(&self) -> &[Regex] {
        &self.patterns
    }

    /// Whether a value is one of these; a missing one counts as null.
    pub(crate) fn matches(&self, value: Option<RawBsonRef<'_>>) -> bool {
        let value = match value {
            None | Some(RawBsonRef::Undefined) => RawBsonRef::Null,
            Some(value) => value,
        };
        self.values
            .binary_search_by(|known| value::compare(known.as_raw_bson_ref(), value))
            .is_ok()
            || self.patterns.iter().any(|pattern| pattern.matches(value))
    }
}

fn has_operator(document: &bson::RawDocument) -> bool {
    value::fields(document)
        .next()
        .is_some_and(|(name, _)| name.starts_with('$'))
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
    use bson::{RawBson, RawDocumentBuf, rawdoc};

    fn matches(filter: RawDocumentBuf, document: RawDocumentBuf) -> bool {
        Filter::parse(&filter).unwrap().matches(&document).unwrap()
    }

    #[test]
    fn any_of_the_values_will_do() {
        assert!(matches(
            rawdoc! { "a": { "$in": [3, 1] } },
            rawdoc! { "a": [9, 1.0] }
        ));
        assert!(!matches(rawdoc! { "a": { "$in": [] } }, rawdoc! { "a": 1 }));
        assert!(matches(
            rawdoc! { "a": { "$in": [RawBson::Null] } },
            rawdoc! {}
        ));
        assert!(matches(
            rawdoc! { "a": { "$nin": [1] } },
            rawdoc! { "a": [2] }
        ));
        assert!(!matches(
            rawdoc! { "a": { "$nin": [1] } },
            rawdoc! { "a": [2, 1] }
        ));
    }
}
