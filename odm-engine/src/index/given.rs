//! What a definition was given with that makes no difference to the index.

use bson::{RawDocument, RawDocumentBuf};

use super::specification::parse_direction;
use super::{Index, hashed};
use crate::value;

/// What listings repeat as it was given, as MongoDB does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Given {
    /// The key with its numbers: `1.0` and `5` ascend as `1` does.
    pub(super) key: Option<RawDocumentBuf>,
    pub(super) background: Option<bool>,
    /// Whether `sparse` was said, be it `false`.
    pub(super) says_sparse: bool,
    pub(super) version: i32,
}

impl Given {
    /// The key as it was given, if it still is that of the index, whose fields are public.
    pub(super) fn key_of(&self, index: &Index) -> Option<&RawDocument> {
        let key = self.key.as_deref()?;
        let mut fields = value::fields(key);
        let is_same = index.keys.iter().all(|(path, direction)| {
            fields.next().is_some_and(|(name, value)| {
                let is_kind = match value.as_str() {
                    Some(kind) => kind == hashed::KIND && index.is_hashed(path),
                    None => {
                        !index.is_hashed(path)
                            && parse_direction(path, value).is_ok_and(|own| own == *direction)
                    }
                };
                name == path && is_kind
            })
        });
        (is_same && fields.next().is_none()).then_some(key)
    }
}

impl Default for Given {
    fn default() -> Given {
        Given {
            key: None,
            background: None,
            says_sparse: false,
            version: 2,
        }
    }
}
