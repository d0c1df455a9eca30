use std::fmt;

use bson::{RawDocument, RawDocumentBuf};

/// The key that a unique index refused.
#[derive(Clone, Debug, PartialEq)]
pub struct DuplicateKey {
    pub(crate) collection: String,
    pub(crate) index: String,
    pub(crate) key_pattern: RawDocumentBuf,
    pub(crate) key_value: RawDocumentBuf,
}

impl DuplicateKey {
    /// The collection that holds the index.
    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// The name of the index.
    pub fn index(&self) -> &str {
        &self.index
    }

    /// The fields of the index with their directions, as MongoDB's `keyPattern`.
    pub fn key_pattern(&self) -> &RawDocument {
        &self.key_pattern
    }

    /// The fields of the index with the refused values, as MongoDB's `keyValue`.
    pub fn key_value(&self) -> &RawDocument {
        &self.key_value
    }
}

impl fmt::Display for DuplicateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (collection, index) = (&self.collection, &self.index);
        write!(
            f,
            "E11000 duplicate key error collection: {collection} index: {index} dup key: "
        )?;
        match bson::Document::try_from(&self.key_value) {
            Ok(value) => write!(f, "{value}"),
            Err(_) => f.write_str("{ … }"),
        }
    }
}
