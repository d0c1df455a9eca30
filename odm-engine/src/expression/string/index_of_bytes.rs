//! `$indexOfBytes`: at which byte of a string another one begins first, if it lies between the
//! third and the fourth operand. −1 if it does not.
//!
//! ```text
//! { "$indexOfBytes": ["héllo", "l"] } → 3
//! { "$indexOfBytes": ["hello", "l", 3] } → 3
//! { "$indexOfBytes": ["hello", "lo", 0, 4] } → -1
//! { "$indexOfBytes": [null, "x"] } → null
//! ```

use crate::expression::array::{position, search_range};
use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.ranged(2..=4, index_of_bytes)
}

fn index_of_bytes(operands: Vec<Value<'_>>) -> Result<Value<'_>> {
    let Some((text, token, range)) = strings("$indexOfBytes", &operands, [40091, 40092])? else {
        return Ok(Value::NULL);
    };
    let (start, end) = search_range("$indexOfBytes", range)?;
    let text = text.as_bytes();
    // The operands may cut a character apart.
    let searched = text.get(start..end.min(text.len()));
    Ok(position(searched.and_then(|searched| {
        let found = find(searched, token.as_bytes())?;
        Some(start + found)
    })))
}

/// The string to search, what to search for, and the operands behind them; `None` if there is no
/// string to search. The codes are those for either of them not being a string.
pub(super) fn strings<'o>(
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
    let string = |operand: &'o Value<'_>, which, code| {
        operand.text().ok_or_else(|| {
            let found = operand.type_name();
            let message = format!("the {which} operand of {name} is a string, not {found}");
            Error::server(code, message)
        })
    };
    let [first, second] = codes;
    let text = string(text, "first", first)?;
    Ok(Some((text, string(token, "second", second)?, range)))
}

fn find(text: &[u8], token: &[u8]) -> Option<usize> {
    if token.is_empty() {
        return Some(0);
    }
    text.windows(token.len()).position(|window| window == token)
}
