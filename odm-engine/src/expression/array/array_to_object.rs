//! `$arrayToObject`: a document from pairs `[name, value]` or `{ k: name, v: value }`. Of several
//! pairs with one name the last one counts.
//!
//! ```text
//! { "$arrayToObject": { "$literal": [["a", 1], ["b", 2]] } } → { "a": 1, "b": 2 }
//! { "$arrayToObject": { "$literal": [{ "k": "a", "v": 1 }, { "k": "a", "v": 2 }] } } → { "a": 2 }
//! { "$arrayToObject": null } → null
//! ```

use bson::{RawArray, RawBsonRef, RawDocument};

use crate::expression::call::Call;
use crate::expression::object::Fields;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.unary(array_to_object)
}

fn array_to_object(array: Value<'_>) -> Result<Value<'_>> {
    if array.is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(pairs) = array.array() else {
        return Err(refuse(40386, "an array", array.or_null()));
    };
    let pair = match value::items(pairs).next() {
        None | Some(RawBsonRef::Array(_)) => from_array,
        Some(RawBsonRef::Document(_)) => from_document,
        Some(other) => return Err(refuse(40398, "arrays or documents", other)),
    };
    let mut fields = Fields::default();
    for item in value::items(pairs) {
        let (name, value) = pair(item)?;
        fields.set(name, value);
    }
    Ok(fields.into_document().into())
}

type Pair<'v> = (&'v str, RawBsonRef<'v>);

fn from_array(pair: RawBsonRef<'_>) -> Result<Pair<'_>> {
    let pair: &RawArray = pair
        .as_array()
        .ok_or_else(|| refuse(40396, "only arrays, as the first element is one", pair))?;
    let mut items = value::items(pair);
    let (Some(name), Some(value), None) = (items.next(), items.next(), items.next()) else {
        let message = "$arrayToObject takes arrays of two elements";
        return Err(Error::server(40397, message));
    };
    Ok((key(name, 40395, 4940400)?, value))
}

fn from_document(pair: RawBsonRef<'_>) -> Result<Pair<'_>> {
    let pair: &RawDocument = pair
        .as_document()
        .ok_or_else(|| refuse(40391, "only documents, as the first element is one", pair))?;
    if value::fields(pair).count() != 2 {
        let message = "$arrayToObject takes documents with the fields 'k' and 'v' only";
        return Err(Error::server(40392, message));
    }
    let (Some(name), Some(value)) = (value::get(pair, "k"), value::get(pair, "v")) else {
        let message = "$arrayToObject takes documents with the fields 'k' and 'v'";
        return Err(Error::server(40393, message));
    };
    Ok((key(name, 40394, 4940401)?, value))
}

fn key(name: RawBsonRef<'_>, no_string: i32, null_byte: i32) -> Result<&str> {
    let name = name
        .as_str()
        .ok_or_else(|| refuse(no_string, "strings as names", name))?;
    if name.contains('\0') {
        let message = "$arrayToObject takes names without null bytes";
        return Err(Error::server(null_byte, message));
    }
    Ok(name)
}

fn refuse(code: i32, wanted: &str, found: RawBsonRef<'_>) -> Error {
    let found = value::type_name(found);
    Error::server(code, format!("$arrayToObject takes {wanted}, not {found}"))
}
