//! `$substrCP`: the part of a string from a code point on that is so many code points long.
//!
//! ```text
//! { "$substrCP": ["héllo", 1, 3] } → "éll"
//! { "$substrCP": ["héllo", 4, 9] } → "o"
//! { "$substrCP": [null, 0, 1] } → ""
//! ```

use super::text;
use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.ternary(substr_cp)
}

fn substr_cp<'v>(text: Value<'v>, start: Value<'v>, length: Value<'v>) -> Result<Value<'v>> {
    let text = text::of(&text)?;
    let start = whole("start", &start, 34450, 34451)?;
    let length = whole("length", &length, 34452, 34453)?;
    let negative = |what| format!("the {what} of $substrCP is not negative");
    let length = usize::try_from(length).map_err(|_| Error::server(34454, negative("length")))?;
    let start = usize::try_from(start).map_err(|_| Error::server(34455, negative("start")))?;
    let part: String = text.chars().skip(start).take(length).collect();
    Ok(part.into())
}

fn whole(what: &str, value: &Value<'_>, no_number: i32, too_long: i32) -> Result<i32> {
    if value.number().is_none() {
        let found = value.type_name();
        let message = format!("the {what} of $substrCP is a number, not {found}");
        return Err(Error::server(no_number, message));
    }
    value.int32().ok_or_else(|| {
        let message = format!("the {what} of $substrCP is a whole number of 32 bits");
        Error::server(too_long, message)
    })
}
