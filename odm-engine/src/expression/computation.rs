//! An expression with all that it needs besides a document.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};

use super::{Environment, Expression, Names, Scope, Value};
use crate::Result;

/// An expression in the environment of its command.
#[derive(Debug)]
pub(crate) struct Computation {
    expression: Expression,
    environment: Arc<Environment>,
}

impl Computation {
    /// Reads an expression that may use the variables of the environment.
    ///
    /// # Errors
    /// As [`Expression::parse`].
    pub(crate) fn parse(
        value: RawBsonRef<'_>,
        environment: &Arc<Environment>,
    ) -> Result<Computation> {
        let names = Names::of(environment);
        Ok(Computation {
            expression: Expression::parse(value, &names)?,
            environment: Arc::clone(environment),
        })
    }

    /// Reads an expression that is computed before there is a document.
    ///
    /// # Errors
    /// As [`Expression::parse`], and what reads fields (code 4890500).
    pub(crate) fn parse_without_document(
        value: RawBsonRef<'_>,
        environment: &Arc<Environment>,
    ) -> Result<Computation> {
        let names = Names::without_document(environment);
        Ok(Computation {
            expression: Expression::parse(value, &names)?,
            environment: Arc::clone(environment),
        })
    }

    /// The value for a document.
    ///
    /// # Errors
    /// What the operators of the expression fail with.
    pub(crate) fn of<'v>(&'v self, document: &'v RawDocument) -> Result<Value<'v>> {
        self.expression
            .evaluate(&Scope::new(document, &self.environment))
    }

    /// Reads an expression whose paths lead from `$$CURRENT`, which [`of_current`](Computation::of_current) sets.
    ///
    /// # Errors
    /// As [`Expression::parse`].
    pub(crate) fn parse_current(
        value: RawBsonRef<'_>,
        environment: &Arc<Environment>,
    ) -> Result<Computation> {
        let names = Names::of(environment);
        let names = names.with(["CURRENT"]);
        Ok(Computation {
            expression: Expression::parse(value, &names)?,
            environment: Arc::clone(environment),
        })
    }

    /// The value for a document within another one.
    ///
    /// # Errors
    /// As [`of`](Computation::of).
    pub(crate) fn of_current<'v>(
        &'v self,
        root: &'v RawDocument,
        current: &'v RawDocument,
    ) -> Result<Value<'v>> {
        let scope = Scope::new(root, &self.environment);
        let current = Value::Borrowed(RawBsonRef::Document(current));
        self.expression.evaluate(&scope.bind("CURRENT", current))
    }

    /// The value, if it is the same for each document.
    pub(crate) fn constant(&self) -> Option<Value<'_>> {
        match &self.expression {
            Expression::Path(path) => path.of_environment(&self.environment),
            expression => expression.constant(),
        }
    }

    /// The path in the document that the value is at, if it is no more than that.
    pub(crate) fn path(&self) -> Option<String> {
        match &self.expression {
            Expression::Path(path) => path.of_document(),
            _ => None,
        }
    }
}
