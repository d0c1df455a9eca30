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
        let names = Names::of(environment.names());
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
}
