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

use super::encoded_set::{EncodedSet, Encoder};
use super::parse::Operand;
use super::{Predicate, Test};
use crate::pattern::Regex;
use crate::{Error, Result, value};

/// How many values are compared one by one. More of them are held as their encodings, which take less memory.
const MAX_COMPARED: usize = 64;

/// A set of values and patterns.
#[derive(Debug)]
pub(crate) struct Membership {
    /// Sorted, without duplicates. Where there are many, only null and arrays, which an index has elsewhere.
    values: Vec<RawBson>,
    /// All values, where there are many.
    many: Option<EncodedSet>,
    patterns: Vec<Regex>,
}

pub(super) fn parse_in(operand: &Operand<'_>) -> Result<Predicate> {
    let needs_array = || Error::bad_value(format!("{} needs an array", operand.operator));
    let array = operand.value.as_array().ok_or_else(needs_array)?;
    let mut collector = Collector::default();
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
            item => collector.add(item)?,
        }
    }
    Ok(Predicate::Test(Test::In(collector.finish(patterns))))
}

pub(super) fn parse_nin(operand: &Operand<'_>) -> Result<Predicate> {
    parse_in(operand).map(Predicate::negated)
}

impl Membership {
    pub(super) fn of_values<'v>(
        values: impl IntoIterator<Item = RawBsonRef<'v>>,
    ) -> Result<Membership> {
        let mut collector = Collector::default();
        for value in values {
            collector.add(value)?;
        }
        Ok(collector.finish(Vec::new()))
    }

    /// The only value, if there is one alone.
    pub(crate) fn only_value(&self) -> Option<&RawBson> {
        match (self.values.as_slice(), &self.many, self.patterns.as_slice()) {
            ([only], None, []) => Some(only),
            _ => None,
        }
    }

    /// The values that are not among the [encodings](Membership::encodings) alone, sorted, without duplicates.
    pub(crate) fn values(&self) -> &[RawBson] {
        &self.values
    }

    /// The encodings of all values, where these are many, in ascending order.
    pub(crate) fn encodings(&self) -> impl Iterator<Item = &[u8]> {
        self.many.iter().flat_map(EncodedSet::iter)
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
        let is_known = match &self.many {
            Some(many) => many.contains(value),
            None => {
                let known = |known: &RawBson| value::compare(known.as_raw_bson_ref(), value);
                self.values.binary_search_by(known).is_ok()
            }
        };
        is_known || self.patterns.iter().any(|pattern| pattern.matches(value))
    }
}

/// Takes values one by one.
#[derive(Default)]
struct Collector {
    values: Vec<RawBson>,
    encoder: Encoder,
}

impl Collector {
    fn add(&mut self, value: RawBsonRef<'_>) -> Result<()> {
        if !self.encoder.is_empty() {
            if is_special(value) {
                self.values.push(value.into());
            }
            return self.encoder.add(value);
        }
        self.values.push(value.into());
        if self.values.len() > MAX_COMPARED {
            for value in &self.values {
                self.encoder.add(value.as_raw_bson_ref())?;
            }
            self.values
                .retain(|value| is_special(value.as_raw_bson_ref()));
        }
        Ok(())
    }

    fn finish(self, patterns: Vec<Regex>) -> Membership {
        let mut values = self.values;
        values.sort_by(|a, b| value::compare(a.as_raw_bson_ref(), b.as_raw_bson_ref()));
        values.dedup_by(|a, b| value::equal(a.as_raw_bson_ref(), b.as_raw_bson_ref()));
        Membership {
            values,
            many: (!self.encoder.is_empty()).then(|| self.encoder.finish()),
            patterns,
        }
    }
}

/// Whether an index has documents with this value also under another one.
fn is_special(value: RawBsonRef<'_>) -> bool {
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
        let many: bson::RawArrayBuf = (1000..1500).map(RawBson::Int32).collect();
        let mut both = many.clone();
        special.iter().cloned().for_each(|value| both.push(value));
        for (position, value) in special.iter().enumerate() {
            let document = rawdoc! { "a": value.clone() };
            let alone: bson::RawArrayBuf = [value.clone()].into_iter().collect();
            for (filter, expected) in [
                (rawdoc! { "a": { "$in": alone } }, true),
                (rawdoc! { "a": { "$in": both.clone() } }, true),
                (rawdoc! { "a": { "$in": many.clone() } }, false),
                (rawdoc! { "a": { "$nin": both.clone() } }, false),
                (rawdoc! { "a": { "$nin": many.clone() } }, true),
            ] {
                assert_eq!(matches(filter, document.clone()), expected, "{position}");
            }
        }
        let among = |value: RawBson| {
            matches(
                rawdoc! { "a": { "$in": both.clone() } },
                rawdoc! { "a": value },
            )
        };
        assert!(among(RawBson::Double(1200.0)) && among(bson::rawbson!([3, 1499_i64])));
        assert!(!among(RawBson::Double(1200.5)) && !among(RawBson::Int32(1500)));
        // A missing field is null.
        assert!(matches(
            rawdoc! { "a": { "$in": both.clone() } },
            rawdoc! {}
        ));
        assert!(!matches(rawdoc! { "a": { "$in": many } }, rawdoc! {}));
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
