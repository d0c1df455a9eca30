//! Filters: the conditions that select documents.
//!
//! A filter is parsed once into a [`FilterExpression`], which is matched against raw documents and
//! read by the planner.
//!
//! Each operator is a file of this module and is listed in the registries of [`parse`].

mod all;
mod bits;
mod collated;
mod compare;
mod elem_match;
mod encoded_set;
mod exists;
mod expr;
mod expression;
mod implication;
mod logical;
mod membership;
mod modulo;
mod not;
mod parse;
mod regex;
mod size;
mod type_of;

use std::sync::Arc;

use bson::{RawBson, RawDocument};

use crate::collation::ValueOrder;
use crate::expression::Environment;
use crate::path::Path;
use crate::pattern::PatternScope;
use crate::{Error, Result, value};

pub(crate) use collated::{CollatedOperand, CollatedTest};
pub(crate) use compare::{CompareOperator, Comparison};
pub(crate) use elem_match::ElemMatch;
use expression::OpaqueTest;
pub(crate) use expression::{FilterExpression, ValuePredicate, ValueTest};
pub(crate) use membership::Membership;
use parse::FilterContext;

/// A parsed filter.
#[derive(Debug)]
pub(crate) struct Filter {
    expression: FilterExpression,
}

impl Filter {
    /// Parses a filter outside of a command's own filter, where `$expr` is not allowed. The empty
    /// document matches everything.
    ///
    /// # Errors
    /// Unknown operators, operators that the engine does not support, and operands of the wrong
    /// type. Codes are MongoDB's.
    pub(crate) fn parse(filter: &RawDocument) -> Result<Filter> {
        Filter::parse_in_order(filter, ValueOrder::SIMPLE)
    }

    /// Parses a filter as [`parse`](Filter::parse) does, with the order of values of an operation.
    ///
    /// # Errors
    /// See [`parse`](Filter::parse).
    pub(crate) fn parse_in_order(filter: &RawDocument, order: &ValueOrder) -> Result<Filter> {
        value::check_document(filter)?;
        let _patterns = PatternScope::enter();
        Ok(Filter {
            expression: parse::parse_document(filter, FilterContext::Elsewhere(order))?,
        })
    }

    /// Parses the filter of a command. The empty document matches everything.
    ///
    /// # Errors
    /// See [`parse`](Filter::parse). Also, an `$expr` is invalid.
    pub(crate) fn parse_for_command(
        filter: &RawDocument,
        environment: &Arc<Environment>,
    ) -> Result<Filter> {
        value::check_document(filter)?;
        Ok(Filter {
            expression: environment
                .parse_all(|| parse::parse_document(filter, FilterContext::Command(environment)))?,
        })
    }

    /// Returns a filter for documents with any of these values at a path, also as array elements.
    ///
    /// # Errors
    /// A value nests too deeply.
    pub(crate) fn equal_to_any(
        path: &Path,
        values: &[RawBson],
        order: &ValueOrder,
    ) -> Result<Filter> {
        let mut refs = values.iter().map(RawBson::as_raw_bson_ref);
        let test = match refs.clone().any(|value| order.collates(value)) {
            true => ValueTest::Collated(CollatedTest::membership(values.to_vec(), vec![], order)),
            false => ValueTest::In(Membership::from_values(&mut refs)?),
        };
        Ok(Filter {
            expression: FilterExpression::Field(path.clone(), test),
        })
    }

    /// Returns the conjunction of several filters.
    pub(crate) fn conjunction_of(filters: impl IntoIterator<Item = Filter>) -> Filter {
        let expressions = filters
            .into_iter()
            .flat_map(|filter| match filter.expression {
                FilterExpression::And(all) => all,
                expression => vec![expression],
            });
        Filter {
            expression: FilterExpression::And(expressions.collect()),
        }
    }

    /// Returns whether the conditions apply to a value, such as `{ $gte: 5 }`, instead of to the
    /// fields of a document.
    pub(crate) fn is_on_value(conditions: &RawDocument) -> bool {
        parse::is_on_value(conditions)
    }

    /// Returns whether a document matches.
    ///
    /// # Errors
    /// An `$expr` fails.
    pub(crate) fn matches(&self, document: &RawDocument) -> Result<bool> {
        self.expression.matches(document, &mut None)
    }

