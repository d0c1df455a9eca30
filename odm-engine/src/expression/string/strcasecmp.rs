//! `$strcasecmp`: the order of two strings, with ASCII letters of either case the same: −1, 0 or 1.
//!
//! ```text
//! { "$strcasecmp": ["abc", "ABC"] } → 0
//! { "$strcasecmp": ["a", "B"] } → -1
//! { "$strcasecmp": [7, null] } → 1
//! ```

use super::text;
use crate::Result;
use crate::expression::call::Call;
use crate::expression::{Expression, Value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.binary(strcasecmp)
}

fn strcasecmp<'v>(a: Value<'v>, b: Value<'v>) -> Result<Value<'v>> {
    let upper = |value| Ok(text::of(value)?.to_ascii_uppercase());
    let (a, b): (Result<String>, Result<String>) = (upper(&a), upper(&b));
    Ok((a?.cmp(&b?) as i32).into())
}
