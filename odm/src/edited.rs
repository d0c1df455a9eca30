//! A document that remembers what was stored.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use bson::RawDocumentBuf;

use crate::{
    Result, decode,
    document::Document,
    error,
    query::{encode_document, encode_unchecked},
};

/// A document that was read to be changed: it remembers what was stored, so that
/// [`save`](crate::Session::save) writes what has changed and nothing else.
///
/// Made by [`Session::edit`](crate::Session::edit). It derefs to the document.
pub struct Edited<T> {
    document: T,
    /// The document as it is stored, with fields that the model does not know.
    pub(crate) stored: RawDocumentBuf,
    /// The document as the model writes it, before any change.
    pub(crate) before: RawDocumentBuf,
}

impl<T: Document> Edited<T> {
    pub(crate) fn new(stored: RawDocumentBuf) -> Result<Self> {
        let document: T = T::from_stored(&stored)?;
        // What is stored already may be longer than its `max`, and can be read all the same.
        let before = encode_unchecked(&document).map_err(error::of_model::<T>)?;
        Ok(Self {
            document,
            stored,
            before,
        })
    }

    /// Remembers what is stored after a save.
    pub(crate) fn saved(&mut self, stored: RawDocumentBuf) -> Result<()> {
        if !T::MODEL.filled.is_empty() {
            self.document.take_filled(T::from_stored(&stored)?);
        }
        self.before = encode_unchecked(&self.document).map_err(error::of_model::<T>)?;
        if T::MODEL.rounds {
            let rounded = decode::with_outside(&T::MODEL, self.before.clone(), &stored)?;
            self.document = T::from_stored(&rounded)?;
        }
        self.stored = stored;
        Ok(())
    }

    /// The document without the memory.
    pub fn into_inner(self) -> T {
        self.document
    }

    /// Whether there is something to save.
    ///
    /// # Errors
    ///
    /// The document as it is now cannot be stored: see [`Session::save`](crate::Session::save).
    pub fn is_changed(&self) -> Result<bool> {
        let now = encode_document(&self.document).map_err(error::of_model::<T>)?;
        Ok(self.before.as_bytes() != now.as_bytes())
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
            before: self.before.clone(),
        }
    }
}
