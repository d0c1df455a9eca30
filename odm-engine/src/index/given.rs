//! What a definition was given with that makes no difference to the index.

use bson::{RawDocument, RawDocumentBuf};

use super::Direction;
use super::specification::parse_direction;
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
    /// The key as it was given, if it still is that of these fields, which are public.
    pub(super) fn key_of(&self, keys: &[(String, Direction)]) -> Option<&RawDocument> {
        let key = self.key.as_deref()?;
        let mut fields = value::fields(key);
        let is_same = keys.iter().all(|(path, direction)| {
            fields.next().is_some_and(|(name, value)| {
                name == path && parse_direction(path, value).is_ok_and(|own| own == *direction)
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
