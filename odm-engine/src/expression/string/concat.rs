//! `$concat`: the concatenation of several strings.
//!
//! ```text
//! { "$concat": ["a", "b", "c"] } → "abc"
//! { "$concat": ["a", null] } → null
//! ```

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::value::growth;
use crate::{Error, Result};

pub(super) fn parse_concat(call: &OperatorCall<'_>) -> Result<Expression> {
    call.associative(concat_strings)
}

fn concat_strings(strings: Vec<Value<'_>>) -> Result<Value<'_>> {
    let mut all = String::new();
    for string in &strings {
        if string.is_nullish() {
            return Ok(Value::NULL);
        }
        let text = string.as_text().ok_or_else(|| {
            let type_name = string.type_name();
            Error::with_server_code(16702, format!("$concat takes strings, not {type_name}"))
        })?;
        growth::check_size(all.len() + text.len())?;
        all.push_str(text);
    }
    Ok(all.into())
}
