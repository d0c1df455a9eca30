//! `$skip`: all documents except the first ones.
//!
//! ```text
//! { "$skip": 1 }
//! in:  { "_id": 1 }
//! in:  { "_id": 2 }
//! out: { "_id": 2 }
//! ```

use super::stages::StageCall;
use super::{PipelineStage, limit};
use crate::Result;

pub(super) fn parse_skip(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    Ok(vec![PipelineStage::Skip(limit::parse_non_negative(
        call, 5107200,
    )?)])
}
