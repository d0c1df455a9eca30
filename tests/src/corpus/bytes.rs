//! BSON bytes: what is valid comes back as it was, what is malformed is refused.

use bson::{Document, RawDocumentBuf, doc, rawdoc};

use super::backend::Backend;
use super::operation::NotOffered;
use super::{Failure, Verdict, json};

/// Stores the bytes of a case, and compares.
pub(super) fn judge(line: &Document, backend: &mut dyn Backend) -> Verdict {
    let text = |name| line.get_str(name).unwrap_or_default();
    let (hex, is_valid) = match text("kind") {
        "valid" => (text("canonical_bson"), true),
        "decodeErrors" => (text("bson"), false),
        "parseErrors" => return judge_text(text("string")),
        other => return Err(NotOffered::new(format!("{other} of Extended JSON"))),
    };
    let expected = doc! { "stored": is_valid };
    let asked = doc! { "bson": hex, "description": text("description") };
    let failed = |got: &str| Ok(Some(Failure::new(&asked, &expected, got)));
    if let Err(error) = backend.reset() {
        return failed(&error);
    }
    let Some(bytes) = bytes(hex) else {
        return failed("not hexadecimal");
    };
    let Ok(document) = RawDocumentBuf::from_bytes(bytes) else {
        // Not even the driver's type for bytes takes it.
        return if is_valid {
            failed("no document")
        } else {
            Ok(None)
        };
    };
    let wrapped = rawdoc! { "_id": 1, "d": document };
    match backend.store(wrapped.clone())? {
        None if is_valid => failed("refused"),
        Some(stored) if is_valid && stored.as_bytes() != wrapped.as_bytes() => {
            failed("other bytes")
        }
        Some(_) if !is_valid => failed("stored"),
        _ => Ok(None),
    }
}

/// Text that is no Extended JSON. It is not the backend that reads it, but the `bson` crate, whose leniency is its own.
fn judge_text(text: &str) -> Verdict {
    let read = json::parse(text).and_then(|document| {
        RawDocumentBuf::try_from(&document).map_err(|error| error.to_string())
    });
    match read {
        Err(_) => Ok(None),
        Ok(_) => Err(NotOffered::new(
            "a parse error that the bson crate reads all the same",
        )),
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<_>> = hex.chars().map(|digit| digit.to_digit(16)).collect();
    let pairs = digits?;
    let byte =
        |pair: &[u32]| u8::try_from(pair.iter().fold(0, |byte, digit| byte << 4 | digit)).ok();
    pairs.chunks(2).map(byte).collect()
}
