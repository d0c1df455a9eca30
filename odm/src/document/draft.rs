//! A document that is to be inserted, before the framework has put into it what other documents have.

use bson::{RawBson, RawDocument, RawDocumentBuf};
use serde::{Serialize, Serializer, ser::SerializeMap};

use super::Stored;
use crate::{Error, ErrorKind, Result, error, native, query::append};

/// What is to be inserted: a document, or what the application knows of one.
#[derive(Debug)]
pub struct Draft<T>(pub(crate) Drafted<T>);

#[derive(Debug)]
pub(crate) enum Drafted<T> {
    /// Nothing is missing.
    Whole(T),
    /// What other documents have is still to be put in.
    Raw(RawDocumentBuf),
}

impl<T> Draft<T> {
    /// Nothing is missing.
    #[doc(hidden)]
    pub fn of(document: T) -> Self {
        Self(Drafted::Whole(document))
    }

    /// Whether nothing is missing.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.0, Drafted::Whole(_))
    }

    /// The document, if nothing is missing.
    pub(crate) fn into_whole(self) -> Result<T> {
        match self.0 {
            Drafted::Whole(document) => Ok(document),
            Drafted::Raw(_) => Err(Error::new(
                ErrorKind::Encode,
                "what other documents have is not put in yet",
            )),
        }
    }
}

/// The fields of a document that the application knows; derived code puts them in.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct RawDraft(RawDocumentBuf);

impl RawDraft {
    /// Puts in a field.
    pub fn put<V: Serialize + ?Sized>(&mut self, name: &str, value: &V) -> Result<()> {
        append(&mut self.0, name, encode_new(value)?)
    }

    /// What was put in.
    #[must_use]
    pub fn finish<T>(self) -> Draft<T> {
        Draft(Drafted::Raw(self.0))
    }
}

/// A value as it stands in a document.
#[doc(hidden)]
pub fn encode_new<V: Serialize + ?Sized>(value: &V) -> Result<RawBson> {
    #[derive(Serialize)]
    struct Inside<'a, V: ?Sized> {
        value: &'a V,
    }
    let bytes = bson::serialize_to_vec(&Inside { value }).map_err(error::encode)?;
    let document = RawDocument::from_bytes(&bytes).map_err(error::encode)?;
    let value = document.get("value").map_err(error::encode)?;
    Ok(value.map_or(RawBson::Null, RawBson::from))
}

/// A value of another crate's type, as it is stored.
#[doc(hidden)]
#[derive(Debug)]
pub struct NativeValue<'v, V>(pub &'v V);

impl<V: Stored> Serialize for NativeValue<'_, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        native::Stored(self.0).serialize(serializer)
    }
}

/// The fields of an embedded struct that is new; derived code puts them in.
#[doc(hidden)]
#[derive(Debug)]
pub struct NewFields<S: Serializer>(S::SerializeMap);

impl<S: Serializer> NewFields<S> {
    /// None yet.
    pub fn new(serializer: S) -> Result<Self, S::Error> {
        serializer.serialize_map(None).map(Self)
    }

    /// Puts in a field.
    pub fn put<V: Serialize + ?Sized>(&mut self, name: &str, value: &V) -> Result<(), S::Error> {
        self.0.serialize_entry(name, value)
    }

    /// The struct.
    pub fn end(self) -> Result<S::Ok, S::Error> {
        self.0.end()
    }
}
