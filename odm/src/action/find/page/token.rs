//! Page tokens: a position in the order of a query, as text.

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument};

use super::SortKey;
use crate::{
    Error, ErrorKind, Result,
    language::query::Brackets,
    model::text_token::{Token, token},
};

/// A position between two documents in the order of a query, at which a [page](crate::Page) begins or ends.
///
/// The text form (`Display`, `FromStr`, serde) consists of characters that need no escape in a URL. A token is valid for any
/// query with the same model, filter and sort, with any page size, in any process. Any other query fails with
/// [`InvalidPageToken`](crate::ErrorKind::InvalidPageToken), and so does a text that is no token.
///
/// A token contains the sort values of the document beside the position; anyone with the token can read the values. A token is
/// safe to take from a client: the query only compares with the values. A forged token can at worst select another page of the
/// same query.
#[derive(Clone, PartialEq)]
pub struct PageToken {
    query_hash: u64,
    side: TokenSide,
    key: SortKey,
}

impl Eq for PageToken {}

/// Types that convert into an optional page token: a token, or an `Option` of a token where `None` changes nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a page token",
    label = "expected a `PageToken` or an `Option<PageToken>`",
    note = "to use a text, parse the text first: `text.parse::<PageToken>()?`; with serde, deserialize an `Option<PageToken>`"
)]
pub trait IntoPageToken {
    /// Returns the token, if any.
    fn into_page_token(self) -> Option<PageToken>;
}

token!(PageToken, IntoPageToken::into_page_token);

/// The side of the token's document on which the position is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenSide {
    Before,
    After,
}

/// The format version of the token bytes. Parsing refuses any other version.
const TOKEN_VERSION: u8 = 1;

/// The length of the header in bytes: the version, the side and the query.
const HEADER_BYTES: usize = 10;

/// The greatest nesting depth of documents in a key: the limit of MongoDB.
const MAX_KEY_DEPTH: usize = 100;

impl PageToken {
    pub(super) fn new(query_hash: u64, side: TokenSide, key: SortKey) -> Self {
        Self {
            query_hash,
            side,
            key,
        }
    }

    /// Returns the key if the token belongs to the query.
    pub(super) fn key_for(&self, query: u64) -> Result<&[RawBson]> {
        if self.query_hash == query {
            Ok(&self.key)
        } else {
            Err(wrong_query_error())
        }
    }

    pub(super) fn token_side(&self) -> TokenSide {
        self.side
    }
}

impl Token for PageToken {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![TOKEN_VERSION, u8::from(self.side == TokenSide::After)];
        bytes.extend(self.query_hash.to_be_bytes());
        let mut key = RawArrayBuf::new();
        for value in &self.key {
            key.push(value.as_raw_bson_ref());
        }
        bytes.extend(key.as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (header, key) = bytes.split_at_checked(HEADER_BYTES)?;
        let (&[TOKEN_VERSION, side], query) = header.split_first_chunk()? else {
            return None;
        };
        let side = match side {
            0 => TokenSide::Before,
            1 => TokenSide::After,
            _ => return None,
        };
        let key = RawDocument::from_bytes(key).ok()?.iter().map(|element| {
            let (_, value) = element.ok()?;
            Brackets::of_value(value)?;
            is_valid_bson(value, 0).then(|| RawBson::from(value))
        });
        Some(Self {
            query_hash: u64::from_be_bytes(query.try_into().ok()?),
            side,
            key: key.collect::<Option<_>>()?,
        })
    }

    fn invalid_token() -> Error {
        Error::new(
            ErrorKind::InvalidPageToken,
            "not a valid page token, or a token of another version: start with the first page",
        )
    }
}

/// Whether a value is valid BSON at every level, and not nested too deeply.
fn is_valid_bson(value: RawBsonRef<'_>, depth: usize) -> bool {
    let inner = match value {
        RawBsonRef::Document(document) => document,
        RawBsonRef::Array(array) => match RawDocument::from_bytes(array.as_bytes()) {
            Ok(document) => document,
            Err(_) => return false,
        },
        RawBsonRef::JavaScriptCodeWithScope(_) => return false,
        _ => return true,
    };
    depth < MAX_KEY_DEPTH
        && inner
            .iter()
            .all(|element| element.is_ok_and(|(_, value)| is_valid_bson(value, depth + 1)))
}

/// Hashes the parts that decide the documents and the order of a query. The hash is the same in every process.
pub(super) fn hash_query(collection: &str, filter: &RawDocument, sort: &RawDocument) -> u64 {
    // FNV-1a. Two queries with the same hash share tokens, which only selects another page.
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    [collection.as_bytes(), filter.as_bytes(), sort.as_bytes()]
        .iter()
        .flat_map(|part| part.iter().chain(&[0]))
        .fold(0xcbf2_9ce4_8422_2325, fnv)
}

pub(super) fn wrong_query_error() -> Error {
    Error::new(
        ErrorKind::InvalidPageToken,
        "the page token belongs to a query with another filter or sort: start with the first page",
    )
}

#[cfg(test)]
mod tests {
    use bson::{RawBson, rawdoc};

    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

    use super::*;

    #[test]
    fn token_round_trips_through_url() {
        let key = vec![
            RawBson::Null,
            RawBson::Int64(-1),
            RawBson::String("ä/?&=+\0".into()),
            RawBson::Document(rawdoc! { "$ne": null }),
        ];
        let token = PageToken::new(u64::MAX - 7, TokenSide::After, key);
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
    fn invalid_token_is_an_error_without_a_panic() {
        let valid = PageToken::new(3, TokenSide::Before, vec![RawBson::Int32(7)]).to_bytes();
        let is_refused = |bytes: &[u8]| {
            let error = URL_SAFE_NO_PAD.encode(bytes).parse::<PageToken>().err();
            error.is_some_and(|error| error.is_invalid_page_token())
        };
        assert!(!is_refused(&valid));
        for length in 0..valid.len() {
            assert!(is_refused(&valid[..length]), "{length}");
        }
        let changed = |at: usize, value: u8| {
            let mut bytes = valid.clone();
            bytes[at] = value;
            bytes
        };
        assert!(is_refused(&changed(0, 2)), "another version");
        assert!(is_refused(&changed(1, 2)), "no side");
        assert!(
            is_refused(&changed(14, 0x0b)),
            "a regular expression without an end"
        );
        assert!("%%%".parse::<PageToken>().is_err());
        // Any bytes must give an answer instead of a panic.
        for at in HEADER_BYTES..valid.len() {
            for value in 0..=255 {
                let _answer = is_refused(&changed(at, value));
            }
        }
    }

    #[test]
    fn token_with_an_incomparable_value_is_an_error() {
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
            let text = PageToken::new(3, TokenSide::Before, vec![value]).to_string();
            assert!(
                text.parse::<PageToken>()
                    .unwrap_err()
                    .is_invalid_page_token()
            );
        }
    }
}
