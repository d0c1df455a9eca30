//! What an expression can see while it is evaluated.

use bson::{DateTime, RawBson, RawBsonRef, RawDocument};

use super::Value;
use super::constants::Constants;
use crate::Result;

/// What all expressions of one command see.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    /// The value of `$$NOW`.
    now: DateTime,
    /// Variables of the command, by name. A missing value is possible.
    variables: Vec<(String, Option<RawBson>)>,
    constants: Constants,
}

/// A document, and the variables that operators have bound.
#[derive(Debug, Clone)]
pub(crate) struct Scope<'s, 'v> {
    root: &'v RawDocument,
    environment: &'v Environment,
    /// The innermost bindings; those around them follow.
    bound: Vec<(&'v str, Value<'v>)>,
    outer: Option<&'s Scope<'s, 'v>>,
}

impl Default for Environment {
    /// What a command without variables sees.
    fn default() -> Environment {
        Environment::new(DateTime::now())
    }
}

impl Environment {
    pub(crate) fn new(now: DateTime) -> Environment {
        Environment {
            now,
            variables: Vec::new(),
            constants: Constants::new(true),
        }
    }

    /// The same, where expressions stay as they are written: what is constant in them is computed for
    /// each document, and so fails only where there is one.
    pub(crate) fn as_written(&self) -> Environment {
        Environment {
            constants: Constants::new(false),
            ..self.clone()
        }
    }

    /// Parses several things: that a constant part of one of them fails is reported once all of them
    /// have been parsed, if nothing around reports it.
    ///
    /// # Errors
    /// What `parse` fails with; what the first constant part fails with.
    pub(crate) fn parse_all<T>(&self, parse: impl FnOnce() -> Result<T>) -> Result<T> {
        self.constants.parse_all(parse)
    }

    pub(super) fn constants(&self) -> &Constants {
        &self.constants
    }

    /// Adds a variable, or gives it another value.
    pub(crate) fn set(&mut self, name: &str, value: Option<RawBson>) {
        self.variables.retain(|(own, _)| own != name);
        self.variables.push((name.to_owned(), value));
    }

    /// The value of a variable, if there is one of this name.
    pub(super) fn get(&self, name: &str) -> Option<&Option<RawBson>> {
        let mut variables = self.variables.iter();
        variables
            .find(|(own, _)| own == name)
            .map(|(_, value)| value)
    }

    /// The names of the variables.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|(name, _)| name.as_str())
    }
}

impl<'v> Scope<'_, 'v> {
    pub(crate) fn new(root: &'v RawDocument, environment: &'v Environment) -> Scope<'v, 'v> {
        Scope {
            root,
            environment,
            bound: Vec::new(),
            outer: None,
        }
    }

    /// This scope with one more variable, which hides one of the same name.
    pub(super) fn bind<'i>(&'i self, name: &'v str, value: Value<'v>) -> Scope<'i, 'v> {
        self.bind_all(vec![(name, value)])
    }

    /// This scope with more variables, which hide those of the same names.
    pub(super) fn bind_all<'i>(&'i self, bound: Vec<(&'v str, Value<'v>)>) -> Scope<'i, 'v> {
        Scope {
            root: self.root,
            environment: self.environment,
            bound,
            outer: Some(self),
        }
    }

    /// The value of a variable. Parsing has made sure that there is one of this name.
    pub(super) fn get(&self, name: &str) -> Value<'v> {
        let mut scope = Some(self);
        while let Some(inner) = scope {
            if let Some((_, value)) = inner.bound.iter().find(|(bound, _)| *bound == name) {
                return value.clone();
            }
            scope = inner.outer;
        }
        let variables = &self.environment.variables;
        if let Some((_, value)) = variables.iter().find(|(own, _)| own == name) {
            return Value::from(value.as_ref().map(RawBson::as_raw_bson_ref));
        }
        match name {
            "CURRENT" | "ROOT" => Value::Borrowed(RawBsonRef::Document(self.root)),
            "NOW" => Value::Borrowed(RawBsonRef::DateTime(self.environment.now)),
            _ => Value::Missing,
        }
    }

    pub(super) fn root(&self) -> &'v RawDocument {
        self.root
    }
}
