//! `$elemMatch`: arrays with an element that meets all of the conditions.
//!
//! ```text
//! { "results": { "$elemMatch": { "$gte": 80, "$lt": 85 } } }
//! in: { "results": [70, 82] }
//! in: { "results": [70, 90] }
//! out: { "results": [70, 82] }
//!
//! { "lines": { "$elemMatch": { "product": "xyz", "count": { "$gte": 8 } } } }
//! in: { "lines": [{ "product": "xyz", "count": 9 }] }
//! in: { "lines": [{ "product": "xyz", "count": 1 }, { "product": "abc", "count": 9 }] }
//! out: { "lines": [{ "product": "xyz", "count": 9 }] }
//!
//! { "members": { "$elemMatch": { "$id": 7 } } }
//! in: { "members": [{ "$ref": "people", "$id": 7 }] }
//! in: { "members": [{ "$ref": "people", "$id": 8 }] }
//! out: { "members": [{ "$ref": "people", "$id": 7 }] }
//! ```

use bson::{RawArray, RawBsonRef, RawDocument};

use super::parse::{self, FieldOperand};
use super::{FilterExpression, ValuePredicate, ValueTest};
use crate::collation::ValueOrder;
use crate::{Error, Result, value};

/// Conditions on a single array element.
#[derive(Debug)]
pub(crate) enum ElemMatch {
    /// The element is a document that matches.
    Document(Box<FilterExpression>),
    /// The element itself meets the conditions.
    Value(Box<ValuePredicate>),
}

pub(super) fn parse_elem_match(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    let RawBsonRef::Document(conditions) = operand.value else {
        return Err(Error::bad_value(
            "$elemMatch needs a document of conditions",
        ));
    };
    Ok(ValuePredicate::Test(ValueTest::ElemMatch(
        ElemMatch::parse_conditions(conditions, operand.order)?,
    )))
}

impl ElemMatch {
    /// Parses the conditions.
    ///
    /// # Errors
    /// The conditions are malformed, as for a filter.
    pub(crate) fn parse_conditions(
        conditions: &RawDocument,
        order: &ValueOrder,
    ) -> Result<ElemMatch> {
        Ok(if parse::is_on_value(conditions) {
            ElemMatch::Value(Box::new(parse::parse_predicate("", conditions, order)?))
        } else {
            ElemMatch::Document(Box::new(parse::parse_document(
                conditions,
                parse::FilterContext::Element(order),
            )?))
        })
    }

    /// Returns the position of the first element that meets the conditions.
    pub(crate) fn first_match(&self, array: &RawArray) -> Option<usize> {
        value::items(array).position(|item| self.matches_item(item))
    }

    fn matches_item(&self, item: RawBsonRef<'_>) -> bool {
        match (self, item) {
            (ElemMatch::Value(predicate), item) => predicate.matches(Some(item)),
            (ElemMatch::Document(expression), RawBsonRef::Document(item)) => {
                matches_document(expression, item)
            }
            // A nested array counts as a document whose field names are positions.
            (ElemMatch::Document(expression), RawBsonRef::Array(item)) => {
                RawDocument::from_bytes(item.as_bytes())
                    .is_ok_and(|item| matches_document(expression, item))
            }
            (ElemMatch::Document(_), _) => false,
        }
    }
}

/// Returns whether an element matches. Matching cannot fail, because `$expr` is not allowed in
/// conditions on elements.
fn matches_document(expression: &FilterExpression, item: &RawDocument) -> bool {
    expression.matches(item, &mut None).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
    use bson::{RawDocumentBuf, rawdoc};

    fn position(filter: RawDocumentBuf, document: RawDocumentBuf) -> Option<usize> {
        Filter::parse(&filter)
            .unwrap()
            .matched_position(&document)
            .unwrap()
    }

    #[test]
    fn one_element_meets_all_conditions() {
        let filter = || rawdoc! { "a": { "$elemMatch": { "x": 1, "y": { "$gt": 1 } } } };
        assert_eq!(
            position(
                filter(),
                rawdoc! { "a": [{ "x": 1, "y": 1 }, { "x": 1, "y": 2 }] }
            ),
            Some(1)
        );
        assert_eq!(
            position(filter(), rawdoc! { "a": [{ "x": 1 }, { "y": 2 }] }),
            None
        );
        assert_eq!(
            position(filter(), rawdoc! { "a": { "x": 1, "y": 2 } }),
            None
        );
    }

    #[test]
    fn nested_arrays_are_elements() {
        let filter = || rawdoc! { "a": { "$elemMatch": { "$elemMatch": { "$gt": 1 } } } };
        assert_eq!(position(filter(), rawdoc! { "a": [[1], [2]] }), Some(1));
        assert_eq!(position(filter(), rawdoc! { "a": [2] }), None);
    }
}
