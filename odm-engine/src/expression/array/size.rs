//! `$size`: the number of elements of an array.
//!
//! ```text
//! { "$size": [[1, 2, 3]] } → 3
//! { "$size": [[]] } → 0
//! ```

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse_size(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(array_size)
}

fn array_size(array: Value<'_>) -> Result<Value<'_>> {
    let items = array.as_array().ok_or_else(|| {
        let type_name = array.type_name();
        Error::with_server_code(17124, format!("$size takes an array, not {type_name}"))
    })?;
    let count = value::items(items).count();
    // Each element takes more than one byte and the array fits into memory, so the count fits into
    // 32 bits.
    Ok(i32::try_from(count).unwrap_or(i32::MAX).into())
}
