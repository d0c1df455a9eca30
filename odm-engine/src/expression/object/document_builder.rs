//! Building a document field by field.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bson::{RawBsonRef, RawDocumentBuf};

use crate::document;

/// Fields with distinct names. A field that is set again keeps its position.
#[derive(Debug, Default)]
pub(in crate::expression) struct DocumentBuilder<'v> {
    /// The fields in order. A field without a value was removed.
    fields: Vec<(&'v str, Option<RawBsonRef<'v>>)>,
    places: HashMap<&'v str, usize>,
}

impl<'v> DocumentBuilder<'v> {
    pub(in crate::expression) fn set_field(&mut self, name: &'v str, value: RawBsonRef<'v>) {
        self.put_field(name, Some(value));
    }

    pub(in crate::expression) fn remove_field(&mut self, name: &'v str) {
        self.put_field(name, None);
    }

    pub(in crate::expression) fn into_document(self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        for (name, value) in self.fields {
            if let Some(value) = value {
                document::append_field(&mut document, name, value);
            }
        }
        document
    }

    fn put_field(&mut self, name: &'v str, value: Option<RawBsonRef<'v>>) {
        match self.places.entry(name) {
            Entry::Occupied(place) => {
                if let Some((_, old)) = self.fields.get_mut(*place.get()) {
                    *old = value;
                }
            }
            Entry::Vacant(place) => {
                place.insert(self.fields.len());
                self.fields.push((name, value));
            }
        }
    }
}
