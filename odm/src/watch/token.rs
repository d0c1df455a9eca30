//! Where a watch is in the history of a database.

use bson::{RawDocument, RawDocumentBuf};

use crate::{
    Error, ErrorKind,
    token::{Token, token},
};

/// A place between two changes in the history of a database, for [`Watch::after`](super::Watch::after).
///
/// It can be kept (`Display`, `FromStr`, serde: a text) and used by another process, for as long as the database remembers the
/// changes behind it.
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

/// What may stand for a token where a watch begins: a token or an option of one, where `None` changes nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no resume token",
    label = "neither a `ResumeToken` nor an `Option` of one",
    note = "a text is parsed into one, which may fail: `text.parse::<ResumeToken>()?`"
)]
pub trait IntoResumeToken {
    /// The token, if any.
    fn into_resume_token(self) -> Option<ResumeToken>;
}

impl Token for ResumeToken {
    fn to_bytes(&self) -> Vec<u8> {
        self.0.as_bytes().to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let raw = RawDocument::from_bytes(bytes).ok()?;
        // All of it: what is no BSON further in would only be found by the database.
        bson::Document::try_from(raw).ok()?;
        Some(Self(raw.to_owned()))
    }

    fn refused() -> Error {
        Error::new(ErrorKind::Invalid, "the text is no resume token")
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
    fn what_is_no_token_is_an_error_and_no_panic() {
        let good = ResumeToken::new(rawdoc! { "_data": { "a": "b" } })
            .0
            .into_bytes();
        for at in 0..good.len() {
            assert!(
                URL_SAFE_NO_PAD
                    .encode(&good[..at])
                    .parse::<ResumeToken>()
                    .is_err()
            );
            for to in 0..=255 {
                let mut bytes = good.clone();
                bytes[at] = to;
                let _answer = URL_SAFE_NO_PAD.encode(&bytes).parse::<ResumeToken>();
            }
        }
        assert!("%%%".parse::<ResumeToken>().is_err());
    }
}
