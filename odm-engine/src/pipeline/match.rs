//! `$match`: the documents that match a filter.
//!
//! ```text
//! { "$match": { "a": { "$gt": 1 } } }
//! in:  { "_id": 1, "a": 1 }
//! in:  { "_id": 2, "a": 2 }
//! out: { "_id": 2, "a": 2 }
//! ```

use bson::RawBsonRef;

use super::PipelineStage;
use super::stages::StageCall;
use crate::filter::Filter;
use crate::{Error, Result};

pub(super) fn parse_match(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    let RawBsonRef::Document(filter) = call.operand else {
        return Err(Error::with_server_code(15959, "$match takes a filter"));
    };
    let filter = Filter::parse_for_command(filter, &call.context.environment)?;
    Ok(vec![PipelineStage::Match(filter)])
}
