//! The collator without the feature `collation`.

use std::cmp::Ordering;

use super::Collation;
use crate::error::{Error, Result};

/// An empty type: without the feature, a collator cannot exist.
pub(crate) enum Collator {}

impl Collator {
    /// Returns an error.
    ///
    /// # Errors
    /// Not supported.
    pub(crate) fn new(_collation: &Collation) -> Result<Collator> {
        let message = "a collation needs the feature `collation` of `odm`, or of `odm-engine`: enable the feature in Cargo.toml";
        Err(Error::not_supported(message))
    }

    pub(crate) fn key(&self, _text: &str) -> Vec<u8> {
        match *self {}
    }

    pub(crate) fn compare(&self, _a: &str, _b: &str) -> Ordering {
        match *self {}
    }

    pub(crate) fn rules(&self) -> i64 {
        match *self {}
    }
}
