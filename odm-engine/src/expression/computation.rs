//! An expression together with the environment of its command.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};

use super::{Environment, Expression, Value, VariableScope, VisibleVariables};
use crate::Result;

/// An expression bound to the environment of its command.
#[derive(Debug)]
pub(crate) struct Computation {
    expression: Expression,
    environment: Arc<Environment>,
}

impl Computation {
    /// Parses an expression that may use the variables of the environment.
    ///
    /// # Errors
    /// See [`Expression::parse`].
    pub(crate) fn parse(
        value: RawBsonRef<'_>,
        environment: &Arc<Environment>,
    ) -> Result<Computation> {
        let names = VisibleVariables::of_command(environment);
        Ok(Computation {
            expression: Expression::parse(value, &names)?,
            environment: Arc::clone(environment),
        })
    }

    /// Parses an expression that is evaluated before a document exists.
    ///
    /// # Errors
    /// See [`Expression::parse`]. Also, the expression reads fields of a document (code 4890500).
    pub(crate) fn parse_without_document(
        value: RawBsonRef<'_>,
        environment: &Arc<Environment>,
    ) -> Result<Computation> {
        let names = VisibleVariables::without_document(environment);
        Ok(Computation {
            expression: Expression::parse(value, &names)?,
            environment: Arc::clone(environment),
        })
    }

    /// Evaluates the expression for a document.
    ///
    /// # Errors
    /// An operator of the expression fails.
    pub(crate) fn evaluate<'v>(&'v self, document: &'v RawDocument) -> Result<Value<'v>> {
        self.expression
            .evaluate(&VariableScope::new(document, &self.environment))
    }

    /// Parses an expression whose paths start at `$$CURRENT`, which
    /// [`evaluate_current`](Computation::evaluate_current) sets.
    ///
    /// # Errors
    /// See [`Expression::parse`].
    pub(crate) fn parse_current(
        value: RawBsonRef<'_>,
        environment: &Arc<Environment>,
    ) -> Result<Computation> {
        let names = VisibleVariables::of_command(environment);
        let names = names.with_variables(["CURRENT"]);
        Ok(Computation {
            expression: Expression::parse(value, &names)?,
            environment: Arc::clone(environment),
        })
    }

    /// Evaluates the expression for a nested document as `$$CURRENT`. `root` stays `$$ROOT`.
    ///
    /// # Errors
    /// See [`evaluate`](Computation::evaluate).
    pub(crate) fn evaluate_current<'v>(
        &'v self,
        root: &'v RawDocument,
        current: &'v RawDocument,
    ) -> Result<Value<'v>> {
        let scope = VariableScope::new(root, &self.environment);
        let current = Value::Borrowed(RawBsonRef::Document(current));
        self.expression
            .evaluate(&scope.bind_variable("CURRENT", current))
    }

    /// Returns the value if the expression is constant for the command.
    pub(crate) fn constant_value(&self) -> Option<Value<'_>> {
        match &self.expression {
            Expression::Path(path) => path.constant_value(&self.environment),
            expression => expression.as_constant(),
        }
    }

    /// Returns the path in the document if the expression is a plain path.
    pub(crate) fn document_path(&self) -> Option<String> {
        match &self.expression {
            Expression::Path(path) => path.document_path(),
            _ => None,
        }
    }
}
