//! `$expr`: an aggregation expression that is true for the document.
//!
//! ```text
//! { "$expr": { "$gt": ["$spent", "$budget"] } }
//! in: { "budget": 5, "spent": 6 }
//! in: { "budget": 5, "spent": 4 }
//! out: { "budget": 5, "spent": 6 }
//! ```

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};

use super::compare::{Comparison, Operator};
use super::parse::{Condition, Place};
use super::{Expression, Test};
use crate::error::code;
use crate::expression::{Computation, Environment};
use crate::path::Path;
use crate::{Error, Result, value};

/// An expression as a condition.
#[derive(Debug)]
pub(crate) struct Expr {
    condition: Computation,
    /// What filters can say of it too: every document for which the expression is true matches this.
    implied: Box<Expression>,
}

pub(super) fn parse(condition: &Condition<'_>) -> Result<Expression> {
    let value = condition.value;
    let environment = match condition.place {
        Place::Command(environment) => environment,
        Place::Elsewhere => {
            let message = "$expr has a place in the filter of a command only";
            return Err(Error::server(code::QUERY_FEATURE_NOT_ALLOWED, message));
        }
        Place::Element => {
            let message = "$expr is a condition on whole documents, not on elements";
            return Err(Error::bad_value(message));
        }
    };
    let condition = Computation::parse(value, environment)?;
    let implied = implied(value, environment).unwrap_or(Expression::And(Vec::new()));
    Ok(Expression::Expr(Expr {
        condition,
        implied: Box::new(implied),
    }))
}

impl Expr {
    pub(super) fn matches(&self, document: &RawDocument) -> Result<bool> {
        Ok(self.condition.of(document)?.is_truthy())
    }

    /// What every document that matches also matches, for the planner.
    pub(crate) fn implied(&self) -> &Expression {
        &self.implied
    }
}

/// What `{ $eq: ["$path", constant] }`, and several of them in an `$and`, say in the language of filters.
fn implied(value: RawBsonRef<'_>, environment: &Arc<Environment>) -> Option<Expression> {
    let mut fields = value::fields(value.as_document()?);
    let (name, operand) = fields.next().filter(|_| fields.next().is_none())?;
    let mut operands = value::items(operand.as_array()?);
    if name == "$and" {
        let all = operands.filter_map(|operand| implied(operand, environment));
        return Some(Expression::And(all.collect()));
    }
    let (one, other) = (operands.next()?, operands.next()?);
    if name != "$eq" || operands.next().is_some() {
        return None;
    }
    let one = Computation::parse(one, environment).ok()?;
    let other = Computation::parse(other, environment).ok()?;
    let (path, constant) = match (one.path(), other.path()) {
        (Some(path), None) => (path, other.constant()?),
        (None, Some(path)) => (path, one.constant()?),
        _ => return None,
    };
    let value = constant.into_bson()?;
    match value.as_raw_bson_ref() {
        // An expression compares an array as a whole, a filter its elements too; and undefined is no null.
        RawBsonRef::Array(_) | RawBsonRef::Undefined | RawBsonRef::Null => None,
        // Within an array, an expression finds arrays.
        _ => Some(Expression::Field(
            Path::new(&path),
            Test::Compare(Comparison {
                operator: Operator::Eq,
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
        Filter::parse_in(&filter, &Arc::default()).unwrap()
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
    fn it_has_its_place_in_the_filter_of_a_command_only() {
        let inner = rawdoc! { "a": { "$elemMatch": { "$expr": true } } };
        let error = Filter::parse_in(&inner, &Arc::default()).unwrap_err();
        assert_eq!(error.code(), Some(2));
        let error = Filter::parse(&rawdoc! { "$or": [{ "$expr": true }] }).unwrap_err();
        assert_eq!(error.code(), Some(224));
    }
}
