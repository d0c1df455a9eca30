//! `$objectToArray`: the fields of a document as documents `{ k: name, v: value }`.
//!
//! ```text
//! { "$objectToArray": { "a": 1, "b": 2 } } → [{ "k": "a", "v": 1 }, { "k": "b", "v": 2 }]
//! { "$objectToArray": null } → null
//! ```

use bson::{RawArrayBuf, RawDocumentBuf};

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result, document, value};

pub(super) fn parse_object_to_array(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(object_to_array)
}

fn object_to_array(object: Value<'_>) -> Result<Value<'_>> {
    if object.is_nullish() {
        return Ok(Value::NULL);
    }
    let fields = object.as_document().ok_or_else(|| {
        let type_name = object.type_name();
        let message = format!("$objectToArray takes a document, not {type_name}");
        Error::with_server_code(40390, message)
    })?;
    let mut array = RawArrayBuf::new();
    for (name, value) in value::fields(fields) {
        let mut pair = RawDocumentBuf::new();
        document::append_field(&mut pair, "k", name);
        document::append_field(&mut pair, "v", value);
        array.push(pair);
    }
    Ok(array.into())
}
