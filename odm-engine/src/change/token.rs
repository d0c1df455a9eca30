use bson::oid::ObjectId;
use bson::{RawDocument, RawDocumentBuf, Timestamp};

use crate::document::append;
use crate::error::{Error, Result, code};

/// The layout of a token, its first byte.
const VERSION: u8 = 1;

/// How many bytes a token has: version, log, event, time, increment.
const LENGTH: usize = 1 + 12 + 8 + 4 + 4;

/// A place in a database's change log: behind an event.
///
/// For the outside it is `{ _data: <hexadecimal digits> }`, as on MongoDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The log, so that a token of another database is recognised.
    pub(crate) log: ObjectId,
    /// The number of the event.
    pub(crate) event: u64,
    /// Its time, so that a log that went another way after a backup was restored is recognised.
    pub(crate) time: Timestamp,
}

impl Token {
    pub(crate) fn encode(&self) -> RawDocumentBuf {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.log.bytes());
        bytes.extend_from_slice(&self.event.to_be_bytes());
        bytes.extend_from_slice(&self.time.time.to_be_bytes());
        bytes.extend_from_slice(&self.time.increment.to_be_bytes());
        let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        let mut document = RawDocumentBuf::new();
        append(&mut document, "_data", digits);
        document
    }

    /// # Errors
    /// The document is no token.
    pub(crate) fn decode(document: &RawDocument) -> Result<Token> {
        let digits = document.get_str("_data").map_err(|_| {
            let message = "a resume token is a document with the string _data, as events and \
                           streams give it";
            Error::server(code::NO_RESUME_TOKEN, message)
        })?;
        let malformed = || {
            let message = "the resume token is malformed; give it as an event or a stream gave it";
            Error::server(code::FAILED_TO_PARSE, message)
        };
        let bytes = unhex(digits).ok_or_else(malformed)?;
        let rest = match bytes.split_first() {
            Some((&VERSION, rest)) => rest,
            _ => return Err(malformed()),
        };
        let (log, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
        let (event, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
        let (time, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
        let increment = rest.try_into().map_err(|_| malformed())?;
        Ok(Token {
            log: ObjectId::from_bytes(*log),
            event: u64::from_be_bytes(*event),
            time: Timestamp {
                time: u32::from_be_bytes(*time),
                increment: u32::from_be_bytes(increment),
            },
        })
    }
}

/// The bytes of a token in hexadecimal digits.
fn unhex(digits: &str) -> Option<Vec<u8>> {
    if digits.len() != 2 * LENGTH {
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
        let token = Token {
            log: ObjectId::new(),
            event: 7,
            time: Timestamp {
                time: 1,
                increment: u32::MAX,
            },
        };
        assert_eq!(Token::decode(&token.encode()).unwrap(), token);
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let code = |document: RawDocumentBuf| Token::decode(&document).unwrap_err().code();
        assert_eq!(code(rawdoc! {}), Some(40647));
        assert_eq!(code(rawdoc! { "_data": 1 }), Some(40647));
        let digits = "0".repeat(2 * LENGTH);
        for data in ["", "01", "zz", &digits, &digits.replace('0', "é")] {
            assert_eq!(code(rawdoc! { "_data": data }), Some(9), "{data}");
        }
    }
}