    /// Returns whether a document matches a filter without `$expr`. A filter from
    /// [`parse`](Filter::parse) has no `$expr`, so matching cannot fail.
    pub(crate) fn accepts(&self, document: &RawDocument) -> bool {
        self.matches(document).unwrap_or(false)
    }

    /// Returns the position of the array element that matched, for the positional `$` of a
    /// projection.
    ///
    /// The last condition on an array in the order of the filter decides. `None` if the document
    /// does not match, or not through an array.
    ///
    /// # Errors
    /// See [`matches`](Filter::matches).
    pub(crate) fn matched_position_as_written(
        &self,
        document: &RawDocument,
    ) -> Result<Option<usize>> {
        let mut position = None;
        let matches = self.expression.matches(document, &mut position)?;
        Ok(position.filter(|_| matches))
    }

    /// Returns the position of the array element that matched, for the positional `$` of an update.
    ///
    /// `None` if the document does not match, or not through an array.
    ///
    /// # Errors
    /// See [`matches`](Filter::matches).
    pub(crate) fn matched_position(&self, document: &RawDocument) -> Result<Option<usize>> {
        if !self.matches(document)? {
            return Ok(None);
        }
        // The last condition on an array decides, in MongoDB's order of conditions instead of the
        // filter's order.
        let mut conditions = Vec::new();
        self.expression.collect_conjuncts(&mut conditions);
        conditions.sort_by_key(|condition| condition.match_rank());
        let mut position = None;
        for condition in conditions {
            condition.matches(document, &mut position)?;
        }
        Ok(position)
    }

    /// Checks that the filter has no `$expr`. An upsert cannot derive its initial document from an
    /// expression.
    ///
    /// # Errors
    /// The filter has an `$expr` (code 224).
    pub(crate) fn ensure_no_expr(&self) -> Result<()> {
        if has_expr(&self.expression) {
            let message = "the filter of an upsert cannot have an $expr";
            return Err(Error::with_server_code(224, message));
        }
        Ok(())
    }

    /// Returns the parsed conditions, for the planner.
    pub(crate) fn parsed_conditions(&self) -> &FilterExpression {
        &self.expression
    }

    /// Returns whether every document that matches this filter also matches `other`.
    ///
    /// The answer may be a false negative, never a false positive. The planner uses a partial or
    /// sparse index only if the filter implies the index's condition.
    pub(crate) fn implies(&self, other: &Filter) -> bool {
        implication::implies(&self.expression, &other.expression)
    }

    /// Returns whether a matching document must have a value at the path.
    pub(crate) fn requires_path(&self, path: &Path) -> bool {
        implication::requires_path(&self.expression, path)
    }

    /// Returns the fields that the filter compares for equality, with the values. An upsert starts
    /// from these fields.
    pub(crate) fn equalities(&self) -> Vec<(&Path, &RawBson)> {
        let mut equalities = Vec::new();
        collect_equalities(&self.expression, &mut equalities);
        equalities
    }
}

fn has_expr(expression: &FilterExpression) -> bool {
    match expression {
        FilterExpression::And(all) | FilterExpression::Or(all) | FilterExpression::Nor(all) => {
            all.iter().any(has_expr)
        }
        FilterExpression::Not(inner) => has_expr(inner),
        FilterExpression::Expr(_) => true,
        FilterExpression::Field(..) => false,
    }
}

fn collect_equalities<'e>(
    expression: &'e FilterExpression,
    equalities: &mut Vec<(&'e Path, &'e RawBson)>,
) {
    match expression {
        // MongoDB ignores equalities beside a condition that is never true.
        FilterExpression::And(all) if all.iter().any(is_never_true) => {}
        FilterExpression::And(all) => all
            .iter()
            .for_each(|inner| collect_equalities(inner, equalities)),
        FilterExpression::Or(any) => {
            let mut possible = any.iter().filter(|inner| !is_never_true(inner));
            if let (Some(only), None) = (possible.next(), possible.next()) {
                collect_equalities(only, equalities);
            }
        }
        FilterExpression::Field(path, ValueTest::Compare(comparison)) => {
            if comparison.operator == CompareOperator::Eq {
                equalities.push((path, &comparison.value));
            }
        }
        FilterExpression::Field(path, ValueTest::In(membership)) => {
            if let Some(only) = membership.only_value() {
                equalities.push((path, only));
            }
        }
        FilterExpression::Field(path, ValueTest::Collated(collated)) => {
            if let Some(only) = collated.equal_value() {
                equalities.push((path, only));
            }
        }
        FilterExpression::Nor(_)
        | FilterExpression::Not(_)
        | FilterExpression::Field(..)
        | FilterExpression::Expr(_) => {}
    }
}

