//! The positions of fields across several stages.

use std::collections::HashMap;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::document::append_field;
use crate::value;

/// The order of the fields of a document, including the fields that a stage removed.
///
/// A server keeps the position of a removed field. A later stage that adds the field again puts the field into this position.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// The names in order. Empty until a stage changes fields of this document.
    names: Vec<Box<str>>,
    /// The layouts of embedded documents by name, and of the documents in an array by index.
    inner: HashMap<Box<str>, Layout>,
}

impl Layout {
    /// Records the fields of a document before a stage changes them.
    pub(super) fn record_fields(&mut self, document: &RawDocument) {
        let positions = self.positions();
        let new = value::fields(document).map(|(name, _)| name);
        let new: Vec<Box<str>> = new
            .filter(|name| !positions.contains_key(*name))
            .map(Into::into)
            .collect();
        self.names.extend(new);
    }

    /// Returns the document with all fields in the recorded positions. New fields are last.
    pub(super) fn arrange_fields(&mut self, document: RawDocumentBuf) -> RawDocumentBuf {
        self.record_fields(&document);
        let positions = self.positions();
        let mut fields: Vec<_> = value::fields(&document).collect();
        let position = |field: &(&str, RawBsonRef<'_>)| positions.get(field.0).copied();
        if fields.is_sorted_by_key(position) {
            return document;
        }
        fields.sort_by_key(position);
        let mut arranged = RawDocumentBuf::new();
        for (name, value) in fields {
            append_field(&mut arranged, name, value);
        }
        arranged
    }

    /// Returns the layout of an embedded document, an array or an array element.
    pub(super) fn inner(&mut self, name: &str) -> &mut Layout {
        self.inner.entry(name.into()).or_default()
    }

    /// Forgets the positions inside a field that is removed or gets a new value.
    pub(super) fn forget_inner(&mut self, name: &str) {
        self.inner.remove(name);
    }

    fn positions(&self) -> HashMap<&str, usize> {
        self.names
            .iter()
            .enumerate()
            .map(|(position, name)| (&**name, position))
            .collect()
    }
}
