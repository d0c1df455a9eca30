//! `$in`: whether a value is an element of an array.
//!
//! ```text
//! { "$in": [2, [1, 2, 3]] } → true
//! { "$in": ["x", []] } → false
//! ```

use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.binary(is_in)
}

fn is_in<'v>(wanted: Value<'v>, array: Value<'v>) -> Result<Value<'v>> {
    let items = array.array().ok_or_else(|| {
        let found = array.type_name();
        let message = format!("the second operand of $in is an array, not {found}");
        Error::server(40081, message)
    })?;
    let found = value::items(items).any(|item| Value::from(item).compare(&wanted).is_eq());
    Ok(found.into())
}
