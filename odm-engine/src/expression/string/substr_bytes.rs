//! `$substrBytes`, `$substr`: a substring by start byte and length in bytes. A negative length
//! takes the rest.
//!
//! ```text
//! { "$substrBytes": ["hello", 1, 3] } → "ell"
//! { "$substr": ["hello", 1, -1] } → "ello"
//! { "$substrBytes": [null, 0, 1] } → ""
//! ```

use super::text;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse_substr_bytes(call: &OperatorCall<'_>) -> Result<Expression> {
    call.ternary(substr_bytes)
}

fn substr_bytes<'v>(text: Value<'v>, start: Value<'v>, length: Value<'v>) -> Result<Value<'v>> {
    let text = text::text_of(&text)?;
    let start = read_long(&start, 16034)?;
    let length = read_long(&length, 16035)?;
    let Ok(start) = usize::try_from(start) else {
        let message = "the start of a substring must not be negative";
        return Err(Error::with_server_code(50752, message));
    };
    // A negative length takes the rest of the string.
    let end = usize::try_from(length).map_or(text.len(), |length| start.saturating_add(length));
    let is_cut = |at| at < text.len() && !text.is_char_boundary(at);
    if is_cut(start) {
        let message = "a substring cannot start inside of a character";
        return Err(Error::with_server_code(28656, message));
    }
    if is_cut(end) {
        let message = "a substring cannot end inside of a character";
        return Err(Error::with_server_code(28657, message));
    }
    Ok(text
        .get(start..end.min(text.len()))
        .unwrap_or_default()
        .to_owned()
        .into())
}

/// Converts a number to a long as MongoDB does here: doubles are truncated, decimals are rounded to
/// the nearest whole number.
///
/// A decimal out of range becomes the smallest long.
fn read_long(value: &Value<'_>, no_number: i32) -> Result<i64> {
    let number = value.as_number().ok_or_else(|| {
        let type_name = value.type_name();
        let message =
            format!("the start and the length of a substring must be numbers, not {type_name}");
        Error::with_server_code(no_number, message)
    })?;
    if let Number::Decimal(decimal) = number {
        let rounded = Number::Double(decimal.to_double().round_ties_even());
        return Ok(number
            .whole_long()
            .or(rounded.truncated_long())
            .unwrap_or(i64::MIN));
    }
    number.truncated_long().ok_or_else(|| {
        let message = "the start and the length of a substring must fit into 64 bits";
        Error::with_server_code(31109, message)
    })
}