/// Returns whether MongoDB knows that the condition matches nothing, as with `{ $all: [] }`.
///
/// `{ $in: [] }` matches nothing either, but MongoDB does not detect that.
fn is_never_true(expression: &FilterExpression) -> bool {
    match expression {
        FilterExpression::And(all) => all.iter().any(is_never_true),
        FilterExpression::Or(any) => any.iter().all(is_never_true),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawBson, RawDocumentBuf, rawdoc};

    fn matches(filter: RawDocumentBuf, document: RawDocumentBuf) -> bool {
        Filter::parse(&filter).unwrap().matches(&document).unwrap()
    }

    #[test]
    fn null_matches_missing_fields() {
        assert!(matches(rawdoc! { "a": RawBson::Null }, rawdoc! {}));
        assert!(matches(
            rawdoc! { "a.b": RawBson::Null },
            rawdoc! { "a": [{ "c": 1 }] }
        ));
        assert!(!matches(
            rawdoc! { "a.b": RawBson::Null },
            rawdoc! { "a": [1] }
        ));
    }

    #[test]
    fn conditions_on_one_array_may_hold_for_different_elements() {
        let document = || rawdoc! { "a": [1, 10] };
        assert!(matches(rawdoc! { "a": { "$gt": 5, "$lt": 5 } }, document()));
        assert!(!matches(
            rawdoc! { "a": { "$elemMatch": { "$gt": 5, "$lt": 5 } } },
            document()
        ));
    }

    #[test]
    fn the_position_comes_from_the_last_array_condition() {
        let filter = Filter::parse(&rawdoc! { "a": 2, "b": 8 }).unwrap();
        let position = |document: RawDocumentBuf| filter.matched_position(&document).unwrap();
        assert_eq!(position(rawdoc! { "a": [1, 2], "b": 8 }), Some(1));
        assert_eq!(position(rawdoc! { "a": [1, 2], "b": 7 }), None);
    }

    #[test]
    fn an_element_that_the_path_names_has_no_position() {
        let position = |filter: RawDocumentBuf| {
            let document = rawdoc! { "a": [[1, 9], 3, { "x": 5 }] };
            let filter = Filter::parse(&filter).unwrap();
            assert!(filter.matches(&document).unwrap());
            filter.matched_position(&document).unwrap()
        };
        assert_eq!(position(rawdoc! { "a.1": 3 }), None);
        assert_eq!(position(rawdoc! { "a.2.x": 5 }), None);
        assert_eq!(position(rawdoc! { "a.0.1": { "$exists": true } }), None);
        assert_eq!(
            position(rawdoc! { "a.0": { "$elemMatch": { "$gt": 8 } } }),
            Some(1)
        );
        assert_eq!(position(rawdoc! { "a.x": 5 }), Some(2));
    }

    #[test]
    fn a_contradiction_implies_no_equality() {
        let count = |filter: RawDocumentBuf| Filter::parse(&filter).unwrap().equalities().len();
        assert_eq!(count(rawdoc! { "a": 1, "b": { "$in": [] } }), 1);
        assert_eq!(count(rawdoc! { "a": 1, "b": { "$all": [] } }), 0);
        assert_eq!(
            count(rawdoc! { "$or": [{ "a": 1 }, { "b": { "$all": [] } }] }),
            1
        );
    }

    #[test]
    fn unknown_and_unsupported_operators_are_told_apart() {
        let unknown = Filter::parse(&rawdoc! { "a": { "$foo": 1 } }).unwrap_err();
        assert_eq!(unknown.code(), Some(2));
        let unsupported = Filter::parse(&rawdoc! { "$where": "true" }).unwrap_err();
        assert_ne!(unsupported.code(), Some(2));
    }
}
