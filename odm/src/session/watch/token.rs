//! Positions in the change history of a database.

use bson::{RawDocument, RawDocumentBuf};

use crate::{
    Error, ErrorKind,
    model::text_token::{Token, token},
};

/// A position between two changes in the history of a database, for [`Watch::after`](super::Watch::after).
///
/// A token can be stored as text (`Display`, `FromStr`, serde), and used by another process as long as the database keeps the
/// changes after the position.
#[derive(Clone, PartialEq)]
pub struct ResumeToken(RawDocumentBuf);

impl Eq for ResumeToken {}

impl ResumeToken {
    pub(super) fn new(raw: RawDocumentBuf) -> Self {
        Self(raw)
    }

    pub(super) fn into_raw(self) -> RawDocumentBuf {
        self.0
    }
}

/// Implemented by a [`ResumeToken`] and an `Option` of a token. `None` starts the watch now.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a resume token",
    label = "expected a `ResumeToken` or an `Option<ResumeToken>`",
    note = "to use a text, parse the text first: `text.parse::<ResumeToken>()?`"
)]
pub trait IntoResumeToken {
    /// Converts the value into a token.
    fn into_resume_token(self) -> Option<ResumeToken>;
}

impl Token for ResumeToken {
    fn to_bytes(&self) -> Vec<u8> {
        self.0.as_bytes().to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let raw = RawDocument::from_bytes(bytes).ok()?;
        // Validate the whole document here. Otherwise only the database would find invalid BSON in a nested field.
        bson::Document::try_from(raw).ok()?;
        Some(Self(raw.to_owned()))
    }

    fn invalid_token() -> Error {
        Error::new(
            ErrorKind::Invalid,
            "the text is not a resume token: pass the unchanged text of a `ResumeToken`",
        )
    }
}

token!(ResumeToken, IntoResumeToken::into_resume_token);

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

    use super::*;

    #[test]
    fn a_token_survives_as_text() {
        let token = ResumeToken::new(rawdoc! { "_data": "8263…", "n": [1, { "a": -1_i64 }] });
        assert_eq!(token.to_string().parse::<ResumeToken>().unwrap(), token);
        let stored = bson::serialize_to_bson(&token).unwrap();
        assert_eq!(
            bson::deserialize_from_bson::<ResumeToken>(stored).unwrap(),
            token
        );
    }

    #[test]
    fn an_invalid_token_is_an_error_without_panic() {
        let valid = ResumeToken::new(rawdoc! { "_data": { "a": "b" } })
            .0
            .into_bytes();
        for at in 0..valid.len() {
            assert!(
                URL_SAFE_NO_PAD
                    .encode(&valid[..at])
                    .parse::<ResumeToken>()
                    .is_err()
            );
            for value in 0..=255 {
                let mut bytes = valid.clone();
                bytes[at] = value;
                let _answer = URL_SAFE_NO_PAD.encode(&bytes).parse::<ResumeToken>();
            }
        }
        assert!("%%%".parse::<ResumeToken>().is_err());
    }
}
