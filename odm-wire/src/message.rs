//! Messages of the wire protocol, as bytes and as values.
//!
//! A message has a [`Header`] and a body. The server reads `OP_MSG`, and `OP_QUERY` for the first `hello` of a connection.

use std::fmt;

use bson::{RawDocument, RawDocumentBuf};

use crate::error::{CommandError, code};

/// The length of a header in bytes.
pub(crate) const HEADER_BYTES: usize = 16;

/// The maximum length of a message with its header, as on MongoDB.
pub(crate) const MAX_MESSAGE_BYTES: usize = 48_000_000;

const OP_REPLY: i32 = 1;
const OP_QUERY: i32 = 2004;
const OP_COMPRESSED: i32 = 2012;
const OP_MSG: i32 = 2013;

const CHECKSUM_PRESENT: u32 = 1;
const MORE_TO_COME: u32 = 1 << 1;
/// The flags that a receiver must understand. The remaining flags are optional.
const REQUIRED_FLAGS: u32 = 0xFFFF;
const CHECKSUM_BYTES: usize = 4;

/// The maximum number of sequences of documents in a message. A command has at most two.
const MAX_SEQUENCES: usize = 8;

/// The flag of an `OP_REPLY` that every server sets.
const AWAIT_CAPABLE: i32 = 8;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The length of the message, with the header.
    pub(crate) length: usize,
    pub(crate) request_id: i32,
    operation: Operation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Query,
    Message,
}

/// A received message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) body: RawDocumentBuf,
    pub(crate) sequences: Vec<DocumentSequence>,
    pub(crate) format: ReplyFormat,
}

/// The documents of an argument outside of the body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DocumentSequence {
    pub(crate) name: String,
    pub(crate) documents: Vec<RawDocumentBuf>,
}

/// How the client expects the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyFormat {
    /// An `OP_MSG`.
    Message {
        /// Whether the client wants a checksum.
        checksum: bool,
    },
    /// No reply: the client does not wait.
    Nothing,
    /// An `OP_REPLY` for an `OP_QUERY`.
    Query,
}

/// Why bytes are not a message. The connection ends, because the start of the next message is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageError(String);

impl MessageError {
    fn new(message: impl Into<String>) -> MessageError {
        MessageError(message.into())
    }

    /// Returns the error for a large message before the authentication.
    pub(crate) fn before_authentication() -> MessageError {
        MessageError::new("the message is too long; authenticate first")
    }

