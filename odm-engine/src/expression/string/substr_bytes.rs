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
use crate::value::Number;
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
    // A negative length asks for the rest, whatever comes after it.
    let end = usize::try_from(length).map_or(text.len(), |length| start.saturating_add(length));
    let is_cut = |at| at < text.len() && !text.is_char_boundary(at);
    if is_cut(start) {
        let message = "a part of a string cannot begin inside of a character";
        return Err(Error::server(28656, message));
    }
    if is_cut(end) {
        let message = "a part of a string cannot end inside of a character";
        return Err(Error::server(28657, message));
    }
    Ok(text
        .get(start..end.min(text.len()))
        .unwrap_or_default()
        .to_owned()
        .into())
}

/// A number as MongoDB makes a whole one of it: doubles are rounded towards zero, decimals to the
/// nearest one, and what is no number of 64 bits as a decimal is the smallest.
fn long(value: &Value<'_>, no_number: i32) -> Result<i64> {
    let number = value.number().ok_or_else(|| {
        let found = value.type_name();
        let message = format!("the place of a part of a string is a number, not {found}");
        Error::server(no_number, message)
    })?;
    if let Number::Decimal(decimal) = number {
        let nearest = Number::Double(decimal.to_double().round_ties_even());
        return Ok(number.whole().or(nearest.truncated()).unwrap_or(i64::MIN));
    }
    number.truncated().ok_or_else(|| {
        let message = "the place of a part of a string is a number of 64 bits";
        Error::server(31109, message)
    })
}
