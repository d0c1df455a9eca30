//! Filters: which documents an operation is about.
//!
//! A filter is parsed once into an [`Expression`], which is matched against raw documents and read
//! by the planner. Each operator is a file of this module, listed in [`parse`]'s registries.

mod all;
mod bits;
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

use crate::expression::Environment;
use crate::path::Path;
use crate::pattern::PatternScope;
use crate::{Error, Result, value};

pub(crate) use compare::{Comparison, Operator as CompareOperator};
pub(crate) use elem_match::ElemMatch;
use expression::Operator;
pub(crate) use expression::{Expression, Predicate, Test};
pub(crate) use membership::Membership;
use parse::Place;

/// A parsed filter.
#[derive(Debug)]
pub(crate) struct Filter {
    expression: Expression,
}

impl Filter {
    /// Reads a filter document that is not the filter of a command, so that `$expr` has no place in
    /// it. The empty document matches everything.
    ///
    /// # Errors
    /// Unknown operators, operators that the engine does not support, and operands of the wrong
    /// kind, with MongoDB's codes.
    pub(crate) fn parse(filter: &RawDocument) -> Result<Filter> {
        value::check(filter)?;
        let _patterns = PatternScope::enter();
        Ok(Filter {
            expression: parse::document(filter, Place::Elsewhere)?,
        })
    }

    /// Reads the filter of a command. The empty document matches everything.
    ///
    /// # Errors
    /// As [`parse`](Filter::parse), and what is wrong with an `$expr`.
    pub(crate) fn parse_in(filter: &RawDocument, environment: &Arc<Environment>) -> Result<Filter> {
        value::check(filter)?;
        Ok(Filter {
            expression: environment
                .parse_all(|| parse::document(filter, Place::Command(environment)))?,
        })
    }

    /// A path that has a value equal to one of these, also within an array.
    ///
    /// # Errors
    /// A value that nests too deeply.
    pub(crate) fn equal_to_any(path: &Path, values: &[RawBson]) -> Result<Filter> {
        let values = values.iter().map(RawBson::as_raw_bson_ref);
        let membership = Membership::of_values(values)?;
        Ok(Filter {
            expression: Expression::Field(path.clone(), Test::In(membership)),
        })
    }

    /// What all of some filters say together.
    pub(crate) fn all(filters: impl IntoIterator<Item = Filter>) -> Filter {
        let expressions = filters
            .into_iter()
            .flat_map(|filter| match filter.expression {
                Expression::And(all) => all,
                expression => vec![expression],
            });
        Filter {
            expression: Expression::And(expressions.collect()),
        }
    }

    /// Whether a document holds conditions on a value, such as `{ $gte: 5 }`, rather than on the
    /// fields of a document.
    pub(crate) fn is_on_value(conditions: &RawDocument) -> bool {
        parse::is_on_value(conditions)
    }

    /// Whether a document matches.
    ///
    /// # Errors
    /// What an `$expr` fails with.
    pub(crate) fn matches(&self, document: &RawDocument) -> Result<bool> {
        self.expression.matches(document, &mut None)
    }

    /// Whether a document matches a filter from [`parse`](Filter::parse), which has no `$expr` and never fails.
    pub(crate) fn accepts(&self, document: &RawDocument) -> bool {
        self.matches(document).unwrap_or(false)
    }

    /// The position of the array element through which a document matches, which positional `$`
    /// stands for in a projection: that of the last condition on an array. `None` if it does not match,
    /// or not through an array.
    ///
    /// # Errors
    /// As [`matches`](Filter::matches).
    pub(crate) fn position_as_written(&self, document: &RawDocument) -> Result<Option<usize>> {
        let mut position = None;
        let matches = self.expression.matches(document, &mut position)?;
        Ok(position.filter(|_| matches))
    }

    /// The position of the array element through which a document matches, which positional `$`
    /// stands for in an update. `None` if it does not match, or not through an array.
    ///
    /// # Errors
    /// As [`matches`](Filter::matches).
    pub(crate) fn position(&self, document: &RawDocument) -> Result<Option<usize>> {
        if !self.matches(document)? {
            return Ok(None);
        }
        // The last condition on an array decides, in the order of MongoDB, not in that of the filter.
        let mut conditions = Vec::new();
        self.expression.conjuncts(&mut conditions);
        conditions.sort_by_key(|condition| condition.rank());
        let mut position = None;
        for condition in conditions {
            condition.matches(document, &mut position)?;
        }
        Ok(position)
    }

