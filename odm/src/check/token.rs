//! Tokens for the position of a check.

use bson::{RawBson, RawDocument, rawdoc};

use crate::{
    Error, ErrorKind, Result,
    model::{
        decode,
        text_token::{Token, token},
    },
    schema::Model,
};

/// The position of a check between two documents, for [`Check::after`](super::Check::after).
///
/// A token can be stored as text, by `Display` and `FromStr` or by serde.
#[derive(Clone, PartialEq)]
pub struct CheckToken {
    collection: String,
    id: RawBson,
}

impl Eq for CheckToken {}

/// A token of a check, or an option of a token. `None` starts at the beginning.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a check token",
    label = "expected a `CheckToken` or an `Option<CheckToken>`",
    note = "to use a text, parse the text first: `text.parse::<CheckToken>()?`"
)]
pub trait IntoCheckToken {
    /// Returns the token, if any.
    fn into_check_token(self) -> Option<CheckToken>;
}

impl CheckToken {
    pub(super) fn new(model: &Model, raw: &RawDocument) -> Result<Self> {
        let id = decode::owned_id(raw);
        let id = id.ok_or_else(|| {
            let message = "the backend returned a document without an `_id`";
            Error::new(ErrorKind::Decode, message)
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
        // Parse the whole document: invalid BSON in a nested value would otherwise only fail in the database.
        bson::Document::try_from(raw).ok()?;
        Some(Self {
            collection: raw.get_str("c").ok()?.to_owned(),
            id: raw.get("i").ok()??.into(),
        })
    }

    fn invalid_token() -> Error {
        Error::new(
            ErrorKind::Invalid,
            "the text is not a check token: pass the unchanged text of a `CheckToken`, or start without a token",
        )
    }
}

token!(CheckToken, IntoCheckToken::into_check_token);
