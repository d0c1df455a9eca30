//! Where a watch is in the history of a database.

use std::{fmt, str::FromStr};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bson::{RawDocument, RawDocumentBuf};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Error, ErrorKind, Result};

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

macro_rules! tokens {
    ($($token:ty: $own:ident => $option:expr;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl IntoResumeToken for $token {
            fn into_resume_token(self) -> Option<ResumeToken> {
                let $own = self;
                $option
            }
        }
    )*};
}
tokens! {
    ResumeToken: token => Some(token);
    &ResumeToken: token => Some(token.clone());
    Option<ResumeToken>: token => token;
    &Option<ResumeToken>: token => token.clone();
}

impl fmt::Display for ResumeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0.as_bytes()))
    }
}

impl fmt::Debug for ResumeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResumeToken({self})")
    }
}

impl FromStr for ResumeToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        let raw = bytes.and_then(|bytes| {
            let raw = RawDocument::from_bytes(&bytes).ok()?;
            // All of it: what is no BSON further in would only be found by the database.
            bson::Document::try_from(raw).ok()?;
            Some(raw.to_owned())
        });
        raw.map(Self)
            .ok_or_else(|| Error::new(ErrorKind::Invalid, "the text is no resume token"))
    }
}

impl Serialize for ResumeToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ResumeToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

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
