//! `$in`, `$nin`: membership in a list of values and patterns.
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

use super::collated::CollatedTest;
use super::encoded_set::{EncodedSet, EncodedSetBuilder};
use super::parse::FieldOperand;
use super::{ValuePredicate, ValueTest};
use crate::pattern::Regex;
use crate::{Error, Result, value};

/// The maximum number of values that are compared one by one. Larger sets are stored as encodings,
/// which take less memory.
const MAX_COMPARED_VALUES: usize = 64;

/// A set of values and patterns.
#[derive(Debug)]
pub(crate) struct Membership {
    /// The values, sorted and without duplicates. A large set keeps only null and arrays here,
    /// because an index stores such values under other keys too.
    compared_values: Vec<RawBson>,
    /// The encodings of all values of a large set.
    encoded_values: Option<EncodedSet>,
    patterns: Vec<Regex>,
}

pub(super) fn parse_in(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    let needs_array = || Error::bad_value(format!("{} needs an array", operand.operator));
    let array = operand.value.as_array().ok_or_else(needs_array)?;
    let is_collated = value::items(array).any(|item| operand.order.collates(item));
    let mut collector = MembershipBuilder::default();
    let (mut patterns, mut collated) = (Vec::new(), Vec::new());
    for item in value::items(array) {
        match item {
            RawBsonRef::RegularExpression(literal) => patterns.push(Regex::from_literal(literal)?),
            RawBsonRef::Undefined => {
                return Err(Error::bad_value(format!(
                    "{} cannot contain undefined",
                    operand.operator
                )));
            }
            RawBsonRef::Document(inner) if has_operator(inner) => {
                let message = format!("{} takes values, not conditions", operand.operator);
                return Err(Error::bad_value(message));
            }
            item if is_collated => collated.push(item.into()),
            item => collector.add_value(item)?,
        }
    }
    if is_collated {
        let membership = CollatedTest::membership(collated, patterns, operand.order);
        return Ok(ValuePredicate::Test(ValueTest::Collated(membership)));
    }
    Ok(ValuePredicate::Test(ValueTest::In(
        collector.into_membership(patterns),
    )))
}

pub(super) fn parse_nin(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    parse_in(operand).map(ValuePredicate::negated)
}

impl Membership {
    pub(super) fn from_values<'v>(
        values: impl IntoIterator<Item = RawBsonRef<'v>>,
    ) -> Result<Membership> {
        let mut collector = MembershipBuilder::default();
        for value in values {
            collector.add_value(value)?;
        }
        Ok(collector.into_membership(Vec::new()))
    }

    /// Returns the value if the set has exactly one value and no pattern.
    pub(crate) fn only_value(&self) -> Option<&RawBson> {
        match (
            self.compared_values.as_slice(),
            &self.encoded_values,
            self.patterns.as_slice(),
        ) {
            ([only], None, []) => Some(only),
            _ => None,
        }
    }

    /// Returns the values that are compared one by one, sorted and without duplicates. For a large
    /// set, the values whose [encodings](Membership::encodings) do not suffice.
    pub(crate) fn compared_values(&self) -> &[RawBson] {
        &self.compared_values
    }

    /// Returns the encodings of all values of a large set, in ascending order.
    pub(crate) fn encodings(&self) -> impl Iterator<Item = &[u8]> {
        self.encoded_values.iter().flat_map(EncodedSet::iter)
    }

    /// Returns the patterns.
    pub(crate) fn patterns(&self) -> &[Regex] {
        &self.patterns
    }

    /// Returns whether a value is in the set. A missing value counts as null.
    pub(crate) fn matches(&self, value: Option<RawBsonRef<'_>>) -> bool {
        let value = match value {
            None | Some(RawBsonRef::Undefined) => RawBsonRef::Null,
            Some(value) => value,
        };
        let is_known = match &self.encoded_values {
            Some(encoded_values) => encoded_values.contains(value),
            None => {
                let known = |known: &RawBson| value::compare(known.as_raw_bson_ref(), value);
                self.compared_values.binary_search_by(known).is_ok()
            }
        };
        is_known || self.patterns.iter().any(|pattern| pattern.matches(value))
    }
}

/// Builds a [`Membership`] value by value.
#[derive(Default)]
struct MembershipBuilder {
    values: Vec<RawBson>,
    encoder: EncodedSetBuilder,
}

impl MembershipBuilder {
    fn add_value(&mut self, value: RawBsonRef<'_>) -> Result<()> {
        if !self.encoder.is_empty() {
            if has_several_keys(value) {
                self.values.push(value.into());
            }
            return self.encoder.add_value(value);
        }
        self.values.push(value.into());
        if self.values.len() > MAX_COMPARED_VALUES {
            for value in &self.values {
                self.encoder.add_value(value.as_raw_bson_ref())?;
            }
            self.values
                .retain(|value| has_several_keys(value.as_raw_bson_ref()));
        }
        Ok(())
    }

    fn into_membership(self, patterns: Vec<Regex>) -> Membership {
        let mut values = self.values;
        values.sort_by(|a, b| value::compare(a.as_raw_bson_ref(), b.as_raw_bson_ref()));
        values.dedup_by(|a, b| value::equal(a.as_raw_bson_ref(), b.as_raw_bson_ref()));
        Membership {
            compared_values: values,
            encoded_values: (!self.encoder.is_empty()).then(|| self.encoder.finish()),
            patterns,
        }
    }
}

/// Returns whether an index may store documents with this value under another key.
fn has_several_keys(value: RawBsonRef<'_>) -> bool {
    matches!(value, RawBsonRef::Null | RawBsonRef::Array(_))
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
    fn many_values_are_the_same_set() {
        let special = [
            RawBson::Null,
            RawBson::Double(f64::NAN),
            RawBson::Int64(7),
            RawBson::Double(0.5),
            "text".into(),
            rawdoc! { "b": [1] }.into(),
            bson::rawbson!([1, 2]),
            bson::rawbson!([]),
        ];
        let values: bson::RawArrayBuf = (1000..1500).map(RawBson::Int32).collect();
        let mut both = values.clone();
        special.iter().cloned().for_each(|value| both.push(value));
        for (position, value) in special.iter().enumerate() {
            let document = rawdoc! { "a": value.clone() };
            let single: bson::RawArrayBuf = [value.clone()].into_iter().collect();
            for (filter, expected) in [
                (rawdoc! { "a": { "$in": single } }, true),
                (rawdoc! { "a": { "$in": both.clone() } }, true),
                (rawdoc! { "a": { "$in": values.clone() } }, false),
                (rawdoc! { "a": { "$nin": both.clone() } }, false),
                (rawdoc! { "a": { "$nin": values.clone() } }, true),
            ] {
                assert_eq!(matches(filter, document.clone()), expected, "{position}");
            }
        }
        let is_member = |value: RawBson| {
            matches(
                rawdoc! { "a": { "$in": both.clone() } },
                rawdoc! { "a": value },
            )
        };
        assert!(is_member(RawBson::Double(1200.0)) && is_member(bson::rawbson!([3, 1499_i64])));
        assert!(!is_member(RawBson::Double(1200.5)) && !is_member(RawBson::Int32(1500)));
        // A missing field counts as null.
        assert!(matches(
            rawdoc! { "a": { "$in": both.clone() } },
            rawdoc! {}
        ));
        assert!(!matches(rawdoc! { "a": { "$in": values } }, rawdoc! {}));
    }

    #[test]
    fn any_listed_value_matches() {
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
