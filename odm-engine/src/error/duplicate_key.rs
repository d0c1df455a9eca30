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

    /// The fields of the index with the refused values, as MongoDB's `keyValue`. Strings are those of the refused document,
    /// also where the index has a [collation](DuplicateKey::collation) and another document has a string that is equal by it.
    pub fn key_value(&self) -> &RawDocument {
        &self.key_value
    }

    /// How the index compares strings, if not byte by byte, as MongoDB's `collation`.
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
