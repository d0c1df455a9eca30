//! `$mergeObjects`: the fields of several documents. Of fields with one name the last one counts.
//!
//! ```text
//! { "$mergeObjects": [{ "a": 1, "b": 2 }, null, { "a": 3, "c": 4 }] } → { "a": 3, "b": 2, "c": 4 }
//! { "$mergeObjects": [[{ "a": 1 }, { "b": 2 }]] } → { "a": 1, "b": 2 }
//! { "$mergeObjects": null } → {}
//! ```

use bson::RawBsonRef;

use super::Fields;
use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.variadic(merge_objects)
}

fn merge_objects(objects: Vec<Value<'_>>) -> Result<Value<'_>> {
    // A sole operand may be an array of them.
    let objects: Vec<RawBsonRef<'_>> = match objects.as_slice() {
        [object] => match object.array() {
            Some(array) => value::items(array).collect(),
            None => vec![object.or_null()],
        },
        objects => objects.iter().map(Value::or_null).collect(),
    };
    let mut merged = Fields::default();
    for object in objects {
        if matches!(object, RawBsonRef::Null | RawBsonRef::Undefined) {
            continue;
        }
        let document = object.as_document().ok_or_else(|| {
            let found = value::type_name(object);
            Error::server(40400, format!("$mergeObjects takes documents, not {found}"))
        })?;
        for (name, value) in value::fields(document) {
            merged.set(name, value);
        }
    }
    Ok(merged.into_document().into())
}
