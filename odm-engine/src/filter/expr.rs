//! `$expr`: an aggregation expression that must be true for the document.
//!
//! ```text
//! { "$expr": { "$gt": ["$spent", "$budget"] } }
//! in: { "budget": 5, "spent": 6 }
//! in: { "budget": 5, "spent": 4 }
//! out: { "budget": 5, "spent": 6 }
//! ```

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};

use super::compare::{CompareOperator, Comparison};
use super::parse::{DocumentOperand, FilterContext};
use super::{FilterExpression, ValueTest};
use crate::error::code;
use crate::expression::{Computation, Environment};
use crate::path::Path;
use crate::{Error, Result, value};

/// The condition of `$expr`.
#[derive(Debug)]
pub(crate) struct ExprCondition {
    condition: Computation,
    /// A condition without expressions that every matching document also satisfies.
    implied: Box<FilterExpression>,
}

pub(super) fn parse_expr(condition: &DocumentOperand<'_>) -> Result<FilterExpression> {
    let value = condition.value;
    let environment = match condition.place {
        FilterContext::Command(environment) => environment,
        FilterContext::Elsewhere(_) => {
            let message = "$expr is allowed only in the filter of a command";
            return Err(Error::with_server_code(
                code::QUERY_FEATURE_NOT_ALLOWED,
                message,
            ));
        }
        FilterContext::Element(_) => {
            let message = "$expr is a condition on documents and is not allowed inside $elemMatch";
            return Err(Error::bad_value(message));
        }
    };
    let condition = Computation::parse(value, environment)?;
    let implied =
        translate_equalities(value, environment).unwrap_or(FilterExpression::And(Vec::new()));
    Ok(FilterExpression::Expr(ExprCondition {
        condition,
        implied: Box::new(implied),
    }))
}

impl ExprCondition {
    pub(super) fn matches(&self, document: &RawDocument) -> Result<bool> {
        Ok(self.condition.evaluate(document)?.is_truthy())
    }

    /// Returns a condition that every matching document also satisfies, for the planner.
    pub(crate) fn implied_condition(&self) -> &FilterExpression {
        &self.implied
    }
}

/// Translates `{ $eq: ["$path", constant] }`, alone or inside `$and`, into filter conditions.
/// `None` if nothing can be translated.
fn translate_equalities(
    value: RawBsonRef<'_>,
    environment: &Arc<Environment>,
) -> Option<FilterExpression> {
    let mut fields = value::fields(value.as_document()?);
    let (name, operand) = fields.next().filter(|_| fields.next().is_none())?;
    let mut operands = value::items(operand.as_array()?);
    if name == "$and" {
        let all = operands.filter_map(|operand| translate_equalities(operand, environment));
        return Some(FilterExpression::And(all.collect()));
    }
    let (left, right) = (operands.next()?, operands.next()?);
    if name != "$eq" || operands.next().is_some() {
        return None;
    }
    let left = Computation::parse(left, environment).ok()?;
    let right = Computation::parse(right, environment).ok()?;
    let (path, constant) = match (left.document_path(), right.document_path()) {
        (Some(path), None) => (path, right.constant_value()?),
        (None, Some(path)) => (path, left.constant_value()?),
        _ => return None,
    };
    let value = constant.into_bson()?;
    match value.as_raw_bson_ref() {
        // A comparison under a collation has no bounds here.
        collated if environment.order().collates(collated) => None,
        // An expression compares an array as a whole, but a filter also compares the elements.
        // Undefined and null also differ between the two.
        RawBsonRef::Array(_) | RawBsonRef::Undefined | RawBsonRef::Null => None,
        // If the path leads through an array, the expression sees an array, which never equals a
        // scalar. The filter matches at least as many documents.
        _ => Some(FilterExpression::Field(
            Path::new(&path),
            ValueTest::Compare(Comparison {
                operator: CompareOperator::Eq,
                value,
            }),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;
    use bson::{RawDocumentBuf, rawdoc};

    fn filter(filter: RawDocumentBuf) -> Filter {
        Filter::parse_for_command(&filter, &Arc::default()).unwrap()
    }

    #[test]
    fn an_expression_decides() {
        let truthy = filter(rawdoc! { "$expr": "$a" });
        assert!(truthy.matches(&rawdoc! { "a": 1 }).unwrap());
        assert!(!truthy.matches(&rawdoc! { "a": 0 }).unwrap());
        assert!(!truthy.matches(&rawdoc! {}).unwrap());
        let failing = filter(rawdoc! { "$expr": { "$abs": "$a" } });
        assert_eq!(
            failing.matches(&rawdoc! { "a": "x" }).unwrap_err().code(),
            Some(28765)
        );
    }

    #[test]
    fn expr_is_allowed_only_in_command_filters() {
        let inner = rawdoc! { "a": { "$elemMatch": { "$expr": true } } };
        let error = Filter::parse_for_command(&inner, &Arc::default()).unwrap_err();
        assert_eq!(error.code(), Some(2));
        let error = Filter::parse(&rawdoc! { "$or": [{ "$expr": true }] }).unwrap_err();
        assert_eq!(error.code(), Some(224));
    }
}
