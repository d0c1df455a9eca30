//! `$mergeObjects`: the fields of several documents. If a field occurs several times, the last
//! value wins.
//!
//! ```text
//! { "$mergeObjects": [{ "a": 1, "b": 2 }, null, { "a": 3, "c": 4 }] } → { "a": 3, "b": 2, "c": 4 }
//! { "$mergeObjects": [[{ "a": 1 }, { "b": 2 }]] } → { "a": 1, "b": 2 }
//! { "$mergeObjects": null } → {}
//! ```

use bson::RawBsonRef;

use super::DocumentBuilder;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse_merge_objects(call: &OperatorCall<'_>) -> Result<Expression> {
    call.variadic(merge_objects)
}

fn merge_objects(objects: Vec<Value<'_>>) -> Result<Value<'_>> {
    // A single operand may be an array of documents.
    let objects: Vec<RawBsonRef<'_>> = match objects.as_slice() {
        [object] => match object.as_array() {
            Some(array) => value::items(array).collect(),
            None => vec![object.or_null()],
        },
        objects => objects.iter().map(Value::or_null).collect(),
    };
    let mut merged = DocumentBuilder::default();
    for object in objects {
        if matches!(object, RawBsonRef::Null | RawBsonRef::Undefined) {
            continue;
        }
        let document = object.as_document().ok_or_else(|| {
            let type_name = value::type_name(object);
            Error::with_server_code(
                40400,
                format!("$mergeObjects takes documents, not {type_name}"),
            )
        })?;
        for (name, value) in value::fields(document) {
            merged.set_field(name, value);
        }
    }
    Ok(merged.into_document().into())
}
