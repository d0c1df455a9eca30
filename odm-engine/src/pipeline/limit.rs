//! `$limit`: at most a given number of documents.
//!
//! ```text
//! { "$limit": 1 }
//! in:  { "_id": 1 }
//! in:  { "_id": 2 }
//! out: { "_id": 1 }
//! ```

use bson::RawBsonRef;

use super::PipelineStage;
use super::stages::StageCall;
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse_limit(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    match parse_non_negative(call, 5107201)? {
        0 => Err(Error::with_server_code(
            15958,
            "$limit must be greater than 0",
        )),
        limit => Ok(vec![PipelineStage::Limit(limit)]),
    }
}

/// Parses a non-negative integer. MongoDB has a separate error code for each stage.
pub(super) fn parse_non_negative(call: &StageCall<'_>, code: i32) -> Result<u64> {
    let integer = Number::from_bson(call.operand).and_then(Number::whole_long);
    integer
        .and_then(|count| u64::try_from(count).ok())
        .ok_or_else(|| {
            let type_name = RawBsonRef::element_type(&call.operand);
            let message = format!(
                "{} takes a non-negative integer, not {type_name:?}",
                call.name
            );
            Error::with_server_code(code, message)
        })
}
