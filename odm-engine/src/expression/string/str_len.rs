//! `$strLenBytes`, `$strLenCP`: the length of a string in bytes of UTF-8 or in code points.
//!
//! ```text
//! { "$strLenBytes": "café" } → 5
//! { "$strLenCP": "café" } → 4
//! ```

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

pub(super) fn parse_bytes(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|text| string_length("$strLenBytes", &text, 34473, str::len))
}

pub(super) fn parse_cp(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|text| string_length("$strLenCP", &text, 34471, |text| text.chars().count()))
}

fn string_length(
    name: &str,
    value: &Value<'_>,
    code: i32,
    length: fn(&str) -> usize,
) -> Result<Value<'static>> {
    let text = value.as_text().ok_or_else(|| {
        let type_name = value.type_name();
        Error::with_server_code(code, format!("{name} takes a string, not {type_name}"))
    })?;
    // The length of a BSON string fits into 32 bits.
    Ok(i32::try_from(length(text)).unwrap_or(i32::MAX).into())
}
