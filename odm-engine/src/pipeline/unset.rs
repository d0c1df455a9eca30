//! `$unset`: without some fields.
//!
//! ```text
//! { "$unset": ["a", "b.c"] }
//! in:  { "_id": 1, "a": 1, "b": { "c": 1, "d": 2 } }
//! out: { "_id": 1, "b": { "d": 2 } }
//! ```

use bson::{RawBsonRef, RawDocumentBuf};

use super::Stage;
use super::stages::Call;
use crate::document::append;
use crate::projection::Projection;
use crate::{Error, Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    let mut paths = Vec::new();
    match call.operand {
        RawBsonRef::String(path) => paths.push(path),
        RawBsonRef::Array(array) => {
            for path in value::items(array) {
                let not_text = || Error::server(31120, "the paths that $unset takes are strings");
                paths.push(path.as_str().ok_or_else(not_text)?);
            }
        }
        _ => {
            return Err(Error::server(
                31002,
                "$unset takes a path or an array of them",
            ));
        }
    }
    if paths.is_empty() {
        return Err(Error::server(31119, "$unset needs at least one path"));
    }
    let mut projection = RawDocumentBuf::new();
    for path in paths {
        if path.contains('\0') {
            return Err(Error::server(16411, "the path of a field has no null byte"));
        }
        append(&mut projection, path, false);
    }
    let projection = Projection::parse_stage(&projection, &call.context.environment)?;
    Ok(vec![Stage::transform(projection)])
}
