//! Variables during evaluation: the variables of the command and the bindings of operators.

use bson::{DateTime, RawBson, RawBsonRef, RawDocument};

use super::Value;
use super::constants::ConstantFolding;
use crate::Result;
use crate::collation::ValueOrder;

/// The state shared by all expressions of one command: `$$NOW`, variables and the folding mode.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    /// The value of `$$NOW`.
    now: DateTime,
    /// Variables of the command by name. `None` is the missing value.
    variables: Vec<(String, Option<RawBson>)>,
    constants: ConstantFolding,
    order: ValueOrder,
}

/// A document with the variables visible to an expression.
#[derive(Debug, Clone)]
pub(crate) struct VariableScope<'s, 'v> {
    root: &'v RawDocument,
    environment: &'v Environment,
    /// The variables of the innermost binding. `outer` has the enclosing bindings.
    bound: Vec<(&'v str, Value<'v>)>,
    outer: Option<&'s VariableScope<'s, 'v>>,
}

impl Default for Environment {
    /// Returns an environment without variables.
    fn default() -> Environment {
        Environment::at_time(DateTime::now())
    }
}

impl Environment {
    pub(crate) fn at_time(now: DateTime) -> Environment {
        Environment {
            now,
            variables: Vec::new(),
            constants: ConstantFolding::new(true),
            order: ValueOrder::default(),
        }
    }

    /// Returns the environment with a different order of values.
    pub(crate) fn with_order(self, order: ValueOrder) -> Environment {
        Environment { order, ..self }
    }

    /// The order of values in comparisons.
    pub(crate) fn order(&self) -> &ValueOrder {
        &self.order
    }

    /// Returns a copy of the environment without constant folding: constants are evaluated for each
    /// document and fail only if a document exists.
    pub(crate) fn without_folding(&self) -> Environment {
        Environment {
            constants: ConstantFolding::new(false),
            ..self.clone()
        }
    }

    /// Parses several expressions. The failure of a constant part is returned only after all are
    /// parsed, by the outermost call.
    ///
    /// # Errors
    /// `parse` fails, or else a constant part failed: the first failure is returned.
    pub(crate) fn parse_all<T>(&self, parse: impl FnOnce() -> Result<T>) -> Result<T> {
        self.constants.parse_all(parse)
    }

    pub(super) fn constant_folding(&self) -> &ConstantFolding {
        &self.constants
    }

    /// Sets a variable, replacing an earlier value.
    pub(crate) fn set_variable(&mut self, name: &str, value: Option<RawBson>) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value));
    }

    /// Returns the value of a variable. `None` if the variable does not exist.
    pub(super) fn get(&self, name: &str) -> Option<&Option<RawBson>> {
        let mut variables = self.variables.iter();
        variables
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }

    /// Returns the names of the variables.
    pub(crate) fn variable_names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|(name, _)| name.as_str())
    }
}

impl<'v> VariableScope<'_, 'v> {
    pub(crate) fn new(
        root: &'v RawDocument,
        environment: &'v Environment,
    ) -> VariableScope<'v, 'v> {
        VariableScope {
            root,
            environment,
            bound: Vec::new(),
            outer: None,
        }
    }

    /// Adds a variable, which shadows a variable of the same name.
    pub(super) fn bind_variable<'i>(
        &'i self,
        name: &'v str,
        value: Value<'v>,
    ) -> VariableScope<'i, 'v> {
        self.bind_all(vec![(name, value)])
    }

    /// Adds variables, which shadow variables of the same names.
    pub(super) fn bind_all<'i>(
        &'i self,
        bound: Vec<(&'v str, Value<'v>)>,
    ) -> VariableScope<'i, 'v> {
        VariableScope {
            root: self.root,
            environment: self.environment,
            bound,
            outer: Some(self),
        }
    }

    /// Returns the value of a variable. Parsing has checked that the variable exists.
    pub(super) fn get(&self, name: &str) -> Value<'v> {
        let mut scope = Some(self);
        while let Some(inner) = scope {
            if let Some((_, value)) = inner.bound.iter().find(|(bound, _)| *bound == name) {
                return value.clone();
            }
            scope = inner.outer;
        }
        let variables = &self.environment.variables;
        if let Some((_, value)) = variables.iter().find(|(known, _)| known == name) {
            return Value::from(value.as_ref().map(RawBson::as_raw_bson_ref));
        }
        match name {
            "CURRENT" | "ROOT" => Value::Borrowed(RawBsonRef::Document(self.root)),
            "NOW" => Value::Borrowed(RawBsonRef::DateTime(self.environment.now)),
            _ => Value::Missing,
        }
    }

    pub(super) fn root_document(&self) -> &'v RawDocument {
        self.root
    }
}
