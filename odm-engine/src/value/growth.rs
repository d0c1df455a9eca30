//! Limits on the size and depth of computed values. Without limits, a pipeline of a few lines could
//! double a value again and again until memory runs out.

use bson::RawDocument;

use super::check_depth;
use crate::error::code;
use crate::{Error, Result};

/// The maximum size of a computed value in bytes, far above the limit of stored documents.
const MAX_VALUE_BYTES: usize = 128 << 20;

/// The maximum nesting depth of a document that a stage returns, as on MongoDB.
const MAX_COMPUTED_DEPTH: usize = 200;

/// The minimum size of a nesting level in bytes: type, empty name, length and end.
const LEVEL_BYTES: usize = 7;

/// Checks the size of a computed value, before or after the computation.
///
/// # Errors
/// The value is too large (code 10334).
pub(crate) fn check_size(bytes: usize) -> Result<()> {
    if bytes <= MAX_VALUE_BYTES {
        return Ok(());
    }
    let message =
        format!("a computed value is too large: at least {bytes} bytes (max {MAX_VALUE_BYTES})");
    Err(Error::with_server_code(code::DOCUMENT_TOO_LARGE, message))
}

/// Checks the size and depth of a document that a stage returns, before the next stage receives the
/// document.
///
/// # Errors
/// The document is too large (code 10334) or too deep (code 15).
pub(crate) fn check_stage_output(document: &RawDocument) -> Result<()> {
    let bytes = document.as_bytes().len();
    check_size(bytes)?;
    // A small document cannot nest too deeply, so the depth is not checked.
    if bytes > MAX_COMPUTED_DEPTH * LEVEL_BYTES {
        check_depth(document, MAX_COMPUTED_DEPTH)?;
    }
    Ok(())
}
