//! `$replaceOne`, `$replaceAll`: a string with the first or every occurrence of a substring
//! replaced.
//!
//! ```text
//! { "$replaceOne": { "input": "a-b-c", "find": "-", "replacement": "+" } } → "a+b-c"
//! { "$replaceAll": { "input": "a-b-c", "find": "-", "replacement": "+" } } → "a+b+c"
//! { "$replaceAll": { "input": null, "find": "-", "replacement": "+" } } → null
//! ```

use crate::expression::call::{FunctionOf, OperatorCall};
use crate::expression::{Expression, Value};
use crate::value::growth;
use crate::{Error, Result};

pub(super) fn parse_replace_one(call: &OperatorCall<'_>) -> Result<Expression> {
    parse_with(call, |operands| {
        replace_in(operands, |input, find, replacement| {
            growth::check_size(input.len() + replacement.len())?;
            Ok(input.replacen(find, replacement, 1))
        })
    })
}

pub(super) fn parse_replace_all(call: &OperatorCall<'_>) -> Result<Expression> {
    parse_with(call, |operands| {
        replace_in(operands, |input, find, replacement| {
            let added = input
                .matches(find)
                .count()
                .saturating_mul(replacement.len());
            growth::check_size(added.saturating_add(input.len()))?;
            Ok(input.replace(find, replacement))
        })
    })
}

fn parse_with(call: &OperatorCall<'_>, function: FunctionOf<3>) -> Result<Expression> {
    let arguments = call.named_arguments(&["find", "input", "replacement"], 51751, 51750)?;
    let input = arguments.required_expression("input", 51749)?;
    let find = arguments.required_expression("find", 51748)?;
    let replacement = arguments.required_expression("replacement", 51747)?;
    call.fixed_function([input, find, replacement], function)
}

fn replace_in<'v>(
    operands: [Value<'v>; 3],
    replace: fn(&str, &str, &str) -> Result<String>,
) -> Result<Value<'v>> {
    let [input, find, replacement] = &operands;
    let texts = (
        string_or_null(input, "input", 51746)?,
        string_or_null(find, "find", 51745)?,
        string_or_null(replacement, "replacement", 51744)?,
    );
    let (Some(input), Some(find), Some(replacement)) = texts else {
        return Ok(Value::NULL);
    };
    Ok(replace(input, find, replacement)?.into())
}

/// Returns the string, or `None` for null.
fn string_or_null<'o>(value: &'o Value<'_>, name: &str, code: i32) -> Result<Option<&'o str>> {
    if value.is_nullish() {
        return Ok(None);
    }
    value.as_text().map(Some).ok_or_else(|| {
        let message = format!("'{name}' must be a string, not {}", value.type_name());
        Error::with_server_code(code, message)
    })
}
