//! `$split`: the parts of a string between the occurrences of a separator.
//!
//! ```text
//! { "$split": ["a-b-c", "-"] } → ["a", "b", "c"]
//! { "$split": ["abc", "-"] } → ["abc"]
//! { "$split": [null, "-"] } → null
//! ```

use bson::RawArrayBuf;

use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.binary(split)
}

fn split<'v>(text: Value<'v>, separator: Value<'v>) -> Result<Value<'v>> {
    if text.is_nullish() || separator.is_nullish() {
        return Ok(Value::NULL);
    }
    let text = string(&text, "first", 40085)?;
    let separator = string(&separator, "second", 40086)?;
    if separator.is_empty() {
        let message = "the separator of $split is not empty";
        return Err(Error::server(40087, message));
    }
    Ok(text.split(separator).collect::<RawArrayBuf>().into())
}

fn string<'o>(value: &'o Value<'_>, which: &str, code: i32) -> Result<&'o str> {
    value.text().ok_or_else(|| {
        let found = value.type_name();
        let message = format!("the {which} operand of $split is a string, not {found}");
        Error::server(code, message)
    })
}
