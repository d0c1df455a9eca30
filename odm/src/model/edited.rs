//! Documents with a memory of the stored version.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use bson::RawDocumentBuf;

use crate::{
    Result, error,
    language::query::{encode_document, encode_unchecked},
    model::{decode, document::Document},
};

/// A document that was read to be changed. It keeps the stored version, so that [`save`](crate::Session::save) writes only the
/// changed fields.
///
/// Made by [`Session::edit`](crate::Session::edit). Dereferences to the document.
pub struct Edited<T> {
    document: T,
    /// The stored document, including fields that the model does not know.
    pub(crate) stored: RawDocumentBuf,
    /// The document as the model encodes it, before any change.
    pub(crate) original: RawDocumentBuf,
}

impl<T: Document> Edited<T> {
    pub(crate) fn new(stored: RawDocumentBuf) -> Result<Self> {
        let document: T = T::from_stored(&stored)?;
        // A stored array may exceed its `max`, and must stay readable.
        let before = encode_unchecked(&document).map_err(error::of_model::<T>)?;
        Ok(Self {
            document,
            stored,
            original: before,
        })
    }

    /// Updates the stored version after a save.
    pub(crate) fn record_saved(&mut self, stored: RawDocumentBuf) -> Result<()> {
        if !T::MODEL.managed.is_empty() {
            self.document.take_managed(T::from_stored(&stored)?);
        }
        self.original = encode_unchecked(&self.document).map_err(error::of_model::<T>)?;
        if T::MODEL.rounds_values {
            let rounded = decode::with_manifests(&T::MODEL, self.original.clone(), &stored)?;
            self.document = T::from_stored(&rounded)?;
            // The elements of a new hash set have another order.
            self.original = encode_unchecked(&self.document).map_err(error::of_model::<T>)?;
        }
        self.stored = stored;
        Ok(())
    }

    /// Returns the document without the stored version.
    pub fn into_inner(self) -> T {
        self.document
    }

    /// Returns whether the document has unsaved changes.
    ///
    /// # Errors
    ///
    /// The document cannot be stored in its current state: see [`Session::save`](crate::Session::save).
    pub fn is_changed(&self) -> Result<bool> {
        let current = encode_document(&self.document).map_err(error::of_model::<T>)?;
        Ok(self.original.as_bytes() != current.as_bytes())
    }
}

impl<T> Deref for Edited<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.document
    }
}

impl<T> DerefMut for Edited<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.document
    }
}

impl<T: fmt::Debug> fmt::Debug for Edited<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Edited").field(&self.document).finish()
    }
}

impl<T: Clone> Clone for Edited<T> {
    fn clone(&self) -> Self {
        Self {
            document: self.document.clone(),
            stored: self.stored.clone(),
            original: self.original.clone(),
        }
    }
}
