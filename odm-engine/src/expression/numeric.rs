//! Helpers of the operators on numbers.

use super::Value;
use crate::value::Number;
use crate::{Error, Result};

/// Applies a function to a number. Null and missing values give null.
///
/// # Errors
/// The value is not a number (code 28765), or the function fails.
pub(super) fn apply_to_number<'v>(
    name: &str,
    value: &Value<'_>,
    function: impl FnOnce(Number) -> Result<Value<'v>>,
) -> Result<Value<'v>> {
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    match value.as_number() {
        Some(number) => function(number),
        None => {
            let message = format!("{name} takes a number, not {}", value.type_name());
            Err(Error::with_server_code(28765, message))
        }
    }
}

/// Returns a whole number as an int if possible, else as a long.
pub(super) fn int_or_long(number: i64) -> Value<'static> {
    match i32::try_from(number) {
        Ok(small) => small.into(),
        Err(_) => number.into(),
    }
}
