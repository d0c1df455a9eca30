//! `$indexOfArray`: the position of the first element that equals a value, or −1. The search can be
//! limited to a range whose end is excluded.
//!
//! ```text
//! { "$indexOfArray": [["a", "b", "a"], "a"] } → 0
//! { "$indexOfArray": [["a", "b", "a"], "a", 1] } → 2
//! { "$indexOfArray": [["a", "b", "a"], "a", 1, 2] } → -1
//! { "$indexOfArray": [null, 1] } → null
//! ```

use crate::collation::ValueOrder;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse_index_of_array(call: &OperatorCall<'_>) -> Result<Expression> {
    call.ordered_bounded_variadic(2..=4, index_of_array)
}

fn index_of_array<'v>(order: &ValueOrder, operands: Vec<Value<'v>>) -> Result<Value<'v>> {
    let [array, element, range @ ..] = operands.as_slice() else {
        return Ok(Value::NULL);
    };
    if array.is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(items) = array.as_array() else {
        let type_name = array.type_name();
        let message =
            format!("the first operand of $indexOfArray must be an array, not {type_name}");
        return Err(Error::with_server_code(40090, message));
    };
    let (start, end) = search_range("$indexOfArray", range)?;
    let mut items = value::items(items).enumerate().take(end).skip(start);
    let entry = items.find(|(_, item)| Value::from(*item).compare(element, order).is_eq());
    Ok(position_or_minus_one(entry.map(|(index, _)| index)))
}

/// Reads the optional operands that limit a search: start, and excluded end.
pub(in crate::expression) fn search_range(
    name: &str,
    operands: &[Value<'_>],
) -> Result<(usize, usize)> {
    let bound = |operand: &Value<'_>| {
        let integer = operand.as_int32().ok_or_else(|| {
            let message = format!("the range of {name} must be whole numbers of 32 bits");
            Error::with_server_code(40096, message)
        })?;
        usize::try_from(integer).map_err(|_| {
            let message = format!("the range of {name} must not be negative");
            Error::with_server_code(40097, message)
        })
    };
    let start = operands.first().map_or(Ok(0), bound)?;
    let end = operands.get(1).map_or(Ok(usize::MAX), bound)?;
    Ok((start, end))
}

/// Converts a search result to a position. No match becomes −1.
pub(in crate::expression) fn position_or_minus_one(position: Option<usize>) -> Value<'static> {
    // A document limits the length of strings and arrays, so positions fit into 32 bits.
    position
        .and_then(|at| i32::try_from(at).ok())
        .unwrap_or(-1)
        .into()
}
