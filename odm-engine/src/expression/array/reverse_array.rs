//! `$reverseArray`: the elements of an array in reverse order.
//!
//! ```text
//! { "$reverseArray": [[1, 2, 3]] } → [3, 2, 1]
//! { "$reverseArray": null } → null
//! ```

use bson::RawArrayBuf;

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse_reverse_array(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(reverse_array)
}

fn reverse_array(array: Value<'_>) -> Result<Value<'_>> {
    if array.is_nullish() {
        return Ok(Value::NULL);
    }
    let items = array.as_array().ok_or_else(|| {
        let type_name = array.type_name();
        Error::with_server_code(
            34435,
            format!("$reverseArray takes an array, not {type_name}"),
        )
    })?;
    let items: Vec<_> = value::items(items).collect();
    Ok(items.into_iter().rev().collect::<RawArrayBuf>().into())
}
