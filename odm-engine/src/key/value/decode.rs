//! From the encoding back to a value.
//!
//! Equal values have one encoding, so that the way back leads to one of them: a string and never a
//! symbol, the smallest type of number. Whoever needs the very value has to know that it was that one.

use bson::oid::ObjectId;
use bson::raw::CString;
use bson::spec::BinarySubtype;
use bson::{Binary, DateTime, RawArrayBuf, RawBson, RawDocumentBuf, Regex, Timestamp};

use super::{END, FIRST_TAG, number};
use crate::direction::Direction;
use crate::value;

/// Reads the values of a key one by one.
pub(crate) struct Decoder<'k> {
    rest: &'k [u8],
}

impl<'k> Decoder<'k> {
    pub(crate) fn new(key: &'k [u8]) -> Decoder<'k> {
        Decoder { rest: key }
    }

    /// The next value, of a field in this direction. `None` where there is none, or one of a type that
    /// cannot be decoded; nothing can be read after that.
    pub(crate) fn next(&mut self, direction: Direction) -> Option<RawBson> {
        let complement = match direction {
            Direction::Ascending => 0x00,
            Direction::Descending => 0xFF,
        };
        let mut bytes = Bytes {
            rest: self.rest,
            complement,
        };
        let value = bytes.value(0)?;
        self.rest = bytes.rest;
        Some(value)
    }

    /// Whether every byte has been read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Bytes with the complement of a descending field taken back.
struct Bytes<'k> {
    rest: &'k [u8],
    complement: u8,
}

impl Bytes<'_> {
    fn value(&mut self, depth: usize) -> Option<RawBson> {
        if depth > value::MAX_DEPTH {
            return None;
        }
        let tag = self.byte()?.checked_sub(FIRST_TAG)?;
        let (rank, class) = (tag / 8, tag % 8);
        if class != 0 && rank != 3 {
            return None;
        }
        Some(match rank {
            0 => RawBson::MinKey,
            1 => RawBson::Undefined,
            2 => RawBson::Null,
            3 => self.number(class)?,
            4 => RawBson::String(self.text()?),
            5 => RawBson::Document(self.document(depth)?),
            6 => RawBson::Array(self.array(depth)?),
            7 => RawBson::Binary(self.binary()?),
            8 => RawBson::ObjectId(ObjectId::from_bytes(self.array_of()?)),
            9 => RawBson::Boolean(match self.byte()? {
                0 => false,
                1 => true,
                _ => return None,
            }),
            10 => {
                let ordered = u64::from_be_bytes(self.array_of()?);
                RawBson::DateTime(DateTime::from_millis((ordered ^ (1 << 63)).cast_signed()))
            }
            11 => RawBson::Timestamp(Timestamp {
                time: u32::from_be_bytes(self.array_of()?),
                increment: u32::from_be_bytes(self.array_of()?),
            }),
            12 => RawBson::RegularExpression(Regex {
                pattern: self.name()?,
                options: self.name()?,
            }),
            14 => RawBson::JavaScriptCode(self.text()?),
            16 => RawBson::MaxKey,
            _ => return None,
        })
    }

    fn number(&mut self, class: u8) -> Option<RawBson> {
        // The longest number has 26 bytes after its tag.
        let longest: Vec<u8> = self
            .rest
            .iter()
            .take(26)
            .map(|byte| byte ^ self.complement)
            .collect();
        let (value, length) = number::decode(class, &longest)?;
        self.rest = self.rest.get(length..)?;
        Some(value)
    }

    fn text(&mut self) -> Option<String> {
        let mut text = Vec::new();
        loop {
            match self.byte()? {
                0x00 => match self.byte()? {
                    0x01 => return String::from_utf8(text).ok(),
                    0xFF => text.push(0x00),
                    _ => return None,
                },
                byte => text.push(byte),
            }
        }
    }

    fn name(&mut self) -> Option<CString> {
        CString::try_from(self.text()?).ok()
    }

    fn document(&mut self, depth: usize) -> Option<RawDocumentBuf> {
        let mut document = RawDocumentBuf::new();
        // The tag of the field's value comes again with the value.
        while self.byte()? != END {
            let name = self.name()?;
            document.append(name, self.value(depth + 1)?);
        }
        Some(document)
    }

    fn array(&mut self, depth: usize) -> Option<RawArrayBuf> {
        let mut array = RawArrayBuf::new();
        while self.peek()? != END {
            array.push(self.value(depth + 1)?);
        }
        self.byte()?;
        Some(array)
    }

    fn binary(&mut self) -> Option<Binary> {
        let length = u32::from_be_bytes(self.array_of()?);
        let subtype = BinarySubtype::from(self.byte()?);
        let length = match subtype {
            BinarySubtype::BinaryOld => length.checked_sub(4)?,
            _ => length,
        };
        let (bytes, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        let bytes = bytes.iter().map(|byte| byte ^ self.complement).collect();
        Some(Binary { subtype, bytes })
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().map(|byte| byte ^ self.complement)
    }

    fn byte(&mut self) -> Option<u8> {
        let [byte] = self.array_of()?;
        Some(byte)
    }

    fn array_of<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(bytes.map(|byte| byte ^ self.complement))
    }
}
