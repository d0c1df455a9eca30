//! `$substrBytes`, `$substr`: the part of a string from a byte on that is so many bytes long, up to
//! its end if the length is negative.
//!
//! ```text
//! { "$substrBytes": ["hello", 1, 3] } → "ell"
//! { "$substr": ["hello", 1, -1] } → "ello"
//! { "$substrBytes": [null, 0, 1] } → ""
//! ```

use super::text;
use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.ternary(substr_bytes)
}

fn substr_bytes<'v>(text: Value<'v>, start: Value<'v>, length: Value<'v>) -> Result<Value<'v>> {
    let text = text::of(&text)?;
    let start = long(&start, 16034)?;
    let length = long(&length, 16035)?;
    let Ok(start) = usize::try_from(start) else {
        let message = "a part of a string cannot begin at a negative position";
        return Err(Error::server(50752, message));
    };
    // As on MongoDB, a negative length wraps around before it is checked for a character's end.
    let end = start.wrapping_add_signed(length as isize);
    let is_cut = |at| at < text.len() && !text.is_char_boundary(at);
    if is_cut(start) {
        let message = "a part of a string cannot begin inside of a character";
        return Err(Error::server(28656, message));
    }
    if is_cut(end) {
        let message = "a part of a string cannot end inside of a character";
        return Err(Error::server(28657, message));
    }
    let end = if length < 0 {
        text.len()
    } else {
        end.min(text.len())
    };
    Ok(text.get(start..end).unwrap_or_default().to_owned().into())
}

/// A number, rounded towards zero.
fn long(value: &Value<'_>, no_number: i32) -> Result<i64> {
    let number = value.number().ok_or_else(|| {
        let found = value.type_name();
        let message = format!("the place of a part of a string is a number, not {found}");
        Error::server(no_number, message)
    })?;
    number.truncated().ok_or_else(|| {
        let message = "the place of a part of a string is a number of 64 bits";
        Error::server(31109, message)
    })
}
