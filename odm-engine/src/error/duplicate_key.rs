use std::fmt;

use bson::{RawDocument, RawDocumentBuf};

/// The key that a unique index refused.
#[derive(Clone, Debug, PartialEq)]
pub struct DuplicateKey {
    pub(crate) collection: String,
    pub(crate) index: String,
    pub(crate) key_pattern: RawDocumentBuf,
    pub(crate) key_value: RawDocumentBuf,
    pub(crate) collation: Option<RawDocumentBuf>,
}

impl DuplicateKey {
    /// Returns the collection of the index.
    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// Returns the name of the index.
    pub fn index(&self) -> &str {
        &self.index
    }

    /// Returns the fields of the index with their directions, as in MongoDB's `keyPattern`.
    pub fn key_pattern(&self) -> &RawDocument {
        &self.key_pattern
    }

    /// Returns the fields of the index with the refused values, as in MongoDB's `keyValue`.
    ///
    /// Strings are taken from the refused document. If the index has a [collation](DuplicateKey::collation), the existing
    /// document may hold a different string that compares equal.
    pub fn key_value(&self) -> &RawDocument {
        &self.key_value
    }

    /// Returns the collation of the index, as in MongoDB's `collation`; `None` if the index compares strings byte by byte.
    pub fn collation(&self) -> Option<&RawDocument> {
        self.collation.as_deref()
    }
}

impl fmt::Display for DuplicateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (collection, index) = (&self.collection, &self.index);
        write!(
            f,
            "E11000 duplicate key error collection: {collection} index: {index} "
        )?;
        if let Some(collation) = &self.collation {
            f.write_str("collation: ")?;
            write_document(f, collation)?;
            f.write_str(" ")?;
        }
        f.write_str("dup key: ")?;
        write_document(f, &self.key_value)
    }
}

fn write_document(f: &mut fmt::Formatter<'_>, document: &RawDocument) -> fmt::Result {
    match bson::Document::try_from(document) {
        Ok(document) => write!(f, "{document}"),
        Err(_) => f.write_str("{ … }"),
    }
}
