//! `$first`, `$last`: an element at an end of an array. An empty array has none.
//!
//! ```text
//! { "$first": [[1, 2, 3]] } → 1
//! { "$last": [[1, 2, 3]] } → 3
//! { "$first": [[]] } → missing
//! { "$last": null } → null
//! ```

use super::array_elem_at::element;
use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

pub(super) fn parse_first(call: &Call<'_>) -> Result<Expression> {
    call.unary(|array| end("$first", array, 0))
}

pub(super) fn parse_last(call: &Call<'_>) -> Result<Expression> {
    call.unary(|array| end("$last", array, -1))
}

fn end<'v>(name: &str, array: Value<'v>, position: i32) -> Result<Value<'v>> {
    if array.is_nullish() {
        return Ok(Value::NULL);
    }
    if array.array().is_none() {
        let found = array.type_name();
        let message = format!("{name} takes an array, not {found}");
        return Err(Error::server(28689, message));
    }
    Ok(element(array, position))
}
