//! `$split`: the parts of a string between the occurrences of a separator.
//!
//! ```text
//! { "$split": ["a-b-c", "-"] } → ["a", "b", "c"]
//! { "$split": ["abc", "-"] } → ["abc"]
//! { "$split": [null, "-"] } → null
//! ```

use bson::RawArrayBuf;

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

pub(super) fn parse_split(call: &OperatorCall<'_>) -> Result<Expression> {
    call.binary(split_string)
}

fn split_string<'v>(text: Value<'v>, separator: Value<'v>) -> Result<Value<'v>> {
    if text.is_nullish() || separator.is_nullish() {
        return Ok(Value::NULL);
    }
    let text = require_string(&text, "first", 40085)?;
    let separator = require_string(&separator, "second", 40086)?;
    if separator.is_empty() {
        let message = "the separator of $split must not be empty";
        return Err(Error::with_server_code(40087, message));
    }
    Ok(text.split(separator).collect::<RawArrayBuf>().into())
}

fn require_string<'o>(value: &'o Value<'_>, ordinal: &str, code: i32) -> Result<&'o str> {
    value.as_text().ok_or_else(|| {
        let type_name = value.type_name();
        let message = format!("the {ordinal} operand of $split must be a string, not {type_name}");
        Error::with_server_code(code, message)
    })
}
