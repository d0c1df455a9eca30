//! Stored metadata: the names and typed views of the fields that `odm` stores beside the fields of a model.
//!
//! No other module contains a stored name. `docs/internals/metadata.md` describes each field: writers, readers, the end of
//! the field, and the index that serves reads.

pub(crate) mod collections;
pub(crate) mod copy;
pub(crate) mod overflow;
pub(crate) mod pending;
pub(crate) mod references;
pub(crate) mod rollup;
pub(crate) mod transfer;

use bson::{Bson, Document, RawBsonRef, RawDocument};

use crate::{Result, error};

/// The field of a document, of an embedded struct or of a list entry that contains the metadata.
pub(crate) const FIELD: &str = "_odm";

/// [`FIELD`] as an aggregation expression.
pub(crate) const FIELD_EXPRESSION: &str = "$_odm";

/// Expands to the path of a metadata field, as a constant string.
macro_rules! metadata_path {
    ($name:literal) => {
        concat!("_odm.", $name)
    };
}
use metadata_path;

/// The schema version of a model with an upgrade.
pub(crate) const SCHEMA_VERSION: &str = metadata_path!("schema_version");

/// The caseless texts of a document, by stored name of the text: see `model/caseless.rs`.
pub(crate) const CASELESS: &str = metadata_path!("caseless");

/// Returns the path of the caseless form of a text.
pub(crate) fn caseless_path(stored: &str) -> String {
    format!("{CASELESS}.{stored}")
}

/// Returns the path of the text with this caseless form. Another path stays.
pub(crate) fn text_of_caseless(path: &str) -> &str {
    let text = path.strip_prefix(CASELESS);
    text.and_then(|text| text.strip_prefix('.')).unwrap_or(path)
}

/// Marks a document in memory as complete: all fields were read. Never stored.
pub(crate) const COMPLETE: &str = metadata_path!("complete");

/// The metadata of a raw document. Every getter returns `None` if the document has no metadata.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metadata<'d>(Option<&'d RawDocument>);

impl<'d> Metadata<'d> {
    /// Returns the metadata of a document.
    pub(crate) fn of(document: &'d RawDocument) -> Self {
        Self(document.get_document(FIELD).ok())
    }

    /// Returns the metadata of a document, or an error for malformed BSON.
    pub(crate) fn read(document: &'d RawDocument) -> Result<Self> {
        let metadata = document.get(FIELD).map_err(error::from_bson)?;
        Ok(Self(metadata.and_then(RawBsonRef::as_document)))
    }

    /// Returns the value at a metadata path.
    pub(crate) fn value(self, path: &str) -> Option<RawBsonRef<'d>> {
        let mut value = RawBsonRef::Document(self.0?);
        for name in names_below(path) {
            value = value.as_document()?.get(name).ok()??;
        }
        Some(value)
    }

    pub(crate) fn schema_version(self) -> Option<RawBsonRef<'d>> {
        self.value(SCHEMA_VERSION)
    }

    pub(crate) fn is_complete(self) -> bool {
        self.value(COMPLETE).is_some()
    }
}

/// The metadata of a parsed document. Every getter returns `None` if the document has no metadata.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ParsedMetadata<'d>(Option<&'d Document>);

impl<'d> ParsedMetadata<'d> {
    /// Returns the metadata of a document, of an embedded struct or of a list entry.
    pub(crate) fn of(document: &'d Document) -> Self {
        Self(document.get_document(FIELD).ok())
    }

    /// Returns the value at a metadata path.
    fn value(self, path: &str) -> Option<&'d Bson> {
        let mut names = names_below(path);
        let mut value = self.0?.get(names.next()?)?;
        for name in names {
            value = value.as_document()?.get(name)?;
        }
        Some(value)
    }
}

/// Returns the names on a metadata path, below [`FIELD`].
fn names_below(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').skip(1)
}
