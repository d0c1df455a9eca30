//! `$concatArrays`: the concatenation of several arrays.
//!
//! ```text
//! { "$concatArrays": [[1, 2], [], [3]] } → [1, 2, 3]
//! { "$concatArrays": [[1], null] } → null
//! ```

use bson::RawArrayBuf;

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::value::growth;
use crate::{Error, Result, value};

pub(super) fn parse_concat_arrays(call: &OperatorCall<'_>) -> Result<Expression> {
    call.associative(concat_arrays)
}

fn concat_arrays(arrays: Vec<Value<'_>>) -> Result<Value<'_>> {
    let mut all = RawArrayBuf::new();
    for array in &arrays {
        if array.is_nullish() {
            return Ok(Value::NULL);
        }
        let items = array.as_array().ok_or_else(|| {
            let type_name = array.type_name();
            Error::with_server_code(
                28664,
                format!("$concatArrays takes arrays, not {type_name}"),
            )
        })?;
        growth::check_size(all.as_bytes().len() + items.as_bytes().len())?;
        value::items(items).for_each(|item| all.push(item));
    }
    Ok(all.into())
}
