//! `$strcasecmp`: the order of two strings without regard to ASCII case: −1, 0 or 1.
//!
//! ```text
//! { "$strcasecmp": ["abc", "ABC"] } → 0
//! { "$strcasecmp": ["a", "B"] } → -1
//! { "$strcasecmp": [7, null] } → 1
//! ```

use super::text;
use crate::Result;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};

pub(super) fn parse_strcasecmp(call: &OperatorCall<'_>) -> Result<Expression> {
    call.binary(strcasecmp)
}

fn strcasecmp<'v>(a: Value<'v>, b: Value<'v>) -> Result<Value<'v>> {
    let uppercase = |value| Ok(text::text_of(value)?.to_ascii_uppercase());
    let (a, b): (Result<String>, Result<String>) = (uppercase(&a), uppercase(&b));
    Ok((a?.cmp(&b?) as i32).into())
}
