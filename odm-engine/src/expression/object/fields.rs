//! A document that is put together field by field.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bson::{RawBsonRef, RawDocumentBuf};

use crate::document;

/// Fields with distinct names. Setting one again leaves it in its place.
#[derive(Debug, Default)]
pub(in crate::expression) struct Fields<'v> {
    /// In order. A field without a value has been removed.
    fields: Vec<(&'v str, Option<RawBsonRef<'v>>)>,
    places: HashMap<&'v str, usize>,
}

impl<'v> Fields<'v> {
    pub(in crate::expression) fn set(&mut self, name: &'v str, value: RawBsonRef<'v>) {
        self.put(name, Some(value));
    }

    pub(in crate::expression) fn remove(&mut self, name: &'v str) {
        self.put(name, None);
    }

    pub(in crate::expression) fn into_document(self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        for (name, value) in self.fields {
            if let Some(value) = value {
                document::append(&mut document, name, value);
            }
        }
        document
    }

    fn put(&mut self, name: &'v str, value: Option<RawBsonRef<'v>>) {
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
