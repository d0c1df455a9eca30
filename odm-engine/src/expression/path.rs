//! `"$a.b"`, `"$$name.a.b"`: what is at a path of the document or of a variable.
//!
//! An array on the way gives an array: of what the rest of the path finds in each of its documents.
//! A number names a field, never a position.

use bson::{RawArrayBuf, RawBson, RawBsonRef};

use super::names::{self, Names};
use super::{Environment, Scope, Value};
use crate::{Error, Result, sort, value};

/// A parsed path.
#[derive(Debug)]
pub(crate) struct FieldPath {
    /// The variable to start from. `None` for the document itself.
    variable: Option<Box<str>>,
    parts: Box<[Box<str>]>,
}

impl FieldPath {
    /// Reads a path with its `$` or `$$` in front.
    ///
    /// # Errors
    /// Not a path, or an unknown variable.
    pub(super) fn parse(text: &str, names: &Names<'_>) -> Result<FieldPath> {
        if let Some(text) = text.strip_prefix("$$") {
            let (variable, path) = match text.split_once('.') {
                Some((variable, path)) => (variable, Some(path)),
                None => (text, None),
            };
            names::check_readable(variable)?;
            names.check(variable)?;
            if path.is_some_and(str::is_empty) {
                let message = format!("the path '{text}' ends with a dot");
                return Err(Error::server(40353, message));
            }
            if matches!(variable, "CURRENT" | "ROOT") {
                names.check_document()?;
            }
            return Ok(FieldPath {
                variable: Some(variable.into()),
                parts: path.map_or(Ok(Box::default()), parts)?,
            });
        }
        let path = text.strip_prefix('$').unwrap_or(text);
        if path.is_empty() {
            return Err(Error::server(16872, "'$' alone is not the path of a field"));
        }
        let parts = parts(path)?;
        let variable = names.is_bound("CURRENT").then(|| "CURRENT".into());
        names.check_document()?;
        Ok(FieldPath { variable, parts })
    }

    pub(super) fn evaluate<'v>(&self, scope: &Scope<'_, 'v>) -> Value<'v> {
        let start = match &self.variable {
            None => Value::Borrowed(RawBsonRef::Document(scope.root())),
            Some(name) => scope.get(name),
        };
        match start {
            Value::Borrowed(start) => lookup(start, &self.parts),
            start if self.parts.is_empty() => start,
            start => match start.as_bson() {
                Some(start) => Value::from(lookup(start, &self.parts).into_bson()),
                None => Value::Missing,
            },
        }
    }

    /// The value, if it is at a variable of the command.
    pub(crate) fn of_environment<'v>(&self, environment: &'v Environment) -> Option<Value<'v>> {
        match environment.get(self.variable.as_deref()?)? {
            Some(start) => Some(lookup(start.as_raw_bson_ref(), &self.parts)),
            None => Some(Value::Missing),
        }
    }

    /// The path if it starts from the document, for those who look at stored fields.
    pub(crate) fn of_document(&self) -> Option<String> {
        match self.variable.as_deref() {
            None | Some("ROOT") if !self.parts.is_empty() => Some(self.parts.join(".")),
            _ => None,
        }
    }
}

fn parts(path: &str) -> Result<Box<[Box<str>]>> {
    if path.is_empty() {
        return Err(Error::server(40353, "a path does not end with a dot"));
    }
    if path.contains('\0') {
        return Err(Error::server(16411, "the path of a field has no null byte"));
    }
    sort::check_field_path(path)?;
    Ok(path.split('.').map(Box::from).collect())
}

fn lookup<'v>(start: RawBsonRef<'v>, parts: &[Box<str>]) -> Value<'v> {
    let Some((part, rest)) = parts.split_first() else {
        return Value::Borrowed(start);
    };
    match start {
        RawBsonRef::Document(document) => {
            value::get(document, part).map_or(Value::Missing, |inner| lookup(inner, rest))
        }
        RawBsonRef::Array(array) => {
            let mut found = RawArrayBuf::new();
            // Arrays in arrays are not entered.
            let documents = value::items(array).filter(|item| item.as_document().is_some());
            for document in documents {
                if let Some(inner) = lookup(document, parts).as_bson() {
                    found.push(inner);
                }
            }
            Value::Owned(RawBson::Array(found))
        }
        _ => Value::Missing,
    }
}
