//! `$elemMatch`: an array with one element that meets all of the conditions.
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
//! ```

use bson::{RawArray, RawBsonRef, RawDocument};

use super::parse::{self, Operand};
use super::{Expression, Predicate, Test};
use crate::{Error, Result, value};

/// Conditions on a single element of an array.
#[derive(Debug)]
pub(crate) enum ElemMatch {
    /// The element is a document that matches.
    Document(Box<Expression>),
    /// The element itself meets the conditions.
    Value(Box<Predicate>),
}

pub(super) fn parse(operand: &Operand<'_>) -> Result<Predicate> {
    let RawBsonRef::Document(conditions) = operand.value else {
        return Err(Error::bad_value(
            "$elemMatch needs a document of conditions",
        ));
    };
    Ok(Predicate::Test(Test::ElemMatch(ElemMatch::parse(
        conditions,
    )?)))
}

impl ElemMatch {
    /// Reads the conditions.
    ///
    /// # Errors
    /// As a filter's.
    pub(crate) fn parse(conditions: &RawDocument) -> Result<ElemMatch> {
        Ok(if parse::is_on_value(conditions) {
            ElemMatch::Value(Box::new(parse::predicate("", conditions)?))
        } else {
            ElemMatch::Document(Box::new(parse::document(
                conditions,
                parse::Place::Element,
            )?))
        })
    }

    /// The position of the first element that meets the conditions.
    pub(crate) fn position(&self, array: &RawArray) -> Option<usize> {
        value::items(array).position(|item| self.matches(item))
    }

    fn matches(&self, item: RawBsonRef<'_>) -> bool {
        match (self, item) {
            (ElemMatch::Value(predicate), item) => predicate.matches(Some(item)),
            (ElemMatch::Document(expression), RawBsonRef::Document(item)) => {
                holds(expression, item)
            }
            // An array counts as a document whose fields are its positions.
            (ElemMatch::Document(expression), RawBsonRef::Array(item)) => {
                RawDocument::from_bytes(item.as_bytes()).is_ok_and(|item| holds(expression, item))
            }
            (ElemMatch::Document(_), _) => false,
        }
    }
}

/// Whether an element matches. Only `$expr` could fail, and it has no place in here.
fn holds(expression: &Expression, item: &RawDocument) -> bool {
    expression.matches(item, &mut None).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
    use bson::{RawDocumentBuf, rawdoc};

    fn position(filter: RawDocumentBuf, document: RawDocumentBuf) -> Option<usize> {
        Filter::parse(&filter).unwrap().position(&document).unwrap()
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
