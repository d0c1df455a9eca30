//! `$convert`: a value converted to another type, with replacements for null and for values that
//! cannot be converted.
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
use crate::expression::call::{FoldableOperator, OperatorCall};
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};
use crate::value::Number;
use crate::{Error, Result, value};

/// The types with the names and numbers that `to` accepts, sorted by name.
const CONVERSION_TYPES: &[(&str, i32)] = &[
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
struct ConvertOperator {
    input: Expression,
    to: Expression,
    on_error: Option<Expression>,
    on_null: Option<Expression>,
}

pub(super) fn parse_convert(call: &OperatorCall<'_>) -> Result<Expression> {
    let (mut input, mut target, mut on_error, mut on_null) = (None, None, None, None);
    for (name, argument) in value::fields(call.argument_document(9)?) {
        let place = match name {
            "input" => &mut input,
            "onError" => &mut on_error,
            "onNull" => &mut on_null,
            "to" => &mut target,
            other => {
                let message = format!(
                    "$convert has no argument '{other}'; known are 'input', 'to', 'onError' and 'onNull'"
                );
                return Err(Error::with_server_code(9, message));
            }
        };
        *place = Some(call.parse_operand(argument)?);
    }
    let missing =
        |name| Error::with_server_code(9, format!("$convert needs the argument '{name}'"));
    call.fold_constant(ConvertOperator {
        input: input.ok_or_else(|| missing("input"))?,
        to: target.ok_or_else(|| missing("to"))?,
        on_error,
        on_null,
    })
}

impl FoldableOperator for ConvertOperator {
    fn operand_expressions(&self) -> impl Iterator<Item = &Expression> {
        [&self.input, &self.to]
            .into_iter()
            .chain(&self.on_error)
            .chain(&self.on_null)
    }
}

impl ExpressionOperator for ConvertOperator {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let target = target_type(&self.to.evaluate(scope)?)?;
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
        match (convert_value(&input, target), &self.on_error) {
            (Err(error), Some(value)) if error.code() == Some(code::CONVERSION_FAILURE) => {
                value.evaluate(scope)
            }
            (converted, _) => converted,
        }
    }
}

/// Returns the name of the target type. `None` for null.
fn target_type(target: &Value<'_>) -> Result<Option<&'static str>> {
    if target.is_nullish() {
        return Ok(None);
    }
    if let Some(RawBsonRef::String(name)) = target.as_bson() {
        let entry = CONVERSION_TYPES.iter().find(|(known, _)| *known == name);
        return match entry {
            Some((name, _)) => Ok(Some(name)),
            None => Err(Error::bad_value(format!(
                "unknown type '{name}' in 'to' of $convert"
            ))),
        };
    }
    let fail = |message| Err(Error::with_server_code(9, message));
    let Some(number) = target.as_number() else {
        let type_name = target.type_name();
        return fail(format!(
            "'to' of $convert must be a string or a number, not {type_name}"
        ));
    };
    let Some(number) = number
        .whole_long()
        .and_then(|number| i32::try_from(number).ok())
    else {
        return fail("'to' of $convert must be a whole number".to_owned());
    };
    match CONVERSION_TYPES.iter().find(|(_, known)| *known == number) {
        Some((name, _)) => Ok(Some(name)),
        None => fail(format!("unknown type number {number} in 'to' of $convert")),
    }
}

/// Converts a value that is not null to another type.
///
/// # Errors
/// The value cannot be converted (code 241), or is a date without a text form (code 18537).
pub(super) fn convert_value<'v>(input: &Value<'_>, target: &str) -> Result<Value<'v>> {
    let value = input.or_null();
    let converted = match target {
        "bool" => match value {
            RawBsonRef::Boolean(value) => Some(value.into()),
            value => Some(match Number::from_bson(value) {
                Some(number) => (!number.is_zero()).into(),
                None => true.into(),
            }),
        },
        "date" => to_date::convert_to_date(value)?.map(|date| RawBson::DateTime(date).into()),
        "decimal" => {
            to_number::convert_to_decimal(value)?.map(|number| Number::Decimal(number).into())
        }
        "double" => to_number::convert_to_double(value)?.map(Value::from),
        "int" => to_number::convert_to_int(value)?.map(Value::from),
        "long" => to_number::convert_to_long(value)?.map(Value::from),
        "objectId" => object_id(value)?.map(|id| RawBson::ObjectId(id).into()),
        "string" => to_string::convert_to_text(value)?.map(Value::from),
        _ => None,
    };
    converted.ok_or_else(|| {
        let from = value::type_name(value);
        conversion_failure(format!("cannot convert a value of type {from} to {target}"))
    })
}

fn object_id(value: RawBsonRef<'_>) -> Result<Option<ObjectId>> {
    match value {
        RawBsonRef::ObjectId(id) => Ok(Some(id)),
        RawBsonRef::String(text) => match ObjectId::parse_str(text) {
            Ok(id) => Ok(Some(id)),
            Err(_) => Err(conversion_failure(format!(
                "'{text}' is not 24 hexadecimal digits"
            ))),
        },
        _ => Ok(None),
    }
}

/// Returns the error for a failed conversion.
pub(super) fn conversion_failure(message: impl Into<String>) -> Error {
    Error::with_server_code(code::CONVERSION_FAILURE, message)
}

#[cfg(test)]
mod tests {
    use super::CONVERSION_TYPES;

    #[test]
    fn the_types_are_sorted() {
        assert!(CONVERSION_TYPES.is_sorted());
    }
}
