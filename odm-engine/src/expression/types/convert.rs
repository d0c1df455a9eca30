//! `$convert`: a value as one of another type, with values for what is null and what cannot be
//! converted.
//!
//! ```text
//! { "$convert": { "input": "12", "to": "int" } } → 12
//! { "$convert": { "input": "x", "to": "int", "onError": "no" } } → "no"
//! { "$convert": { "input": null, "to": 16, "onNull": 0 } } → 0
//! ```

use bson::oid::ObjectId;
use bson::{RawBson, RawBsonRef};

use super::{to_date, to_number, to_string};
use crate::error::code;
use crate::expression::call::{Call, Operands};
use crate::expression::{Expression, Operator, Scope, Value};
use crate::value::Number;
use crate::{Error, Result, value};

/// The types by the names and numbers that `to` knows, sorted by name.
const TYPES: &[(&str, i32)] = &[
    ("array", 4),
    ("binData", 5),
    ("bool", 8),
    ("date", 9),
    ("dbPointer", 12),
    ("decimal", 19),
    ("double", 1),
    ("int", 16),
    ("javascript", 13),
    ("javascriptWithScope", 15),
    ("long", 18),
    ("maxKey", 127),
    ("minKey", -1),
    ("missing", 0),
    ("null", 10),
    ("object", 3),
    ("objectId", 7),
    ("regex", 11),
    ("string", 2),
    ("symbol", 14),
    ("timestamp", 17),
    ("undefined", 6),
];

#[derive(Debug)]
struct Convert {
    input: Expression,
    to: Expression,
    on_error: Option<Expression>,
    on_null: Option<Expression>,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let (mut input, mut to, mut on_error, mut on_null) = (None, None, None, None);
    for (name, argument) in value::fields(call.document(9)?) {
        let place = match name {
            "input" => &mut input,
            "onError" => &mut on_error,
            "onNull" => &mut on_null,
            "to" => &mut to,
            other => {
                let message = format!(
                    "$convert has no argument '{other}', but 'input', 'to', 'onError' and 'onNull'"
                );
                return Err(Error::server(9, message));
            }
        };
        *place = Some(call.parse(argument)?);
    }
    let missing = |name| Error::server(9, format!("$convert needs the argument '{name}'"));
    call.fold(Convert {
        input: input.ok_or_else(|| missing("input"))?,
        to: to.ok_or_else(|| missing("to"))?,
        on_error,
        on_null,
    })
}

impl Operands for Convert {
    fn operands(&self) -> impl Iterator<Item = &Expression> {
        [&self.input, &self.to]
            .into_iter()
            .chain(&self.on_error)
            .chain(&self.on_null)
    }
}

impl Operator for Convert {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let target = target(&self.to.evaluate(scope)?)?;
        let input = self.input.evaluate(scope)?;
        if input.is_nullish() {
            return match &self.on_null {
                Some(value) => value.evaluate(scope),
                None => Ok(Value::NULL),
            };
        }
        let Some(target) = target else {
            return Ok(Value::NULL);
        };
        match (convert(&input, target), &self.on_error) {
            (Err(error), Some(value)) if error.code() == Some(code::CONVERSION_FAILURE) => {
                value.evaluate(scope)
            }
            (converted, _) => converted,
        }
    }
}

/// The name of the type that `to` asks for. `None` for null.
fn target(to: &Value<'_>) -> Result<Option<&'static str>> {
    if to.is_nullish() {
        return Ok(None);
    }
    if let Some(RawBsonRef::String(name)) = to.as_bson() {
        let found = TYPES.iter().find(|(known, _)| *known == name);
        return match found {
            Some((name, _)) => Ok(Some(name)),
            None => Err(Error::bad_value(format!("$convert knows no type '{name}'"))),
        };
    }
    let fail = |message| Err(Error::server(9, message));
    let Some(number) = to.number() else {
        let found = to.type_name();
        return fail(format!(
            "'to' of $convert is a string or a number, not {found}"
        ));
    };
    let Some(number) = number.whole().and_then(|number| i32::try_from(number).ok()) else {
        return fail("'to' of $convert is a whole number".to_owned());
    };
    match TYPES.iter().find(|(_, known)| *known == number) {
        Some((name, _)) => Ok(Some(name)),
        None => fail(format!("$convert knows no type with the number {number}")),
    }
}

/// A value that is not null as one of another type.
///
/// # Errors
/// It cannot be converted (code 241), or is a date that has no text (code 18537).
pub(super) fn convert<'v>(input: &Value<'_>, target: &str) -> Result<Value<'v>> {
    let value = input.or_null();
    let converted = match target {
        "bool" => match value {
            RawBsonRef::Boolean(value) => Some(value.into()),
            value => Some(match Number::from_bson(value) {
                Some(number) => (!number.is_zero()).into(),
                None => true.into(),
            }),
        },
        "date" => to_date::convert(value)?.map(|date| RawBson::DateTime(date).into()),
        "decimal" => to_number::decimal(value)?.map(|number| Number::Decimal(number).into()),
        "double" => to_number::double(value)?.map(Value::from),
        "int" => to_number::int(value)?.map(Value::from),
        "long" => to_number::long(value)?.map(Value::from),
        "objectId" => object_id(value)?.map(|id| RawBson::ObjectId(id).into()),
        "string" => to_string::convert(value)?.map(Value::from),
        _ => None,
    };
    converted.ok_or_else(|| {
        let from = value::type_name(value);
        failure(format!(
            "a value of type {from} has no conversion to {target}"
        ))
    })
}

fn object_id(value: RawBsonRef<'_>) -> Result<Option<ObjectId>> {
    match value {
        RawBsonRef::ObjectId(id) => Ok(Some(id)),
        RawBsonRef::String(text) => match ObjectId::parse_str(text) {
            Ok(id) => Ok(Some(id)),
            Err(_) => Err(failure(format!("'{text}' is not 24 hexadecimal digits"))),
        },
        _ => Ok(None),
    }
}

/// The error for a value that cannot be converted.
pub(super) fn failure(message: impl Into<String>) -> Error {
    Error::server(code::CONVERSION_FAILURE, message)
}

#[cfg(test)]
mod tests {
    use super::TYPES;

    #[test]
    fn the_types_are_sorted() {
        assert!(TYPES.is_sorted());
    }
}
