//! Computed fields that are added to a document or replace existing fields.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::tree::{FieldProjection, ProjectionTree};
use super::{FieldChange, ProjectionMode};
use crate::expression::{Computation, Environment, Expression};
use crate::path::Path;
use crate::sort::check_field_path;
use crate::{Error, Result, value};

/// Computed fields, added to all fields of a document.
#[derive(Debug)]
pub(crate) struct AddedFields(ProjectionTree);

impl AddedFields {
    /// Parses the fields to add.
    ///
    /// # Errors
    /// Paths that collide, and malformed expressions. Codes are MongoDB's.
    pub(crate) fn parse(
        fields: &RawDocument,
        environment: &Arc<Environment>,
    ) -> Result<AddedFields> {
        let mut paths = AddedPaths::default();
        for (path, value) in value::fields(fields) {
            paths.add_field(path, value)?;
        }
        let mut tree = ProjectionTree::default();
        for (path, value) in paths.computed {
            let computation = Computation::parse(value, environment)?;
            tree.insert_path(path.parts(), FieldProjection::Computed(computation))?;
        }
        Ok(AddedFields(tree))
    }

    /// Returns the document with the added fields.
    ///
    /// # Errors
    /// An expression fails.
    pub(crate) fn apply(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        self.0.apply(document, ProjectionMode::Exclude, true, None)
    }

    /// Returns the stage as a change of fields that keeps positions.
    pub(crate) fn as_field_change(&self) -> FieldChange<'_> {
        FieldChange {
            tree: &self.0,
            keeps_id: true,
        }
    }
}

/// The paths of the added fields. As on MongoDB, all paths are checked before the first expression
/// is parsed.
#[derive(Default)]
struct AddedPaths<'d> {
    taken: ProjectionTree,
    computed: Vec<(Path, RawBsonRef<'d>)>,
}

impl<'d> AddedPaths<'d> {
    fn add_field(&mut self, path: &str, value: RawBsonRef<'d>) -> Result<()> {
        check_field_path(path)?;
        let RawBsonRef::Document(inner) = value else {
            return self.add_computed(path, value);
        };
        if inner.is_empty() {
            let message = format!("the added field '{path}' cannot be an empty document");
            return Err(Error::with_server_code(40180, message));
        }
        let has_operator = value::fields(inner).any(|(name, _)| name.starts_with('$'));
        if has_operator {
            if value::fields(inner).nth(1).is_some() {
                let message = format!(
                    "the operator that computes '{path}' must be the only field of its document"
                );
                return Err(Error::with_server_code(40181, message));
            }
            return self.add_computed(path, value);
        }
        for (name, value) in value::fields(inner) {
            if name.contains('.') {
                let message = format!("the field '{name}' inside of '{path}' cannot contain a dot");
                return Err(Error::with_server_code(40183, message));
            }
            self.add_field(&format!("{path}.{name}"), value)?;
        }
        Ok(())
    }

    fn add_computed(&mut self, path: &str, value: RawBsonRef<'d>) -> Result<()> {
        let added = Path::new(path);
        if self
            .taken
            .insert_path(added.parts(), FieldProjection::Named)?
            .is_some()
        {
            let message = format!("the path '{path}' collides with another added path");
            return Err(Error::with_server_code(40176, message));
        }
        self.computed.push((added, value));
        Ok(())
    }
}

/// Returns the operator's name if a value is computed by an operator, such as `{ $add: [1, 2] }`.
pub(super) fn operator_name<'d>(value: RawBsonRef<'d>) -> Option<&'d str> {
    let mut fields = value::fields(value.as_document()?);
    match (fields.next(), fields.next()) {
        (Some((name, _)), None) if name.starts_with('$') => Some(name),
        _ => None,
    }
}

/// Parses the expression of a computed field.
pub(super) fn parse_computation(
    path: &str,
    value: RawBsonRef<'_>,
    environment: &Arc<Environment>,
) -> Result<Computation> {
    Computation::parse(value, environment).map_err(|error| match operator_name(value) {
        // MongoDB knows `$elemMatch` as a query operator, and so reports another error.
        Some("$elemMatch") => error,
        Some(name) if error.code() == Some(168) && !Expression::is_operator(name) => {
            let message = format!("unknown operator in the projection of '{path}': {name}");
            Error::unknown_operator(31325, message)
        }
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn paths_that_collide_come_before_expressions() {
        let fields = rawdoc! { "a.b": { "$foo": 1 }, "a": 1 };
        let error = AddedFields::parse(&fields, &Arc::default()).unwrap_err();
        assert_eq!(error.code(), Some(40176));
    }
}
