//! `$binarySize`: the size in bytes of binary data, or of a string in UTF-8.
//!
//! ```text
//! { "$binarySize": "é" } → 2
//! { "$binarySize": { "$binary": { "base64": "AQID", "subType": "00" } } } → 3
//! { "$binarySize": null } → null
//! ```

use bson::RawBsonRef;
use bson::spec::BinarySubtype;

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

pub(super) fn parse_binary_size(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(binary_size)
}

fn binary_size(value: Value<'_>) -> Result<Value<'_>> {
    let size = match value.as_bson() {
        None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => return Ok(Value::NULL),
        Some(RawBsonRef::String(text)) => text.len(),
        // The old generic subtype stores its length twice, and the server counts both.
        Some(RawBsonRef::Binary(binary)) if binary.subtype == BinarySubtype::BinaryOld => {
            binary.bytes.len() + 4
        }
        Some(RawBsonRef::Binary(binary)) => binary.bytes.len(),
        Some(_) => {
            let type_name = value.type_name();
            let message = format!("$binarySize takes a string or binary data, not {type_name}");
            return Err(Error::with_server_code(51276, message));
        }
    };
    Ok(i32::try_from(size).unwrap_or(i32::MAX).into())
}
