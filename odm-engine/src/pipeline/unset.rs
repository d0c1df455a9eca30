//! `$unset`: removes fields.
//!
//! ```text
//! { "$unset": ["a", "b.c"] }
//! in:  { "_id": 1, "a": 1, "b": { "c": 1, "d": 2 } }
//! out: { "_id": 1, "b": { "d": 2 } }
//! ```

use bson::{RawBsonRef, RawDocumentBuf};

use super::PipelineStage;
use super::stages::StageCall;
use crate::document::append_field;
use crate::projection::Projection;
use crate::{Error, Result, value};

pub(super) fn parse_unset(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    let mut paths = Vec::new();
    match call.operand {
        RawBsonRef::String(path) => paths.push(path),
        RawBsonRef::Array(array) => {
            for path in value::items(array) {
                let not_text =
                    || Error::with_server_code(31120, "the paths of $unset must be strings");
                paths.push(path.as_str().ok_or_else(not_text)?);
            }
        }
        _ => {
            return Err(Error::with_server_code(
                31002,
                "$unset takes a path or an array of them",
            ));
        }
    }
    if paths.is_empty() {
        return Err(Error::with_server_code(
            31119,
            "$unset needs at least one path",
        ));
    }
    let mut projection = RawDocumentBuf::new();
    for path in paths {
        if path.contains('\0') {
            return Err(Error::with_server_code(
                16411,
                "the path of a field cannot contain a null byte",
            ));
        }
        append_field(&mut projection, path, false);
    }
    let projection = Projection::parse_stage(&projection, &call.context.environment)?;
    Ok(vec![PipelineStage::from_transform(projection)])
}
