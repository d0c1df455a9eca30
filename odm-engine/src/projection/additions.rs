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
        let mut parser = Parser {
            tree: Tree::default(),
            environment,
        };
        for (path, value) in value::fields(fields) {
            parser.field(path, value)?;
        }
        Ok(Additions(parser.tree))
    }

    /// The document with its additions.
    ///
    /// # Errors
    /// What expressions fail with.
    pub(crate) fn apply(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        self.0.apply(document, Mode::Exclude, true)
    }
}

struct Parser<'e> {
    tree: Tree,
    environment: &'e Arc<Environment>,
}

impl Parser<'_> {
    fn field(&mut self, path: &str, value: RawBsonRef<'_>) -> Result<()> {
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

    fn computed(&mut self, path: &str, value: RawBsonRef<'_>) -> Result<()> {
        let computation = Computation::parse(value, self.environment)?;
        let leaf = Leaf::Computed(computation);
        match self.tree.insert(Path::new(path).parts(), leaf)? {
            None => Ok(()),
            Some(_) => {
                let message = format!("'{path}' and another path to add to lead into one another");
                Err(Error::server(40176, message))
            }
        }
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
