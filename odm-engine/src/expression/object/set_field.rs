//! `$setField`, `$unsetField`: a document with one field changed, added or removed. Its name may
//! have dots and dollars.
//!
//! ```text
//! { "$setField": { "field": "a", "input": { "a": 1, "b": 2 }, "value": 3 } } → { "a": 3, "b": 2 }
//! { "$setField": { "field": "a", "input": { "a": 1, "b": 2 }, "value": "$$REMOVE" } } → { "b": 2 }
//! { "$unsetField": { "field": "b", "input": { "a": 1, "b": 2 } } } → { "a": 1 }
//! { "$setField": { "field": "a", "input": null, "value": 1 } } → null
//! ```

use super::{Fields, get_field};
use crate::expression::call::{Arguments, Call, Operands};
use crate::expression::{Expression, Operator, Scope, Value};
use crate::{Error, Result, value};

#[derive(Debug)]
struct SetField {
    field: Box<str>,
    input: Expression,
    /// A missing value removes the field.
    value: Expression,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let arguments = call.arguments(&["field", "input", "value"], 4161100, 4161101)?;
    let value = arguments.required("value", 4161103)?;
    set(call, &arguments, value)
}

pub(super) fn parse_unset(call: &Call<'_>) -> Result<Expression> {
    let arguments = call.arguments(&["field", "input"], 4161100, 4161101)?;
    set(call, &arguments, Expression::Constant(None))
}

fn set(call: &Call<'_>, arguments: &Arguments<'_>, value: Expression) -> Result<Expression> {
    let field = arguments.need("field", 4161102)?;
    let input = arguments.required("input", 4161109)?;
    call.fold(SetField {
        field: get_field::name(call, field, [4161108, 4161106, 4161107])?,
        input,
        value,
    })
}

impl Operands for SetField {
    fn operands(&self) -> impl Iterator<Item = &Expression> {
        [&self.input, &self.value].into_iter()
    }
}

impl Operator for SetField {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let input = self.input.evaluate(scope)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        let document = input.document().ok_or_else(|| {
            let found = input.type_name();
            let message = format!("$setField takes a document as its input, not {found}");
            Error::server(4161105, message)
        })?;
        let value = self.value.evaluate(scope)?;
        let mut fields = Fields::default();
        for (name, value) in value::fields(document) {
            fields.set(name, value);
        }
        match value.as_bson() {
            Some(value) => fields.set(&self.field, value),
            None => fields.remove(&self.field),
        }
        Ok(fields.into_document().into())
    }
}
