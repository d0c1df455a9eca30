//! Fields that are added to a document or take the place of those that are there.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::Mode;
use super::tree::{Leaf, Tree};
use crate::expression::{Computation, Environment, Expression};
use crate::path::Path;
use crate::sort::check_field_path;
use crate::{Error, Result, value};

/// Computed fields besides all that a document has.
#[derive(Debug)]
pub(crate) struct Additions(Tree);

impl Additions {
    /// Reads the fields to add.
    ///
    /// # Errors
    /// Paths that collide, malformed expressions, with MongoDB's codes.
    pub(crate) fn parse(fields: &RawDocument, environment: &Arc<Environment>) -> Result<Additions> {
        let mut paths = Paths::default();
        for (path, value) in value::fields(fields) {
            paths.field(path, value)?;
        }
        let mut tree = Tree::default();
        for (path, value) in paths.computed {
            let computation = Computation::parse(value, environment)?;
            tree.insert(path.parts(), Leaf::Computed(computation))?;
        }
        Ok(Additions(tree))
    }

    /// The document with its additions.
    ///
    /// # Errors
    /// What expressions fail with.
    pub(crate) fn apply(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        self.0.apply(document, Mode::Exclude, true)
    }
}

/// The paths of what is added. As on MongoDB, all of them are checked before what computes the first.
#[derive(Default)]
struct Paths<'d> {
    taken: Tree,
    computed: Vec<(Path, RawBsonRef<'d>)>,
}

impl<'d> Paths<'d> {
    fn field(&mut self, path: &str, value: RawBsonRef<'d>) -> Result<()> {
        check_field_path(path)?;
        let RawBsonRef::Document(inner) = value else {
            return self.computed(path, value);
        };
        if inner.is_empty() {
            let message = format!("the field '{path}' to add is an empty document");
            return Err(Error::server(40180, message));
        }
        let has_operator = value::fields(inner).any(|(name, _)| name.starts_with('$'));
        if has_operator {
            if value::fields(inner).nth(1).is_some() {
                let message = format!("the operator that computes '{path}' stands alone");
                return Err(Error::server(40181, message));
            }
            return self.computed(path, value);
        }
        for (name, value) in value::fields(inner) {
            if name.contains('.') {
                let message = format!("'{name}' inside of '{path}' cannot have a dot in it");
                return Err(Error::server(40183, message));
            }
            self.field(&format!("{path}.{name}"), value)?;
        }
        Ok(())
    }

    fn computed(&mut self, path: &str, value: RawBsonRef<'d>) -> Result<()> {
        let added = Path::new(path);
        if self.taken.insert(added.parts(), Leaf::Named)?.is_some() {
            let message = format!("'{path}' and another path to add to lead into one another");
            return Err(Error::server(40176, message));
        }
        self.computed.push((added, value));
        Ok(())
    }
}

/// Whether a value is computed by an operator, as `{ $add: [1, 2] }`.
pub(super) fn operator<'d>(value: RawBsonRef<'d>) -> Option<&'d str> {
    let mut fields = value::fields(value.as_document()?);
    match (fields.next(), fields.next()) {
        (Some((name, _)), None) if name.starts_with('$') => Some(name),
        _ => None,
    }
}

/// Reads what computes a field of a projection.
pub(super) fn computation(
    path: &str,
    value: RawBsonRef<'_>,
    environment: &Arc<Environment>,
) -> Result<Computation> {
    Computation::parse(value, environment).map_err(|error| match operator(value) {
        // MongoDB knows it, as an operator of queries.
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
        let error = Additions::parse(&fields, &Arc::default()).unwrap_err();
        assert_eq!(error.code(), Some(40176));
    }
}
