//! `$tsIncrement`, `$tsSecond`: the parts of a timestamp.
//!
//! ```text
//! { "$tsIncrement": { "$timestamp": { "t": 5, "i": 3 } } } → { "$numberLong": "3" }
//! { "$tsSecond": { "$timestamp": { "t": 5, "i": 3 } } } → { "$numberLong": "5" }
//! { "$tsSecond": null } → null
//! ```

use bson::{RawBsonRef, Timestamp};

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

pub(super) fn parse_increment(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        timestamp_part("$tsIncrement", &value, 5_687_302, |timestamp| {
            timestamp.increment
        })
    })
}

pub(super) fn parse_second(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| timestamp_part("$tsSecond", &value, 5_687_301, |timestamp| timestamp.time))
}

fn timestamp_part<'v>(
    name: &str,
    value: &Value<'_>,
    code: i32,
    part: fn(Timestamp) -> u32,
) -> Result<Value<'v>> {
    match value.as_bson() {
        None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => Ok(Value::NULL),
        Some(RawBsonRef::Timestamp(timestamp)) => Ok(i64::from(part(timestamp)).into()),
        Some(_) => {
            let message = format!("{name} takes a timestamp, not {}", value.type_name());
            Err(Error::with_server_code(code, message))
        }
    }
}
