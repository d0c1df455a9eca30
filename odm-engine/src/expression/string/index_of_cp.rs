//! `$indexOfCP`: at which code point of a string another one begins first, if it begins between the
//! third and the fourth operand. −1 if it does not.
//!
//! ```text
//! { "$indexOfCP": ["héllo", "l"] } → 2
//! { "$indexOfCP": ["hello", "l", 3] } → 3
//! { "$indexOfCP": ["hello", "lo", 0, 3] } → -1
//! { "$indexOfCP": [null, "x"] } → null
//! ```

use super::index_of_bytes::strings;
use crate::Result;
use crate::expression::array::{position, search_range};
use crate::expression::call::Call;
use crate::expression::{Expression, Value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.ranged(2..=4, index_of_cp)
}

fn index_of_cp(operands: Vec<Value<'_>>) -> Result<Value<'_>> {
    let Some((text, token, range)) = strings("$indexOfCP", &operands, [40093, 40094])? else {
        return Ok(Value::NULL);
    };
    let (start, end) = search_range("$indexOfCP", range)?;
    // MongoDB finds nothing behind the last code point, except for nothing in nothing.
    if text.is_empty() && token.is_empty() && start == 0 {
        return Ok(0.into());
    }
    let mut places = text.char_indices().enumerate().take(end).skip(start);
    let found = places.find(|(_, (byte, _))| {
        let rest = text.get(*byte..);
        rest.is_some_and(|rest| rest.starts_with(token))
    });
    Ok(position(found.map(|(index, _)| index)))
}
