//! `$limit`: no more documents than a number.
//!
//! ```text
//! { "$limit": 1 }
//! in:  { "_id": 1 }
//! in:  { "_id": 2 }
//! out: { "_id": 1 }
//! ```

use bson::RawBsonRef;

use super::Stage;
use super::stages::Call;
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    match count(call, 5107201)? {
        0 => Err(Error::server(15958, "$limit must be above 0")),
        limit => Ok(vec![Stage::Limit(limit)]),
    }
}

/// A whole number from 0; MongoDB has a number for each stage that needs one.
pub(super) fn count(call: &Call<'_>, code: i32) -> Result<u64> {
    let whole = Number::from_bson(call.operand).and_then(Number::whole);
    whole
        .and_then(|count| u64::try_from(count).ok())
        .ok_or_else(|| {
            let found = RawBsonRef::element_type(&call.operand);
            let message = format!(
                "{} takes a whole number from 0, not this {found:?}",
                call.name
            );
            Error::server(code, message)
        })
}
