//! What operators on numbers have in common.

use super::Value;
use crate::value::Number;
use crate::{Error, Result};

/// What a function gives for a number. Null and missing values give null.
///
/// # Errors
/// Not a number (code 28765); what the function fails with.
pub(super) fn numeric<'v>(
    name: &str,
    value: &Value<'_>,
    function: impl FnOnce(Number) -> Result<Value<'v>>,
) -> Result<Value<'v>> {
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    match value.number() {
        Some(number) => function(number),
        None => {
            let message = format!("{name} takes a number, not {}", value.type_name());
            Err(Error::server(28765, message))
        }
    }
}

/// A whole number as an int if it fits into one, else as a long.
pub(super) fn int_or_long(number: i64) -> Value<'static> {
    match i32::try_from(number) {
        Ok(small) => small.into(),
        Err(_) => number.into(),
    }
}
