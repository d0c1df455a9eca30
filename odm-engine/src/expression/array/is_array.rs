//! `$isArray`: whether a value is an array.
//!
//! ```text
//! { "$isArray": [[1, 2]] } → true
//! { "$isArray": ["x"] } → false
//! ```

use crate::Result;
use crate::expression::call::Call;
use crate::expression::{Expression, Value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.unary(is_array)
}

fn is_array(value: Value<'_>) -> Result<Value<'_>> {
    Ok(value.array().is_some().into())
}
