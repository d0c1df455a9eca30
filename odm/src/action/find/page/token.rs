//! What leads from one page to the next.

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument};

use super::Key;
use crate::{
    Error, ErrorKind, Result,
    query::Brackets,
    token::{Token, token},
};

/// A place between two documents in the order of a query, which a [page](crate::Page) begins or ends at.
///
/// As text (`Display`, `FromStr`, serde) it is made of characters that stand in a URL as they are. It is good for the query
/// that it came from: for the same model, filter and sort, with pages of any size, in any process, for as long as the
/// application asks the same. Another query refuses it with
/// [`InvalidPageToken`](crate::ErrorKind::InvalidPageToken), and so does parsing a text that is no token.
///
/// It holds the values that the document beside it is sorted by, and whoever has it can read them. It may come from
/// anyone: these values are only ever compared with, so the worst that a token can do is to lead to another page of the
/// same query.
#[derive(Clone, PartialEq)]
pub struct PageToken {
    query: u64,
    side: Side,
    key: Key,
}

impl Eq for PageToken {}

/// What may stand for a token where a page is asked for: a token or an option of one, where `None` changes nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no page token",
    label = "neither a `PageToken` nor an `Option` of one",
    note = "a text is parsed into one, which may fail: `text.parse::<PageToken>()?`; with serde it comes as an `Option<PageToken>`"
)]
pub trait IntoPageToken {
    /// The token, if any.
    fn into_page_token(self) -> Option<PageToken>;
}

token!(PageToken, IntoPageToken::into_page_token);

/// On which side of the document with its key a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    Behind,
}

/// The form of the text: another version is refused.
const VERSION: u8 = 1;

/// The bytes before the key: the version, the side and the query.
const HEADER: usize = 10;

/// How deep documents in a key are nested at most, as everywhere in MongoDB.
const MAX_DEPTH: usize = 100;

impl PageToken {
    pub(super) fn new(query: u64, side: Side, key: Key) -> Self {
        Self { query, side, key }
    }

    /// The key, if the token came from this query.
    pub(super) fn key_for(&self, query: u64) -> Result<&[RawBson]> {
        if self.query == query {
            Ok(&self.key)
        } else {
            Err(of_another_query())
        }
    }

    pub(super) fn side(&self) -> Side {
        self.side
    }
}

impl Token for PageToken {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, u8::from(self.side == Side::Behind)];
        bytes.extend(self.query.to_be_bytes());
        let mut key = RawArrayBuf::new();
        for value in &self.key {
            key.push(value.as_raw_bson_ref());
        }
        bytes.extend(key.as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (header, key) = bytes.split_at_checked(HEADER)?;
        let (&[VERSION, side], query) = header.split_first_chunk()? else {
            return None;
        };
        let side = match side {
            0 => Side::Before,
            1 => Side::Behind,
            _ => return None,
        };
        let key = RawDocument::from_bytes(key).ok()?.iter().map(|element| {
            let (_, value) = element.ok()?;
            Brackets::of(value)?;
            is_sound(value, 0).then(|| RawBson::from(value))
        });
        Some(Self {
            query: u64::from_be_bytes(query.try_into().ok()?),
            side,
            key: key.collect::<Option<_>>()?,
        })
    }

    fn refused() -> Error {
        Error::new(
            ErrorKind::InvalidPageToken,
            "the text is no page token, or one of another version: begin with the first page",
        )
    }
}

/// Whether the bytes of a value are BSON all the way down, and not too far down.
fn is_sound(value: RawBsonRef<'_>, depth: usize) -> bool {
    let inner = match value {
        RawBsonRef::Document(document) => document,
        RawBsonRef::Array(array) => match RawDocument::from_bytes(array.as_bytes()) {
            Ok(document) => document,
            Err(_) => return false,
        },
        RawBsonRef::JavaScriptCodeWithScope(_) => return false,
        _ => return true,
    };
    depth < MAX_DEPTH
        && inner
            .iter()
            .all(|element| element.is_ok_and(|(_, value)| is_sound(value, depth + 1)))
}

/// What tells queries apart, the same in every process: a hash of what decides which documents come in which order.
pub(super) fn query_of(collection: &str, filter: &RawDocument, sort: &RawDocument) -> u64 {
    // FNV-1a. Two queries with one hash would share tokens, which only leads to another page.
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    [collection.as_bytes(), filter.as_bytes(), sort.as_bytes()]
        .iter()
        .flat_map(|part| part.iter().chain(&[0]))
        .fold(0xcbf2_9ce4_8422_2325, fnv)
}

pub(super) fn of_another_query() -> Error {
    Error::new(
        ErrorKind::InvalidPageToken,
        "the page token is one of another query: it goes with the filter and the sort that it came from; begin with the first page",
    )
}

#[cfg(test)]
mod tests {
    use bson::{RawBson, rawdoc};

    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

    use super::*;

    #[test]
    fn a_token_survives_a_url() {
        let key = vec![
            RawBson::Null,
            RawBson::Int64(-1),
            RawBson::String("ä/?&=+\0".into()),
            RawBson::Document(rawdoc! { "$ne": null }),
        ];
        let token = PageToken::new(u64::MAX - 7, Side::Behind, key);
        let text = token.to_string();
        assert!(
            text.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)),
            "{text}"
        );
        assert_eq!(text.parse::<PageToken>().unwrap(), token);
        let json = bson::serialize_to_bson(&token).unwrap();
        assert_eq!(json, bson::Bson::String(text));
        assert_eq!(
            bson::deserialize_from_bson::<PageToken>(json).unwrap(),
            token
        );
    }

    #[test]
    fn what_is_no_token_is_an_error_and_no_panic() {
        let good = PageToken::new(3, Side::Before, vec![RawBson::Int32(7)]).to_bytes();
        let is_refused = |bytes: &[u8]| {
            let error = URL_SAFE_NO_PAD.encode(bytes).parse::<PageToken>().err();
            error.is_some_and(|error| error.is_invalid_page_token())
        };
        assert!(!is_refused(&good));
        for length in 0..good.len() {
            assert!(is_refused(&good[..length]), "{length}");
        }
        let changed = |at: usize, to: u8| {
            let mut bytes = good.clone();
            bytes[at] = to;
            bytes
        };
        assert!(is_refused(&changed(0, 2)), "another version");
        assert!(is_refused(&changed(1, 2)), "no side");
        assert!(
            is_refused(&changed(14, 0x0b)),
            "a regular expression without an end"
        );
        assert!("%%%".parse::<PageToken>().is_err());
        // Whatever the bytes are, there is an answer.
        for at in HEADER..good.len() {
            for to in 0..=255 {
                let _answer = is_refused(&changed(at, to));
            }
        }
    }

    #[test]
    fn what_no_condition_can_name_is_refused() {
        let mut deep = rawdoc! {};
        for _ in 0..200 {
            deep = rawdoc! { "a": deep };
        }
        let regex = bson::Regex {
            pattern: bson::raw::cstr!(".*").into(),
            options: bson::raw::cstr!("").into(),
        };
        for value in [
            RawBson::Document(deep),
            RawBson::RegularExpression(regex),
            RawBson::Array(RawArrayBuf::new()),
        ] {
            let text = PageToken::new(3, Side::Before, vec![value]).to_string();
            assert!(
                text.parse::<PageToken>()
                    .unwrap_err()
                    .is_invalid_page_token()
            );
        }
    }
}
