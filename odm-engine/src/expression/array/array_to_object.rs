//! `$arrayToObject`: a document from pairs `[name, value]` or `{ k: name, v: value }`. If a name
//! repeats, the last pair wins.
//!
//! ```text
//! { "$arrayToObject": { "$literal": [["a", 1], ["b", 2]] } } → { "a": 1, "b": 2 }
//! { "$arrayToObject": { "$literal": [{ "k": "a", "v": 1 }, { "k": "a", "v": 2 }] } } → { "a": 2 }
//! { "$arrayToObject": null } → null
//! ```

use bson::{RawArray, RawBsonRef, RawDocument};

use crate::expression::call::OperatorCall;
use crate::expression::object::DocumentBuilder;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse_array_to_object(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(array_to_object)
}

fn array_to_object(array: Value<'_>) -> Result<Value<'_>> {
    if array.is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(pairs) = array.as_array() else {
        return Err(wrong_type(40386, "an array", array.or_null()));
    };
    let pair = match value::items(pairs).next() {
        None | Some(RawBsonRef::Array(_)) => pair_from_array,
        Some(RawBsonRef::Document(_)) => pair_from_document,
        Some(other) => return Err(wrong_type(40398, "arrays or documents", other)),
    };
    let mut fields = DocumentBuilder::default();
    for item in value::items(pairs) {
        let (name, value) = pair(item)?;
        fields.set_field(name, value);
    }
    Ok(fields.into_document().into())
}

type Pair<'v> = (&'v str, RawBsonRef<'v>);

fn pair_from_array(pair: RawBsonRef<'_>) -> Result<Pair<'_>> {
    let pair: &RawArray = pair
        .as_array()
        .ok_or_else(|| wrong_type(40396, "only arrays (the first element is an array)", pair))?;
    let mut items = value::items(pair);
    let (Some(name), Some(value), None) = (items.next(), items.next(), items.next()) else {
        let message = "$arrayToObject takes arrays of two elements";
        return Err(Error::with_server_code(40397, message));
    };
    Ok((read_key(name, 40395, 4940400)?, value))
}

fn pair_from_document(pair: RawBsonRef<'_>) -> Result<Pair<'_>> {
    let pair: &RawDocument = pair.as_document().ok_or_else(|| {
        wrong_type(
            40391,
            "only documents (the first element is a document)",
            pair,
        )
    })?;
    if value::fields(pair).count() != 2 {
        let message = "$arrayToObject takes documents with the fields 'k' and 'v' only";
        return Err(Error::with_server_code(40392, message));
    }
    let (Some(name), Some(value)) = (value::get(pair, "k"), value::get(pair, "v")) else {
        let message = "$arrayToObject takes documents with the fields 'k' and 'v'";
        return Err(Error::with_server_code(40393, message));
    };
    Ok((read_key(name, 40394, 4940401)?, value))
}

fn read_key(name: RawBsonRef<'_>, no_string: i32, null_byte: i32) -> Result<&str> {
    let name = name
        .as_str()
        .ok_or_else(|| wrong_type(no_string, "strings as names", name))?;
    if name.contains('\0') {
        let message = "$arrayToObject takes names without null bytes";
        return Err(Error::with_server_code(null_byte, message));
    }
    Ok(name)
}

fn wrong_type(code: i32, expected: &str, value: RawBsonRef<'_>) -> Error {
    let type_name = value::type_name(value);
    Error::with_server_code(
        code,
        format!("$arrayToObject takes {expected}, not {type_name}"),
    )
}
