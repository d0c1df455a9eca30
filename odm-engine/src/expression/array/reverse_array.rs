//! `$reverseArray`: the elements of an array from the last to the first.
//!
//! ```text
//! { "$reverseArray": [[1, 2, 3]] } → [3, 2, 1]
//! { "$reverseArray": null } → null
//! ```

use bson::RawArrayBuf;

use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.unary(reverse_array)
}

fn reverse_array(array: Value<'_>) -> Result<Value<'_>> {
    if array.is_nullish() {
        return Ok(Value::NULL);
    }
    let items = array.array().ok_or_else(|| {
        let found = array.type_name();
        Error::server(34435, format!("$reverseArray takes an array, not {found}"))
    })?;
    let items: Vec<_> = value::items(items).collect();
    Ok(items.into_iter().rev().collect::<RawArrayBuf>().into())
}
