//! Validates the outcome of an update.

use bson::{RawDocument, RawDocumentBuf};

use super::{broken_rules, validation_error};
use crate::{
    Error, ErrorKind, Result, error,
    model::{decode, document::Document},
    schema::{Model, OverflowField},
};

/// The places that only the outcome of an update can validate.
#[derive(Debug, Clone)]
pub(crate) struct OutcomeCheck {
    model: &'static Model,
    paths: Vec<String>,
    /// Whether rules of other places read these places.
    entangled: bool,
    check_stored_document: fn(&Self, &RawDocument) -> Result<()>,
}

impl OutcomeCheck {
    pub(super) fn for_model<T: Document>() -> Self {
        Self {
            model: &T::MODEL,
            paths: Vec::new(),
            entangled: false,
            check_stored_document: Self::check_stored_document::<T>,
        }
    }

    pub(super) fn add_places(&mut self, paths: Vec<String>, entangled: bool) {
        self.paths.extend(paths);
        self.entangled |= entangled;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Returns the overflow arrays with undecided places. The check must read their spilled elements too.
    pub(crate) fn overflow_fields(&self) -> impl Iterator<Item = &'static OverflowField> {
        let fields = self.model.overflows.iter();
        fields.filter(|field| self.paths.iter().any(|path| field.contains_path(path)))
    }

    /// Validates the documents after an update.
    ///
    /// Rules that other places broke before the update are not reported.
    ///
    /// # Errors
    ///
    /// [`Validation`](ErrorKind::Validation) for the first document with a broken rule.
    pub(crate) fn check_documents(&self, documents: &[RawDocumentBuf]) -> Result<()> {
        let mut documents = documents.iter();
        documents.try_for_each(|raw| (self.check_stored_document)(self, raw))
    }

    fn check_stored_document<T: Document>(&self, raw: &RawDocument) -> Result<()> {
        let Some(rules) = T::RULES else {
            return Ok(());
        };
        let document = T::from_stored(raw)?;
        let mut broken = broken_rules(rules, &document);
        broken.retain(|(path, _)| self.entangled || self.covers_path(path));
        if broken.is_empty() {
            return Ok(());
        }
        let error = error::naming_model(self.model)(validation_error(broken));
        Err(match decode::stored_id(raw).map(bson::Bson::try_from) {
            Some(Ok(id)) => error.with_id(id),
            _ => error,
        })
    }

    /// Whether the path is an undecided place, a part of an undecided place, or a parent of an undecided place.
    fn covers_path(&self, path: &str) -> bool {
        self.paths.iter().any(|undecided_path| {
            undecided_path
                .split('.')
                .zip(path.split('.'))
                .all(|(part, name)| part == name || part.starts_with('$') || name.is_empty())
        })
    }

    /// Returns the error for a backend without transactions, where an invalid outcome could not be rolled back.
    pub(crate) fn unsupported_error(&self) -> Error {
        let message = "this update can only be validated after the write, and a standalone server has no transactions to roll \
                       an invalid document back: use `set`, or `modify`, which validates before the write";
        let error = error::naming_model(self.model)(Error::new(ErrorKind::Unsupported, message));
        match self.paths.first() {
            Some(path) => error.with_path(path.clone()),
            None => error,
        }
    }
}
