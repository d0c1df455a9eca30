//! Without the feature `collation` there are no collation keys.

use super::Collation;
use crate::error::{Error, Result};

/// None exists.
pub(crate) enum Collator {}

impl Collator {
    /// # Errors
    /// Not supported.
    pub(crate) fn new(_collation: &Collation) -> Result<Collator> {
        let message = "a collation needs the feature `collation` of odm-engine, which is off";
        Err(Error::not_supported(message))
    }

    pub(crate) fn key(&self, _text: &str) -> Vec<u8> {
        match *self {}
    }

    pub(crate) fn rules(&self) -> i64 {
        match *self {}
    }
}
