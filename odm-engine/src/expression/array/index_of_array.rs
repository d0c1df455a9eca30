//! `$indexOfArray`: the position of the first element that equals a value, in the whole array or
//! from a position up to, but without, another. Without such an element it is −1.
//!
//! ```text
//! { "$indexOfArray": [["a", "b", "a"], "a"] } → 0
//! { "$indexOfArray": [["a", "b", "a"], "a", 1] } → 2
//! { "$indexOfArray": [["a", "b", "a"], "a", 1, 2] } → -1
//! { "$indexOfArray": [null, 1] } → null
//! ```

use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.ranged(2..=4, index_of_array)
}

fn index_of_array(operands: Vec<Value<'_>>) -> Result<Value<'_>> {
    let [array, wanted, range @ ..] = operands.as_slice() else {
        return Ok(Value::NULL);
    };
    if array.is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(items) = array.array() else {
        let found = array.type_name();
        let message = format!("the first operand of $indexOfArray is an array, not {found}");
        return Err(Error::server(40090, message));
    };
    let (start, end) = search_range("$indexOfArray", range)?;
    let mut items = value::items(items).enumerate().take(end).skip(start);
    let found = items.find(|(_, item)| Value::from(*item).compare(wanted).is_eq());
    Ok(position(found.map(|(index, _)| index)))
}

/// Where to search, from the operands that may say so: the start, and the end if there is one.
pub(in crate::expression) fn search_range(
    name: &str,
    operands: &[Value<'_>],
) -> Result<(usize, usize)> {
    let bound = |operand: &Value<'_>| {
        let whole = operand.int32().ok_or_else(|| {
            let message = format!("{name} searches between whole numbers of 32 bits");
            Error::server(40096, message)
        })?;
        usize::try_from(whole).map_err(|_| {
            let message = format!("{name} searches from a position that is not negative");
            Error::server(40097, message)
        })
    };
    let start = operands.first().map_or(Ok(0), bound)?;
    let end = operands.get(1).map_or(Ok(usize::MAX), bound)?;
    Ok((start, end))
}

/// What was found where, as a value.
pub(in crate::expression) fn position(found: Option<usize>) -> Value<'static> {
    // Positions are smaller than the size of a document, so that they fit.
    found
        .and_then(|at| i32::try_from(at).ok())
        .unwrap_or(-1)
        .into()
}
