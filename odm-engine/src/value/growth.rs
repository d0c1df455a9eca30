//! How large and how deep values get that are computed: a pipeline of a few lines could double them without end.

use bson::RawDocument;

use super::check_within;
use crate::error::code;
use crate::{Error, Result};

/// The most bytes of a value that is computed, far more than a document can be stored with.
const MAX_BYTES: usize = 128 << 20;

/// How deep a document can nest that a stage has made, as on MongoDB.
const MAX_DEPTH: usize = 200;

/// The least bytes of a level: its type, the end of an empty name, its length and its end.
const LEVEL_BYTES: usize = 7;

/// Refuses a value that has so many bytes, or will have them.
///
/// # Errors
/// Too many (code 10334).
pub(crate) fn check_size(bytes: usize) -> Result<()> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    let message =
        format!("a computed value has {bytes} bytes or more, and {MAX_BYTES} are the most it can");
    Err(Error::server(code::DOCUMENT_TOO_LARGE, message))
}

/// Refuses a document that a stage has made too large or too deep for what comes behind it.
///
/// # Errors
/// It is too large (code 10334) or too deep (code 15).
pub(crate) fn check_made(document: &RawDocument) -> Result<()> {
    let bytes = document.as_bytes().len();
    check_size(bytes)?;
    // Small documents are not looked through.
    if bytes > MAX_DEPTH * LEVEL_BYTES {
        check_within(document, MAX_DEPTH)?;
    }
    Ok(())
}
