//! Where a check is.

use bson::{RawBson, RawDocument, rawdoc};

use crate::{
    Error, ErrorKind, Result, decode,
    schema::Model,
    token::{Token, token},
};

/// A place between two documents that a check walks by, for [`Check::after`](super::Check::after).
///
/// It can be kept as a text (`Display`, `FromStr`, serde).
#[derive(Clone, PartialEq)]
pub struct CheckToken {
    collection: String,
    id: RawBson,
}

impl Eq for CheckToken {}

/// What may stand for a token where a check begins: a token or an option of one, where `None` changes nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no token of a check",
    label = "neither a `CheckToken` nor an `Option` of one",
    note = "a text is parsed into one, which may fail: `text.parse::<CheckToken>()?`"
)]
pub trait IntoCheckToken {
    /// The token, if any.
    fn into_check_token(self) -> Option<CheckToken>;
}

impl CheckToken {
    pub(super) fn new(model: &Model, raw: &RawDocument) -> Result<Self> {
        let id = decode::id(raw).map(RawBson::from);
        let id = id.ok_or_else(|| {
            Error::new(ErrorKind::Decode, "a document came back without its `_id`")
        })?;
        Ok(Self {
            collection: model.collection.to_owned(),
            id,
        })
    }

    pub(super) fn is_of(&self, model: &Model) -> bool {
        self.collection == model.collection
    }

    pub(super) fn id(&self) -> &RawBson {
        &self.id
    }
}

impl Token for CheckToken {
    fn to_bytes(&self) -> Vec<u8> {
        rawdoc! { "c": self.collection.as_str(), "i": self.id.clone() }.into_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let raw = RawDocument::from_bytes(bytes).ok()?;
        // All of it: what is no BSON further in would only be found by the database.
        bson::Document::try_from(raw).ok()?;
        Some(Self {
            collection: raw.get_str("c").ok()?.to_owned(),
            id: raw.get("i").ok()??.into(),
        })
    }

    fn refused() -> Error {
        Error::new(ErrorKind::Invalid, "the text is no token of a check")
    }
}

token!(CheckToken, IntoCheckToken::into_check_token);
