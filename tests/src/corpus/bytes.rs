//! BSON bytes: valid bytes are stored unchanged, and malformed bytes are refused.

use bson::{Document, RawDocumentBuf, doc, rawdoc};

use super::backend::Backend;
use super::operation::NotOffered;
use super::{Failure, Verdict, json};

/// Stores the bytes of a case, and compares the stored bytes.
pub(super) fn run_bytes_case(line: &Document, backend: &mut dyn Backend) -> Verdict {
    let text = |name| line.get_str(name).unwrap_or_default();
    let (hex, is_valid) = match text("kind") {
        "valid" => (text("canonical_bson"), true),
        "decodeErrors" => (text("bson"), false),
        "parseErrors" => return run_text_case(text("string")),
        other => return Err(NotOffered::new(format!("{other} of Extended JSON"))),
    };
    let expected = doc! { "stored": is_valid };
    let question = doc! { "bson": hex, "description": text("description") };
    let failed = |got: &str| Ok(Some(Failure::new(&question, &expected, got)));
    if let Err(error) = backend.reset() {
        return failed(&error);
    }
    let Some(bytes) = decode_hex(hex) else {
        return failed("not hexadecimal");
    };
    let Ok(document) = RawDocumentBuf::from_bytes(bytes) else {
        // The driver's type for bytes already refuses the bytes.
        return if is_valid {
            failed("no document")
        } else {
            Ok(None)
        };
    };
    let wrapped = rawdoc! { "_id": 1, "d": document };
    match backend.insert_and_read(wrapped.clone())? {
        None if is_valid => failed("refused"),
        Some(stored) if is_valid && stored.as_bytes() != wrapped.as_bytes() => {
            failed("other bytes")
        }
        Some(_) if !is_valid => failed("stored"),
        _ => Ok(None),
    }
}

/// Judges a text that is not Extended JSON. The `bson` crate reads the text, not the backend, and accepts more than the standard.
fn run_text_case(text: &str) -> Verdict {
    let read = json::parse_line(text).and_then(|document| {
        RawDocumentBuf::try_from(&document).map_err(|error| error.to_string())
    });
    match read {
        Err(_) => Ok(None),
        Ok(_) => Err(NotOffered::new(
            "a parse error that the bson crate reads all the same",
        )),
    }
}

fn decode_hex(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<_>> = hex.chars().map(|digit| digit.to_digit(16)).collect();
    let pairs = digits?;
    let byte =
        |pair: &[u32]| u8::try_from(pair.iter().fold(0, |byte, digit| byte << 4 | digit)).ok();
    pairs.chunks(2).map(byte).collect()
}
