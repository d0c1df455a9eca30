//! `$count`: how many documents there are.
//!
//! ```text
//! { "$count": {} }
//! in:  { "a": 1 }
//! in:  {}
//! out: 2
//! ```

use bson::RawBsonRef;

use super::{Accumulation, Call, Sum};
use crate::error::code;
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Accumulation> {
    match call.operand {
        RawBsonRef::Document(arguments) if arguments.is_empty() => {
            call.accumulation(RawBsonRef::Int32(1), |_| Ok(Box::new(Sum::default())))
        }
        _ => {
            let message = "$count takes no arguments: write { $count: {} }";
            Err(Error::server(code::TYPE_MISMATCH, message))
        }
    }
}
