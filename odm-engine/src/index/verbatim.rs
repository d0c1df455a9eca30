//! Parts of a definition that are kept verbatim for listings, although they do not affect the index.

use bson::{RawDocument, RawDocumentBuf};

use super::specification::parse_direction;
use super::{Index, hashed};
use crate::value;

/// The options that listings repeat verbatim, as MongoDB does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VerbatimOptions {
    /// The key with its original numbers: `1.0` and `5` ascend like `1`.
    pub(super) key: Option<RawDocumentBuf>,
    pub(super) background: Option<bool>,
    /// Whether the definition contains `sparse`, even as `false`.
    pub(super) has_sparse: bool,
    pub(super) version: i32,
}

impl VerbatimOptions {
    /// Returns the original key, unless the public fields of the index have changed since.
    pub(super) fn key_of(&self, index: &Index) -> Option<&RawDocument> {
        let key = self.key.as_deref()?;
        let mut fields = value::fields(key);
        let is_same = index.keys.iter().all(|(path, direction)| {
            fields.next().is_some_and(|(name, value)| {
                let is_kind = match value.as_str() {
                    Some(kind) => kind == hashed::KIND && index.is_hashed(path),
                    None => {
                        !index.is_hashed(path)
                            && parse_direction(path, value).is_ok_and(|parsed| parsed == *direction)
                    }
                };
                name == path && is_kind
            })
        });
        (is_same && fields.next().is_none()).then_some(key)
    }
}

impl Default for VerbatimOptions {
    fn default() -> VerbatimOptions {
        VerbatimOptions {
            key: None,
            background: None,
            has_sparse: false,
            version: 2,
        }
    }
}
