//! `$replaceOne`, `$replaceAll`: a string with another one in the place of the first or of every
//! occurrence of a third one.
//!
//! ```text
//! { "$replaceOne": { "input": "a-b-c", "find": "-", "replacement": "+" } } → "a+b-c"
//! { "$replaceAll": { "input": "a-b-c", "find": "-", "replacement": "+" } } → "a+b+c"
//! { "$replaceAll": { "input": null, "find": "-", "replacement": "+" } } → null
//! ```

use crate::expression::call::{Call, FunctionOf};
use crate::expression::{Expression, Value};
use crate::value::growth;
use crate::{Error, Result};

pub(super) fn parse_one(call: &Call<'_>) -> Result<Expression> {
    with(call, |operands| {
        replace(operands, |input, find, by| {
            growth::check_size(input.len() + by.len())?;
            Ok(input.replacen(find, by, 1))
        })
    })
}

pub(super) fn parse_all(call: &Call<'_>) -> Result<Expression> {
    with(call, |operands| {
        replace(operands, |input, find, by| {
            let added = input.matches(find).count().saturating_mul(by.len());
            growth::check_size(added.saturating_add(input.len()))?;
            Ok(input.replace(find, by))
        })
    })
}

fn with(call: &Call<'_>, function: FunctionOf<3>) -> Result<Expression> {
    let arguments = call.arguments(&["find", "input", "replacement"], 51751, 51750)?;
    let input = arguments.required("input", 51749)?;
    let find = arguments.required("find", 51748)?;
    let replacement = arguments.required("replacement", 51747)?;
    call.function([input, find, replacement], function)
}

fn replace<'v>(
    operands: [Value<'v>; 3],
    replace: fn(&str, &str, &str) -> Result<String>,
) -> Result<Value<'v>> {
    let [input, find, replacement] = &operands;
    let texts = (
        string(input, "input", 51746)?,
        string(find, "find", 51745)?,
        string(replacement, "replacement", 51744)?,
    );
    let (Some(input), Some(find), Some(replacement)) = texts else {
        return Ok(Value::NULL);
    };
    Ok(replace(input, find, replacement)?.into())
}

/// The string, or `None` for null.
fn string<'o>(value: &'o Value<'_>, name: &str, code: i32) -> Result<Option<&'o str>> {
    if value.is_nullish() {
        return Ok(None);
    }
    value.text().map(Some).ok_or_else(|| {
        let message = format!("'{name}' is a string, not {}", value.type_name());
        Error::server(code, message)
    })
}
