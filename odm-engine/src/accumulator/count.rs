//! `$count`: the number of documents.
//!
//! ```text
//! { "$count": {} }
//! in:  { "a": 1 }
//! in:  {}
//! out: 2
//! ```

use bson::RawBsonRef;

use super::{AccumulatorCall, AccumulatorSpec, SumAccumulator};
use crate::error::code;
use crate::{Error, Result};

pub(super) fn parse_count(call: &AccumulatorCall<'_>) -> Result<AccumulatorSpec> {
    match call.operand {
        RawBsonRef::Document(arguments) if arguments.is_empty() => call
            .accumulator_spec(RawBsonRef::Int32(1), |_| {
                Ok(Box::new(SumAccumulator::default()))
            }),
        _ => {
            let message = "$count takes no arguments: write { $count: {} }";
            Err(Error::with_server_code(code::TYPE_MISMATCH, message))
        }
    }
}
