//! `$mergeObjects`: the fields of several documents. Of fields with one name the last one counts.
//!
//! ```text
//! { "$mergeObjects": [{ "a": 1, "b": 2 }, null, { "a": 3, "c": 4 }] } → { "a": 3, "b": 2, "c": 4 }
//! { "$mergeObjects": null } → {}
//! ```

use super::Fields;
use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.variadic(merge_objects)
}

fn merge_objects(objects: Vec<Value<'_>>) -> Result<Value<'_>> {
    let mut merged = Fields::default();
    for object in objects.iter().filter(|object| !object.is_nullish()) {
        let document = object.document().ok_or_else(|| {
            let found = object.type_name();
            Error::server(40400, format!("$mergeObjects takes documents, not {found}"))
        })?;
        for (name, value) in value::fields(document) {
            merged.set(name, value);
        }
    }
    Ok(merged.into_document().into())
}
