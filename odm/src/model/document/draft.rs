//! Drafts of documents: inserts before the framework has filled copies and computed fields.

use bson::{RawBson, RawDocument, RawDocumentBuf};
use serde::{Serialize, Serializer, ser::SerializeMap};

use super::Stored;
use crate::{Error, ErrorKind, Result, error, language::query::append_field, model::native};

/// A document to insert, either complete or without copies and computed fields.
#[derive(Debug)]
pub struct Draft<T>(pub(crate) DraftContent<T>);

#[derive(Debug)]
pub(crate) enum DraftContent<T> {
    /// A complete document.
    Complete(T),
    /// The fields that the application knows, without copies and computed fields.
    Partial(RawDocumentBuf),
}

impl<T> Draft<T> {
    /// Returns a draft of a complete document.
    #[doc(hidden)]
    pub fn of(document: T) -> Self {
        Self(DraftContent::Complete(document))
    }

    /// Returns whether the document is complete.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.0, DraftContent::Complete(_))
    }

    /// Returns the document, or an error if copies are missing.
    pub(crate) fn into_document(self) -> Result<T> {
        match self.0 {
            DraftContent::Complete(document) => Ok(document),
            DraftContent::Partial(_) => Err(Error::new(
                ErrorKind::Encode,
                "the insert struct has no copies and computed fields yet, so no document can be built: insert the struct first",
            )),
        }
    }
}

/// Builder of a draft from the fields that the application knows. Used by derived code.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct RawDraft(RawDocumentBuf);

impl RawDraft {
    /// Adds a field.
    pub fn put<V: Serialize + ?Sized>(&mut self, name: &str, value: &V) -> Result<()> {
        append_field(&mut self.0, name, encode_new(value)?)
    }

    /// Returns the draft.
    #[must_use]
    pub fn finish<T>(self) -> Draft<T> {
        Draft(DraftContent::Partial(self.0))
    }
}

/// Encodes a value as a field of a document.
#[doc(hidden)]
pub fn encode_new<V: Serialize + ?Sized>(value: &V) -> Result<RawBson> {
    #[derive(Serialize)]
    struct DraftField<'a, V: ?Sized> {
        value: &'a V,
    }
    let bytes = bson::serialize_to_vec(&DraftField { value }).map_err(error::from_bson)?;
    let document = RawDocument::from_bytes(&bytes).map_err(error::from_bson)?;
    let value = document.get("value").map_err(error::from_bson)?;
    Ok(value.map_or(RawBson::Null, RawBson::from))
}

/// A value of another crate's type, which serializes to its stored form.
#[doc(hidden)]
#[derive(Debug)]
pub struct NativeValue<'v, V>(pub &'v V);

impl<V: Stored> Serialize for NativeValue<'_, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        native::AsStored(self.0).serialize(serializer)
    }
}

/// Serializer of an insert struct for an embedded struct. Used by derived code.
#[doc(hidden)]
#[derive(Debug)]
pub struct NewFields<S: Serializer>(S::SerializeMap);

impl<S: Serializer> NewFields<S> {
    /// Starts the struct.
    pub fn new(serializer: S) -> Result<Self, S::Error> {
        serializer.serialize_map(None).map(Self)
    }

    /// Adds a field.
    pub fn put<V: Serialize + ?Sized>(&mut self, name: &str, value: &V) -> Result<(), S::Error> {
        self.0.serialize_entry(name, value)
    }

    /// Ends the struct.
    pub fn end(self) -> Result<S::Ok, S::Error> {
        self.0.end()
    }
}
