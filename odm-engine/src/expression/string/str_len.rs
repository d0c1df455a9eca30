//! `$strLenBytes`, `$strLenCP`: the length of a string in bytes of UTF-8 or in code points.
//!
//! ```text
//! { "$strLenBytes": "café" } → 5
//! { "$strLenCP": "café" } → 4
//! ```

use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

pub(super) fn parse_bytes(call: &Call<'_>) -> Result<Expression> {
    call.unary(|text| length("$strLenBytes", &text, 34473, str::len))
}

pub(super) fn parse_cp(call: &Call<'_>) -> Result<Expression> {
    call.unary(|text| length("$strLenCP", &text, 34471, |text| text.chars().count()))
}

fn length(
    name: &str,
    value: &Value<'_>,
    code: i32,
    length: fn(&str) -> usize,
) -> Result<Value<'static>> {
    let text = value.text().ok_or_else(|| {
        let found = value.type_name();
        Error::server(code, format!("{name} takes a string, not {found}"))
    })?;
    // BSON has no longer strings.
    Ok(i32::try_from(length(text)).unwrap_or(i32::MAX).into())
}
