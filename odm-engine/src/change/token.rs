use bson::oid::ObjectId;
use bson::{RawDocument, RawDocumentBuf, Timestamp};

use crate::document::append_field;
use crate::error::{Error, Result, code};

/// The version of the token layout, stored in the first byte.
const TOKEN_VERSION: u8 = 1;

/// The length of a token in bytes: version, log, event, time, increment.
const TOKEN_BYTES: usize = 1 + 12 + 8 + 4 + 4;

/// A position in a database's change log: after an event.
///
/// Callers see a token as `{ _data: <hexadecimal digits> }`, as on MongoDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResumeToken {
    /// The log's id, to detect a token of another database.
    pub(crate) log: ObjectId,
    /// The number of the event.
    pub(crate) event: u64,
    /// The cluster time of the event, to detect a log that diverged after a backup was restored.
    pub(crate) time: Timestamp,
}

impl ResumeToken {
    pub(crate) fn to_document(self) -> RawDocumentBuf {
        let mut bytes = vec![TOKEN_VERSION];
        bytes.extend_from_slice(&self.log.bytes());
        bytes.extend_from_slice(&self.event.to_be_bytes());
        bytes.extend_from_slice(&self.time.time.to_be_bytes());
        bytes.extend_from_slice(&self.time.increment.to_be_bytes());
        let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        let mut document = RawDocumentBuf::new();
        append_field(&mut document, "_data", digits);
        document
    }

    /// Decodes a token.
    ///
    /// # Errors
    /// The document is not a token.
    pub(crate) fn from_document(document: &RawDocument) -> Result<ResumeToken> {
        let digits = document.get_str("_data").map_err(|_| {
            let message = "not a resume token: expected a document with the string `_data`, such as the `_id` of an event";
            Error::with_server_code(code::NO_RESUME_TOKEN, message)
        })?;
        let malformed = || {
            let message =
                "the resume token is malformed; pass the unchanged token of an event or a stream";
            Error::with_server_code(code::FAILED_TO_PARSE, message)
        };
        let bytes = decode_hex(digits).ok_or_else(malformed)?;
        let rest = match bytes.split_first() {
            Some((&TOKEN_VERSION, rest)) => rest,
            _ => return Err(malformed()),
        };
        let (log, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
        let (event, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
        let (time, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
        let increment = rest.try_into().map_err(|_| malformed())?;
        Ok(ResumeToken {
            log: ObjectId::from_bytes(*log),
            event: u64::from_be_bytes(*event),
            time: Timestamp {
                time: u32::from_be_bytes(*time),
                increment: u32::from_be_bytes(increment),
            },
        })
    }
}

/// Decodes the hexadecimal digits of a token.
fn decode_hex(digits: &str) -> Option<Vec<u8>> {
    if digits.len() != 2 * TOKEN_BYTES {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = digits.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    };
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn a_token_is_read_back() {
        let token = ResumeToken {
            log: ObjectId::new(),
            event: 7,
            time: Timestamp {
                time: 1,
                increment: u32::MAX,
            },
        };
        assert_eq!(
            ResumeToken::from_document(&token.to_document()).unwrap(),
            token
        );
    }

    #[test]
    fn an_invalid_token_is_refused() {
        let code =
            |document: RawDocumentBuf| ResumeToken::from_document(&document).unwrap_err().code();
        assert_eq!(code(rawdoc! {}), Some(40647));
        assert_eq!(code(rawdoc! { "_data": 1 }), Some(40647));
        let digits = "0".repeat(2 * TOKEN_BYTES);
        for data in ["", "01", "zz", &digits, &digits.replace('0', "é")] {
            assert_eq!(code(rawdoc! { "_data": data }), Some(9), "{data}");
        }
    }
}
