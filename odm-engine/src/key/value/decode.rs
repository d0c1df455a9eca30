//! Decoding of encoded values.
//!
//! Equal values share one encoding, so decoding returns a canonical value: a string for a symbol, and the smallest numeric type.
//! A caller that needs the exact stored value must know that it was canonical.

use bson::oid::ObjectId;
use bson::raw::CString;
use bson::spec::BinarySubtype;
use bson::{Binary, DateTime, RawArrayBuf, RawBson, RawDocumentBuf, Regex, Timestamp};

use super::{END_BYTE, FIRST_TAG, number};
use crate::direction::Direction;
use crate::value;

/// A reader for the values of a key.
pub(crate) struct KeyDecoder<'k> {
    rest: &'k [u8],
}

impl<'k> KeyDecoder<'k> {
    pub(crate) fn new(key: &'k [u8]) -> KeyDecoder<'k> {
        KeyDecoder { rest: key }
    }

    /// Returns the next value, from a field with this direction.
    ///
    /// Returns `None` at the end of the key, or if the type of the value cannot be decoded. The decoder is unusable then.
    pub(crate) fn next_value(&mut self, direction: Direction) -> Option<RawBson> {
        let complement = match direction {
            Direction::Ascending => 0x00,
            Direction::Descending => 0xFF,
        };
        let mut bytes = KeyBytes {
            rest: self.rest,
            complement,
        };
        let value = bytes.read_value(0)?;
        self.rest = bytes.rest;
        Some(value)
    }

    /// Whether all bytes have been read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Bytes of a key. Reads undo the complement of a descending field.
struct KeyBytes<'k> {
    rest: &'k [u8],
    complement: u8,
}

impl KeyBytes<'_> {
    fn read_value(&mut self, depth: usize) -> Option<RawBson> {
        if depth > value::MAX_NESTING_DEPTH {
            return None;
        }
        let tag = self.read_byte()?.checked_sub(FIRST_TAG)?;
        let (rank, class) = (tag / 8, tag % 8);
        if class != 0 && rank != 3 {
            return None;
        }
        Some(match rank {
            0 => RawBson::MinKey,
            1 => RawBson::Undefined,
            2 => RawBson::Null,
            3 => self.read_number(class)?,
            4 => RawBson::String(self.read_text()?),
            5 => RawBson::Document(self.read_document(depth)?),
            6 => RawBson::Array(self.read_array(depth)?),
            7 => RawBson::Binary(self.read_binary()?),
            8 => RawBson::ObjectId(ObjectId::from_bytes(self.read_bytes()?)),
            9 => RawBson::Boolean(match self.read_byte()? {
                0 => false,
                1 => true,
                _ => return None,
            }),
            10 => {
                let ordered = u64::from_be_bytes(self.read_bytes()?);
                RawBson::DateTime(DateTime::from_millis((ordered ^ (1 << 63)).cast_signed()))
            }
            11 => RawBson::Timestamp(Timestamp {
                time: u32::from_be_bytes(self.read_bytes()?),
                increment: u32::from_be_bytes(self.read_bytes()?),
            }),
            12 => RawBson::RegularExpression(Regex {
                pattern: self.read_name()?,
                options: self.read_name()?,
            }),
            14 => RawBson::JavaScriptCode(self.read_text()?),
            16 => RawBson::MaxKey,
            _ => return None,
        })
    }

    fn read_number(&mut self, class: u8) -> Option<RawBson> {
        // The longest number has 26 bytes after its tag.
        let longest: Vec<u8> = self
            .rest
            .iter()
            .take(26)
            .map(|byte| byte ^ self.complement)
            .collect();
        let (value, length) = number::decode_number(class, &longest)?;
        self.rest = self.rest.get(length..)?;
        Some(value)
    }

    fn read_text(&mut self) -> Option<String> {
        let mut text = Vec::new();
        loop {
            match self.read_byte()? {
                0x00 => match self.read_byte()? {
                    0x01 => return String::from_utf8(text).ok(),
                    0xFF => text.push(0x00),
                    _ => return None,
                },
                byte => text.push(byte),
            }
        }
    }

    fn read_name(&mut self) -> Option<CString> {
        CString::try_from(self.read_text()?).ok()
    }

    fn read_document(&mut self, depth: usize) -> Option<RawDocumentBuf> {
        let mut document = RawDocumentBuf::new();
        // This byte repeats the tag of the field's value, which comes after the name.
        while self.read_byte()? != END_BYTE {
            let name = self.read_name()?;
            document.append(name, self.read_value(depth + 1)?);
        }
        Some(document)
    }

    fn read_array(&mut self, depth: usize) -> Option<RawArrayBuf> {
        let mut array = RawArrayBuf::new();
        while self.peek_byte()? != END_BYTE {
            array.push(self.read_value(depth + 1)?);
        }
        self.read_byte()?;
        Some(array)
    }

    fn read_binary(&mut self) -> Option<Binary> {
        let length = u32::from_be_bytes(self.read_bytes()?);
        let subtype = BinarySubtype::from(self.read_byte()?);
        let length = match subtype {
            BinarySubtype::BinaryOld => length.checked_sub(4)?,
            _ => length,
        };
        let (bytes, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        let bytes = bytes.iter().map(|byte| byte ^ self.complement).collect();
        Some(Binary { subtype, bytes })
    }

    fn peek_byte(&self) -> Option<u8> {
        self.rest.first().map(|byte| byte ^ self.complement)
    }

    fn read_byte(&mut self) -> Option<u8> {
        let [byte] = self.read_bytes()?;
        Some(byte)
    }

    fn read_bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(bytes.map(|byte| byte ^ self.complement))
    }
}
