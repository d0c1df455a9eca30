//! Field paths: `"$a.b"` in the document, `"$$name.a.b"` in a variable.
//!
//! An array on the path gives an array of the values that the remaining path finds in its
//! documents. A number is always a field name, never a position.

use bson::{RawArrayBuf, RawBson, RawBsonRef};

use super::names::{self, VisibleVariables};
use super::{Environment, Value, VariableScope};
use crate::{Error, Result, sort, value};

/// A parsed field path.
#[derive(Debug)]
pub(crate) struct FieldPath {
    /// The variable at the start of the path. `None` for the document itself.
    variable: Option<Box<str>>,
    parts: Box<[Box<str>]>,
}

impl FieldPath {
    /// Parses a path that starts with `$` or `$$`.
    ///
    /// # Errors
    /// The text is not a path, or the variable is unknown.
    pub(super) fn parse(text: &str, names: &VisibleVariables<'_>) -> Result<FieldPath> {
        if let Some(text) = text.strip_prefix("$$") {
            let (variable, path) = match text.split_once('.') {
                Some((variable, path)) => (variable, Some(path)),
                None => (text, None),
            };
            names::check_name(variable)?;
            names.check_visible(variable)?;
            if path.is_some_and(str::is_empty) {
                let message = format!("the path '{text}' ends with a dot");
                return Err(Error::with_server_code(40353, message));
            }
            if matches!(variable, "CURRENT" | "ROOT") {
                names.check_document()?;
            }
            return Ok(FieldPath {
                variable: Some(variable.into()),
                parts: path.map_or(Ok(Box::default()), split_path)?,
            });
        }
        let path = text.strip_prefix('$').unwrap_or(text);
        if path.is_empty() {
            return Err(Error::with_server_code(
                16872,
                "a field path cannot be '$' alone",
            ));
        }
        let parts = split_path(path)?;
        let variable = names.is_bound("CURRENT").then(|| "CURRENT".into());
        names.check_document()?;
        Ok(FieldPath { variable, parts })
    }

    pub(super) fn evaluate<'v>(&self, scope: &VariableScope<'_, 'v>) -> Value<'v> {
        let start = match &self.variable {
            None => Value::Borrowed(RawBsonRef::Document(scope.root_document())),
            Some(name) => scope.get(name),
        };
        match start {
            Value::Borrowed(start) => lookup_path(start, &self.parts),
            start if self.parts.is_empty() => start,
            start => match start.as_bson() {
                Some(start) => Value::from(lookup_path(start, &self.parts).into_bson()),
                None => Value::Missing,
            },
        }
    }

    /// Returns the value if the path starts at a variable of the command.
    pub(crate) fn constant_value<'v>(&self, environment: &'v Environment) -> Option<Value<'v>> {
        match environment.get(self.variable.as_deref()?)? {
            Some(start) => Some(lookup_path(start.as_raw_bson_ref(), &self.parts)),
            None => Some(Value::Missing),
        }
    }

    /// Returns the path if the path starts at the document, for callers that look at stored fields.
    pub(crate) fn document_path(&self) -> Option<String> {
        match self.variable.as_deref() {
            None | Some("ROOT") if !self.parts.is_empty() => Some(self.parts.join(".")),
            _ => None,
        }
    }
}

fn split_path(path: &str) -> Result<Box<[Box<str>]>> {
    if path.is_empty() {
        return Err(Error::with_server_code(
            40353,
            "a field path cannot end with a dot",
        ));
    }
    if path.contains('\0') {
        return Err(Error::with_server_code(
            16411,
            "a field path cannot contain a null byte",
        ));
    }
    sort::check_field_path(path)?;
    Ok(path.split('.').map(Box::from).collect())
}

fn lookup_path<'v>(start: RawBsonRef<'v>, parts: &[Box<str>]) -> Value<'v> {
    let Some((part, rest)) = parts.split_first() else {
        return Value::Borrowed(start);
    };
    match start {
        RawBsonRef::Document(document) => {
            value::get(document, part).map_or(Value::Missing, |inner| lookup_path(inner, rest))
        }
        RawBsonRef::Array(array) => {
            let mut values = RawArrayBuf::new();
            // Arrays inside arrays are skipped.
            let documents = value::items(array).filter(|item| item.as_document().is_some());
            for document in documents {
                if let Some(inner) = lookup_path(document, parts).as_bson() {
                    values.push(inner);
                }
            }
            Value::Owned(RawBson::Array(values))
        }
        _ => Value::Missing,
    }
}