    /// Returns the error as a reply.
    pub(crate) fn to_command_error(&self) -> CommandError {
        CommandError::new(code::PROTOCOL_ERROR, self.0.clone())
    }
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<bson::error::Error> for MessageError {
    fn from(error: bson::error::Error) -> MessageError {
        MessageError(format!("the message has a malformed document: {error}"))
    }
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// A length out of bounds, or an operation that is not supported.
    pub(crate) fn parse(bytes: [u8; HEADER_BYTES]) -> Result<Header, MessageError> {
        let mut reader = Reader::new(&bytes);
        let length = reader.i32()?;
        let request_id = reader.i32()?;
        let _response_to = reader.i32()?;
        let operation = match reader.i32()? {
            OP_MSG => Operation::Message,
            OP_QUERY => Operation::Query,
            OP_COMPRESSED => {
                let message = "compressed messages are not supported, and `hello` offers none";
                return Err(MessageError::new(message));
            }
            unknown => {
                let message = format!(
                    "the operation {unknown} is not supported; use a driver for MongoDB 3.6 or later"
                );
                return Err(MessageError(message));
            }
        };
        match usize::try_from(length) {
            Ok(length) if (HEADER_BYTES..=MAX_MESSAGE_BYTES).contains(&length) => Ok(Header {
                length,
                request_id,
                operation,
            }),
            _ => Err(MessageError(format!(
                "a message of {length} bytes; the length is from {HEADER_BYTES} to {MAX_MESSAGE_BYTES} bytes"
            ))),
        }
    }
}

impl Message {
    /// Reads a message from its header and the bytes after the header.
    ///
    /// # Errors
    /// The bytes are not a message of the kind that the header names.
    pub(crate) fn parse(
        header: [u8; HEADER_BYTES],
        payload: &[u8],
    ) -> Result<Message, MessageError> {
        let parsed = Header::parse(header)?;
        if parsed.length != HEADER_BYTES + payload.len() {
            return Err(MessageError::new("the length of the message is wrong"));
        }
        match parsed.operation {
            Operation::Message => parse_op_msg(header, payload),
            Operation::Query => parse_op_query(payload),
        }
    }
}

fn parse_op_msg(header: [u8; HEADER_BYTES], payload: &[u8]) -> Result<Message, MessageError> {
    let mut reader = Reader::new(payload);
    let flags = reader.u32()?;
    let unknown = flags & REQUIRED_FLAGS & !(CHECKSUM_PRESENT | MORE_TO_COME);
    if unknown != 0 {
        return Err(MessageError(format!(
            "unknown required flags {unknown:#x} of a message"
        )));
    }
    let checksum = flags & CHECKSUM_PRESENT != 0;
    if checksum {
        reader.check_checksum(header, payload)?;
    }
    let mut body = None;
    let mut sequences: Vec<DocumentSequence> = Vec::new();
    while !reader.is_empty() {
        match reader.u8()? {
            0 if body.is_some() => return Err(MessageError::new("a message has two bodies")),
            0 => body = Some(reader.document()?),
            1 if sequences.len() == MAX_SEQUENCES => {
                let message = format!("a message has more than {MAX_SEQUENCES} sequences");
                return Err(MessageError(message));
            }
            1 => {
                let sequence = reader.sequence()?;
                if sequences.iter().any(|other| other.name == sequence.name) {
                    let message = format!("a message has two sequences `{}`", sequence.name);
                    return Err(MessageError(message));
                }
                sequences.push(sequence);
            }
            kind => {
                let message = format!("unknown kind {kind} of a section of a message");
                return Err(MessageError(message));
            }
        }
    }
    let format = match flags & MORE_TO_COME != 0 {
        true => ReplyFormat::Nothing,
        false => ReplyFormat::Message { checksum },
    };
    Ok(Message {
        body: body.ok_or_else(|| MessageError::new("a message has no body"))?,
        sequences,
        format,
    })
}

/// Reads an `OP_QUERY`, which old and new drivers send as the first message of a connection. The query is a command, and the
/// commands after it are `OP_MSG`.
fn parse_op_query(payload: &[u8]) -> Result<Message, MessageError> {
    let mut reader = Reader::new(payload);
    let _flags = reader.u32()?;
    let namespace = reader.text()?.to_owned();
    let _skip = reader.i32()?;
    let _limit = reader.i32()?;
    let mut body = reader.document()?;
    if !reader.is_empty() {
        // The selected fields of the result. A command has none.
        reader.document()?;
    }
    if !reader.is_empty() {
        return Err(MessageError::new("bytes after the end of a query"));
    }
    let Some(database) = namespace.strip_suffix(".$cmd") else {
        let message =
            "a query by `OP_QUERY` is not supported; use a driver for MongoDB 3.6 or later";
        return Err(MessageError::new(message));
    };
    if body.get("$db")?.is_none() {
        body.append(bson::raw::cstr!("$db"), database);
    }
    Ok(Message {
        body,
        sequences: Vec::new(),
        format: ReplyFormat::Query,
    })
}

/// Returns the bytes of a reply. Returns `None` if the client expects none.
pub(crate) fn encode_reply(
    format: ReplyFormat,
    request_id: i32,
    reply_id: i32,
    document: &RawDocument,
) -> Option<Vec<u8>> {
    let document = document.as_bytes();
    let mut bytes = Vec::with_capacity(HEADER_BYTES + 20 + document.len() + CHECKSUM_BYTES);
    let header = |bytes: &mut Vec<u8>, operation: i32| {
        for number in [0, reply_id, request_id, operation] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    };
    match format {
        ReplyFormat::Nothing => return None,
        ReplyFormat::Query => {
            header(&mut bytes, OP_REPLY);
            bytes.extend_from_slice(&AWAIT_CAPABLE.to_le_bytes());
            bytes.extend_from_slice(&0_i64.to_le_bytes()); // cursor
            bytes.extend_from_slice(&0_i32.to_le_bytes()); // position of the first document
            bytes.extend_from_slice(&1_i32.to_le_bytes()); // number of documents
            bytes.extend_from_slice(document);
            set_length(&mut bytes, 0);
        }
        ReplyFormat::Message { checksum } => {
            header(&mut bytes, OP_MSG);
            let flags = if checksum { CHECKSUM_PRESENT } else { 0 };
            bytes.extend_from_slice(&flags.to_le_bytes());
            bytes.push(0);
            bytes.extend_from_slice(document);
            set_length(&mut bytes, if checksum { CHECKSUM_BYTES } else { 0 });
            if checksum {
                let sum = crc32c::crc32c(&bytes);
                bytes.extend_from_slice(&sum.to_le_bytes());
            }
        }
    }
    Some(bytes)
}

/// Writes the length of a message, with bytes that follow later, into the header.
fn set_length(bytes: &mut [u8], following: usize) {
    let length = i32::try_from(bytes.len() + following).unwrap_or(i32::MAX);
    if let Some(field) = bytes.first_chunk_mut() {
        *field = length.to_le_bytes();
    }
}

/// A reader of little-endian values.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], MessageError> {
        let split = self.rest.split_at_checked(length);
        let (bytes, rest) = split.ok_or_else(|| MessageError::new("the message is too short"))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let bytes = self.bytes(N)?;
        bytes
            .try_into()
            .map_err(|_| MessageError::new("the message is too short"))
    }

    fn u8(&mut self) -> Result<u8, MessageError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn i32(&mut self) -> Result<i32, MessageError> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, MessageError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads a text that ends with a zero byte.
    fn text(&mut self) -> Result<&'a str, MessageError> {
        let end = self.rest.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| MessageError::new("a name in the message has no end"))?;
        let text = self.bytes(end)?;
        self.u8()?;
        std::str::from_utf8(text)
            .map_err(|_| MessageError::new("a name in the message is not UTF-8"))
    }

    fn document(&mut self) -> Result<RawDocumentBuf, MessageError> {
        let mut length = Reader { rest: self.rest };
        let length = length.i32()?;
        let length = usize::try_from(length)
            .map_err(|_| MessageError::new("a document in the message has a negative length"))?;
        Ok(RawDocumentBuf::from_bytes(self.bytes(length)?.to_vec())?)
    }

    fn sequence(&mut self) -> Result<DocumentSequence, MessageError> {
        let length = self.i32()?;
        let content = usize::try_from(length).ok().and_then(|n| n.checked_sub(4));
        let content = content.ok_or_else(|| MessageError::new("a sequence is too short"))?;
        let mut content = Reader::new(self.bytes(content)?);
        let name = content.text()?.to_owned();
        let mut documents = Vec::new();
        while !content.is_empty() {
            documents.push(content.document()?);
        }
        Ok(DocumentSequence { name, documents })
    }

    /// Takes the checksum off the end, and compares it with the message.
    fn check_checksum(
        &mut self,
        header: [u8; HEADER_BYTES],
        payload: &[u8],
    ) -> Result<(), MessageError> {
        let missing = || MessageError::new("the message has no checksum");
        let (rest, sum) = self.rest.split_last_chunk().ok_or_else(missing)?;
        self.rest = rest;
        let covered = payload.len().checked_sub(CHECKSUM_BYTES);
        let covered = covered.and_then(|length| payload.get(..length));
        let computed = crc32c::crc32c_append(crc32c::crc32c(&header), covered.ok_or_else(missing)?);
        if u32::from_le_bytes(*sum) != computed {
            return Err(MessageError::new("the checksum of the message is wrong"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    /// Returns the header and the payload of an `OP_MSG`.
    fn op_msg(flags: u32, sections: &[u8]) -> ([u8; HEADER_BYTES], Vec<u8>) {
        let mut payload = flags.to_le_bytes().to_vec();
        payload.extend_from_slice(sections);
        (header(payload.len(), OP_MSG), payload)
    }

    fn header(payload: usize, operation: i32) -> [u8; HEADER_BYTES] {
        let length = i32::try_from(HEADER_BYTES + payload).unwrap();
        let numbers = [length, 7, 0, operation].map(i32::to_le_bytes);
        numbers.concat().try_into().unwrap()
    }

    fn body(document: &RawDocument) -> Vec<u8> {
        [&[0], document.as_bytes()].concat()
    }

    fn sequence(name: &str, documents: &[RawDocumentBuf]) -> Vec<u8> {
        let documents: Vec<_> = documents
            .iter()
            .map(|document| document.as_bytes())
            .collect();
        let content = [name.as_bytes(), &[0], &documents.concat()].concat();
        let length = i32::try_from(content.len() + 4).unwrap();
        [&[1], &length.to_le_bytes()[..], &content].concat()
    }

    #[test]
    fn a_message_has_a_body_and_sequences() {
        let ping = rawdoc! { "insert": "c", "$db": "d" };
        let documents = [rawdoc! { "a": 1 }, rawdoc! {}];
        let sections = [sequence("documents", &documents), body(&ping)].concat();
        let (header, payload) = op_msg(0, &sections);
        let message = Message::parse(header, &payload).unwrap();
        assert_eq!(message.body, ping);
        assert_eq!(message.sequences[0].name, "documents");
        assert_eq!(message.sequences[0].documents, documents);
        assert_eq!(message.format, ReplyFormat::Message { checksum: false });
        let (header, payload) = op_msg(MORE_TO_COME, &sections);
        let message = Message::parse(header, &payload).unwrap();
        assert_eq!(message.format, ReplyFormat::Nothing);
    }

    #[test]
    fn a_checksum_is_verified() {
        let mut payload = CHECKSUM_PRESENT.to_le_bytes().to_vec();
        payload.extend(body(&rawdoc! { "ping": 1 }));
        let header = header(payload.len() + CHECKSUM_BYTES, OP_MSG);
        let sum = crc32c::crc32c_append(crc32c::crc32c(&header), &payload);
        payload.extend_from_slice(&sum.to_le_bytes());
        let message = Message::parse(header, &payload).unwrap();
        assert_eq!(message.format, ReplyFormat::Message { checksum: true });
        payload[10] ^= 1;
        let error = Message::parse(header, &payload).unwrap_err();
        assert!(error.to_string().contains("checksum"));
    }

    #[test]
    fn a_reply_is_a_message() {
        let document = rawdoc! { "ok": 1 };
        for checksum in [false, true] {
            let format = ReplyFormat::Message { checksum };
            let bytes = encode_reply(format, 7, 8, &document).unwrap();
            let (header, payload) = bytes.split_first_chunk().unwrap();
            let parsed = Message::parse(*header, payload).unwrap();
            assert_eq!((parsed.body, parsed.format), (document.clone(), format));
        }
        assert_eq!(encode_reply(ReplyFormat::Nothing, 7, 8, &document), None);
    }

    #[test]
    fn an_old_hello_is_a_query() {
        let query = |namespace: &[u8]| {
            let numbers = [0_i32, -1].map(i32::to_le_bytes).concat();
            let hello = rawdoc! { "isMaster": 1 };
            let parts = [&[0; 4], namespace, &[0], &numbers, hello.as_bytes()];
            let payload = parts.concat();
            Message::parse(header(payload.len(), OP_QUERY), &payload)
        };
        let message = query(b"admin.$cmd").unwrap();
        assert_eq!(message.body, rawdoc! { "isMaster": 1, "$db": "admin" });
        assert_eq!(message.format, ReplyFormat::Query);
        let refused = query(b"admin.users").unwrap_err();
        assert!(refused.to_string().contains("OP_QUERY"));
    }

    #[test]
    fn malformed_messages_are_refused() {
        let ping = body(&rawdoc! { "ping": 1 });
        let two = sequence("a", &[rawdoc! {}]);
        let nine: Vec<_> = (0..9)
            .map(|n| sequence(&n.to_string(), &[rawdoc! {}]))
            .collect();
        let cases: [(u32, Vec<u8>, &str); 9] = [
            (0, [&ping[..], &nine.concat()].concat(), "8 sequences"),
            (0, Vec::new(), "no body"),
            (0, [ping.clone(), ping.clone()].concat(), "two bodies"),
            (0, [&ping[..], &two, &two].concat(), "two sequences"),
            (0, [&ping[..], &[2]].concat(), "unknown kind"),
            (0, ping[..ping.len() - 1].to_vec(), "too short"),
            (0, [&ping[..], &[1, 3, 0, 0, 0]].concat(), "too short"),
            (0, vec![0, 255, 255, 255, 255], "negative length"),
            (4, ping.clone(), "required flags"),
        ];
        for (flags, sections, expected) in cases {
            let (header, payload) = op_msg(flags, &sections);
            let error = Message::parse(header, &payload).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}: {expected}");
        }
        let (header, payload) = op_msg(0, &[&ping[..], &nine[1..].concat()].concat());
        assert!(Message::parse(header, &payload).is_ok());
        // The flags above bit 15 are optional.
        let (header, payload) = op_msg(1 << 16, &ping);
        assert!(Message::parse(header, &payload).is_ok());
    }

    #[test]
    fn wrong_lengths_and_operations_are_refused() {
        let with = |length: i32, operation: i32| {
            let numbers = [length, 7, 0, operation].map(i32::to_le_bytes);
            Header::parse(numbers.concat().try_into().unwrap())
        };
        let largest = i32::try_from(MAX_MESSAGE_BYTES).unwrap();
        assert!(with(largest, OP_MSG).is_ok());
        for length in [largest + 1, i32::MAX, 15, 0, -1, i32::MIN] {
            assert!(
                with(length, OP_MSG)
                    .unwrap_err()
                    .to_string()
                    .contains("length")
            );
        }
        for operation in [OP_COMPRESSED, OP_REPLY, 2002, 0, -1] {
            let error = with(100, operation).unwrap_err();
            assert!(error.to_string().contains("not supported"), "{error}");
        }
    }
}
