//! `$bsonSize`: the size of a document in bytes.
//!
//! ```text
//! { "$bsonSize": { "a": 1 } } → 12
//! { "$bsonSize": null } → null
//! ```

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

pub(super) fn parse_bson_size(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(bson_size)
}

fn bson_size(value: Value<'_>) -> Result<Value<'_>> {
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    match value.as_document() {
        Some(document) => {
            let size = document.as_bytes().len();
            Ok(i32::try_from(size).unwrap_or(i32::MAX).into())
        }
        None => {
            let message = format!("$bsonSize takes a document, not {}", value.type_name());
            Err(Error::with_server_code(31393, message))
        }
    }
}
