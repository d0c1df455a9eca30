//! `$indexOfCP`: the code point position of the first occurrence of a substring, or −1. The
//! optional third and fourth operands limit the start of a match.
//!
//! ```text
//! { "$indexOfCP": ["héllo", "l"] } → 2
//! { "$indexOfCP": ["hello", "l", 3] } → 3
//! { "$indexOfCP": ["hello", "lo", 0, 3] } → -1
//! { "$indexOfCP": [null, "x"] } → null
//! ```

use super::index_of_bytes::read_search_strings;
use crate::Result;
use crate::expression::array::{position_or_minus_one, search_range};
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};

pub(super) fn parse_index_of_cp(call: &OperatorCall<'_>) -> Result<Expression> {
    call.bounded_variadic(2..=4, index_of_cp)
}

fn index_of_cp(operands: Vec<Value<'_>>) -> Result<Value<'_>> {
    let Some((text, token, range)) = read_search_strings("$indexOfCP", &operands, [40093, 40094])?
    else {
        return Ok(Value::NULL);
    };
    let (start, end) = search_range("$indexOfCP", range)?;
    // MongoDB finds no empty substring after the last code point, except in an empty string.
    if text.is_empty() && token.is_empty() && start == 0 {
        return Ok(0.into());
    }
    let mut places = text.char_indices().enumerate().take(end).skip(start);
    let entry = places.find(|(_, (byte, _))| {
        let rest = text.get(*byte..);
        rest.is_some_and(|rest| rest.starts_with(token))
    });
    Ok(position_or_minus_one(entry.map(|(index, _)| index)))
}
