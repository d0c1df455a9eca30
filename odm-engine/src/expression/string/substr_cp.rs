//! `$substrCP`: a substring by start and length in code points.
//!
//! ```text
//! { "$substrCP": ["héllo", 1, 3] } → "éll"
//! { "$substrCP": ["héllo", 4, 9] } → "o"
//! { "$substrCP": [null, 0, 1] } → ""
//! ```

use super::text;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

pub(super) fn parse_substr_cp(call: &OperatorCall<'_>) -> Result<Expression> {
    call.ternary(substr_cp)
}

fn substr_cp<'v>(text: Value<'v>, start: Value<'v>, length: Value<'v>) -> Result<Value<'v>> {
    let text = text::text_of(&text)?;
    let start = read_integer("start", &start, 34450, 34451)?;
    let length = read_integer("length", &length, 34452, 34453)?;
    let negative = |name| format!("the {name} of $substrCP must not be negative");
    let length =
        usize::try_from(length).map_err(|_| Error::with_server_code(34454, negative("length")))?;
    let start =
        usize::try_from(start).map_err(|_| Error::with_server_code(34455, negative("start")))?;
    let part: String = text.chars().skip(start).take(length).collect();
    Ok(part.into())
}

fn read_integer(name: &str, value: &Value<'_>, no_number: i32, too_long: i32) -> Result<i32> {
    if value.as_number().is_none() {
        let type_name = value.type_name();
        let message = format!("the {name} of $substrCP must be a number, not {type_name}");
        return Err(Error::with_server_code(no_number, message));
    }
    value.as_int32().ok_or_else(|| {
        let message = format!("the {name} of $substrCP must be a whole number of 32 bits");
        Error::with_server_code(too_long, message)
    })
}
