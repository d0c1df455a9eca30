//! `$concat`: several strings, one after the other.
//!
//! ```text
//! { "$concat": ["a", "b", "c"] } → "abc"
//! { "$concat": ["a", null] } → null
//! ```

use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::value::growth;
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.associative(concat)
}

fn concat(strings: Vec<Value<'_>>) -> Result<Value<'_>> {
    let mut all = String::new();
    for string in &strings {
        if string.is_nullish() {
            return Ok(Value::NULL);
        }
        let text = string.text().ok_or_else(|| {
            let found = string.type_name();
            Error::server(16702, format!("$concat takes strings, not {found}"))
        })?;
        growth::check_size(all.len() + text.len())?;
        all.push_str(text);
    }
    Ok(all.into())
}
