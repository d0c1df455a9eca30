//! `$indexOfBytes`: the byte position of the first occurrence of a substring, or −1. The optional
//! third and fourth operands limit the search.
//!
//! ```text
//! { "$indexOfBytes": ["héllo", "l"] } → 3
//! { "$indexOfBytes": ["hello", "l", 3] } → 3
//! { "$indexOfBytes": ["hello", "lo", 0, 4] } → -1
//! { "$indexOfBytes": [null, "x"] } → null
//! ```

use crate::expression::array::{position_or_minus_one, search_range};
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

pub(super) fn parse_index_of_bytes(call: &OperatorCall<'_>) -> Result<Expression> {
    call.bounded_variadic(2..=4, index_of_bytes)
}

fn index_of_bytes(operands: Vec<Value<'_>>) -> Result<Value<'_>> {
    let Some((text, token, range)) =
        read_search_strings("$indexOfBytes", &operands, [40091, 40092])?
    else {
        return Ok(Value::NULL);
    };
    let (start, end) = search_range("$indexOfBytes", range)?;
    let text = text.as_bytes();
    // The range may cut a character, so the search compares bytes.
    let substring = text.get(start..end.min(text.len()));
    Ok(position_or_minus_one(substring.and_then(|substring| {
        let position = find_bytes(substring, token.as_bytes())?;
        Some(start + position)
    })))
}

/// Reads the string to search, the substring, and the remaining operands. `None` if the string is
/// null.
///
/// `codes` are for a first and a second operand that is not a string.
pub(super) fn read_search_strings<'o>(
    name: &str,
    operands: &'o [Value<'_>],
    codes: [i32; 2],
) -> Result<Option<(&'o str, &'o str, &'o [Value<'o>])>> {
    let [text, token, range @ ..] = operands else {
        return Ok(None);
    };
    if text.is_nullish() {
        return Ok(None);
    }
    let string = |operand: &'o Value<'_>, ordinal, code| {
        operand.as_text().ok_or_else(|| {
            let type_name = operand.type_name();
            let message =
                format!("the {ordinal} operand of {name} must be a string, not {type_name}");
            Error::with_server_code(code, message)
        })
    };
    let [first, second] = codes;
    let text = string(text, "first", first)?;
    Ok(Some((text, string(token, "second", second)?, range)))
}

fn find_bytes(text: &[u8], token: &[u8]) -> Option<usize> {
    if token.is_empty() {
        return Some(0);
    }
    text.windows(token.len()).position(|window| window == token)
}
