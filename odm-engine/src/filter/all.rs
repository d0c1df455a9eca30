//! `$all`: arrays that contain all of the given elements.
//!
//! ```text
//! { "tags": { "$all": ["red", "round"] } }
//! in: { "tags": ["round", "small", "red"] }
//! in: { "tags": ["red"] }
//! out: { "tags": ["round", "small", "red"] }
//! ```

use bson::{RawBsonRef, RawDocument};

use super::compare::Comparison;
use super::parse::{self, FieldOperand};
use super::{ValuePredicate, ValueTest, elem_match};
use crate::collation::ValueOrder;
use crate::pattern::Regex;
use crate::{Error, Result, value};

pub(super) fn parse_all(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    let needs_array = || Error::bad_value("$all needs an array");
    let array = operand.value.as_array().ok_or_else(needs_array)?;
    if array.is_empty() {
        return Ok(ValuePredicate::Never);
    }
    let first = value::items(array).next().and_then(RawBsonRef::as_document);
    let of_elements = first.is_some_and(|first| elem_match_operand(first).is_some());
    let item_condition = |item| {
        if of_elements {
            element_condition(operand, item)
        } else {
            value_condition(item, operand.order)
        }
    };
    Ok(ValuePredicate::All(
        value::items(array)
            .map(item_condition)
            .collect::<Result<_>>()?,
    ))
}

fn value_condition(item: RawBsonRef<'_>, order: &ValueOrder) -> Result<ValuePredicate> {
    match item {
        RawBsonRef::RegularExpression(literal) => Ok(ValuePredicate::Test(ValueTest::Regex(
            Regex::from_literal(literal)?,
        ))),
        RawBsonRef::Document(inner) if parse::has_operators(inner) => Err(Error::bad_value(
            "$all takes values or only $elemMatch, not conditions",
        )),
        item => Comparison::equality_predicate(item, order),
    }
}

fn element_condition(operand: &FieldOperand<'_>, item: RawBsonRef<'_>) -> Result<ValuePredicate> {
    let siblings = item.as_document();
    let condition = siblings.and_then(|item| Some((item, elem_match_operand(item)?)));
    let (siblings, value) = condition.ok_or_else(|| {
        Error::bad_value("if one entry of $all is $elemMatch, all entries must be $elemMatch")
    })?;
    elem_match::parse_elem_match(&FieldOperand {
        operator: "$elemMatch",
        value,
        siblings,
        ..*operand
    })
}

fn elem_match_operand(item: &RawDocument) -> Option<RawBsonRef<'_>> {
    value::fields(item)
        .next()
        .filter(|(name, _)| *name == "$elemMatch")
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
    use bson::{RawDocumentBuf, rawdoc};

    fn matches(filter: RawDocumentBuf, document: RawDocumentBuf) -> bool {
        Filter::parse(&filter).unwrap().matches(&document).unwrap()
    }

    #[test]
    fn every_value_is_needed() {
        assert!(matches(
            rawdoc! { "a": { "$all": [1, 2] } },
            rawdoc! { "a": [2, 3, 1] }
        ));
        assert!(!matches(
            rawdoc! { "a": { "$all": [1, 4] } },
            rawdoc! { "a": [2, 3, 1] }
        ));
        assert!(matches(
            rawdoc! { "a": { "$all": [1] } },
            rawdoc! { "a": 1 }
        ));
        assert!(!matches(
            rawdoc! { "a": { "$all": [] } },
            rawdoc! { "a": [] }
        ));
    }

    #[test]
    fn elements_may_have_conditions() {
        let filter = || {
            rawdoc! { "a": { "$all": [{ "$elemMatch": { "b": 1 } }, { "$elemMatch": { "b": 2 } }] } }
        };
        assert!(matches(filter(), rawdoc! { "a": [{ "b": 2 }, { "b": 1 }] }));
        assert!(!matches(filter(), rawdoc! { "a": [{ "b": 2 }] }));
    }
}
