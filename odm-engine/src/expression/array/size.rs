//! `$size`: how many elements an array has.
//!
//! ```text
//! { "$size": [[1, 2, 3]] } → 3
//! { "$size": [[]] } → 0
//! ```

use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.unary(size)
}

fn size(array: Value<'_>) -> Result<Value<'_>> {
    let items = array.array().ok_or_else(|| {
        let found = array.type_name();
        Error::server(17124, format!("$size takes an array, not {found}"))
    })?;
    let count = value::items(items).count();
    // An array fits into memory, and its elements take more than one byte each.
    Ok(i32::try_from(count).unwrap_or(i32::MAX).into())
}