    /// Refuses an `$expr`: an upsert could not tell what it starts from.
    ///
    /// # Errors
    /// There is one (code 224).
    pub(crate) fn check_upsert(&self) -> Result<()> {
        if has_expr(&self.expression) {
            let message = "the filter of an upsert cannot have an $expr";
            return Err(Error::server(224, message));
        }
        Ok(())
    }

    /// What the filter says, for the planner.
    pub(crate) fn expression(&self) -> &Expression {
        &self.expression
    }

    /// Whether every document that matches this filter also matches `other`.
    ///
    /// Errs on the side of no. It decides whether a partial or sparse index may answer a query.
    pub(crate) fn implies(&self, other: &Filter) -> bool {
        implication::implies(&self.expression, &other.expression)
    }

    /// Whether documents without a value at the path cannot match.
    pub(crate) fn requires(&self, path: &Path) -> bool {
        implication::requires(&self.expression, path)
    }

    /// The values that the filter says fields are equal to, which an upsert starts from.
    pub(crate) fn equalities(&self) -> Vec<(&Path, &RawBson)> {
        let mut found = Vec::new();
        collect_equalities(&self.expression, &mut found);
        found
    }
}

fn has_expr(expression: &Expression) -> bool {
    match expression {
        Expression::And(all) | Expression::Or(all) | Expression::Nor(all) => {
            all.iter().any(has_expr)
        }
        Expression::Not(inner) => has_expr(inner),
        Expression::Expr(_) => true,
        Expression::Field(..) => false,
    }
}

fn collect_equalities<'e>(expression: &'e Expression, found: &mut Vec<(&'e Path, &'e RawBson)>) {
    match expression {
        // MongoDB forgets what stands beside a condition that is never true.
        Expression::And(all) if all.iter().any(is_never) => {}
        Expression::And(all) => all
            .iter()
            .for_each(|inner| collect_equalities(inner, found)),
        Expression::Or(any) => {
            let mut possible = any.iter().filter(|inner| !is_never(inner));
            if let (Some(only), None) = (possible.next(), possible.next()) {
                collect_equalities(only, found);
            }
        }
        Expression::Field(path, Test::Compare(comparison)) => {
            if comparison.operator == CompareOperator::Eq {
                found.push((path, &comparison.value));
            }
        }
        Expression::Field(path, Test::In(membership)) => {
            if let Some(only) = membership.only_value() {
                found.push((path, only));
            }
        }
        Expression::Nor(_) | Expression::Not(_) | Expression::Field(..) | Expression::Expr(_) => {}
    }
}

/// Whether nothing can match, as with `{ $all: [] }`; of `{ $in: [] }`, too, that is true, but MongoDB does not see it.
fn is_never(expression: &Expression) -> bool {
    match expression {
        Expression::And(all) => all.iter().any(is_never),
        Expression::Or(any) => any.iter().all(is_never),
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
    fn null_matches_what_is_missing() {
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
    fn the_position_is_that_of_the_last_condition_on_an_array() {
        let filter = Filter::parse(&rawdoc! { "a": 2, "b": 8 }).unwrap();
        let position = |document: RawDocumentBuf| filter.position(&document).unwrap();
        assert_eq!(position(rawdoc! { "a": [1, 2], "b": 8 }), Some(1));
        assert_eq!(position(rawdoc! { "a": [1, 2], "b": 7 }), None);
    }

    #[test]
    fn an_element_that_the_path_names_has_no_position() {
        let position = |filter: RawDocumentBuf| {
            let document = rawdoc! { "a": [[1, 9], 3, { "x": 5 }] };
            let filter = Filter::parse(&filter).unwrap();
            assert!(filter.matches(&document).unwrap());
            filter.position(&document).unwrap()
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
    fn what_is_never_true_says_nothing_about_equality() {
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
