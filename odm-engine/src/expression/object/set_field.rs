//! `$setField`, `$unsetField`: a document with one field set or removed. The field name may contain
//! dots and dollars.
//!
//! ```text
//! { "$setField": { "field": "a", "input": { "a": 1, "b": 2 }, "value": 3 } } → { "a": 3, "b": 2 }
//! { "$setField": { "field": "a", "input": { "a": 1, "b": 2 }, "value": "$$REMOVE" } } → { "b": 2 }
//! { "$unsetField": { "field": "b", "input": { "a": 1, "b": 2 } } } → { "a": 1 }
//! { "$setField": { "field": "a", "input": null, "value": 1 } } → null
//! ```

use super::{DocumentBuilder, get_field};
use crate::expression::call::{FoldableOperator, NamedArguments, OperatorCall};
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};
use crate::{Error, Result, value};

#[derive(Debug)]
struct SetField {
    field: Box<str>,
    input: Expression,
    /// A missing value removes the field.
    value: Expression,
}

pub(super) fn parse_set_field(call: &OperatorCall<'_>) -> Result<Expression> {
    let arguments = call.named_arguments(&["field", "input", "value"], 4161100, 4161101)?;
    let value = arguments.required_expression("value", 4161103)?;
    build_set_field(call, &arguments, value)
}

pub(super) fn parse_unset_field(call: &OperatorCall<'_>) -> Result<Expression> {
    let arguments = call.named_arguments(&["field", "input"], 4161100, 4161101)?;
    build_set_field(call, &arguments, Expression::Constant(None))
}

fn build_set_field(
    call: &OperatorCall<'_>,
    arguments: &NamedArguments<'_>,
    value: Expression,
) -> Result<Expression> {
    let field = arguments.required_value("field", 4161102)?;
    let input = arguments.required_expression("input", 4161109)?;
    call.fold_constant(SetField {
        field: get_field::constant_name(call, field, [4161108, 4161106, 4161107])?,
        input,
        value,
    })
}

impl FoldableOperator for SetField {
    fn operand_expressions(&self) -> impl Iterator<Item = &Expression> {
        [&self.input, &self.value].into_iter()
    }
}

impl ExpressionOperator for SetField {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let input = self.input.evaluate(scope)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        let document = input.as_document().ok_or_else(|| {
            let type_name = input.type_name();
            let message = format!("$setField takes a document as its input, not {type_name}");
            Error::with_server_code(4161105, message)
        })?;
        let value = self.value.evaluate(scope)?;
        let mut fields = DocumentBuilder::default();
        for (name, value) in value::fields(document) {
            fields.set_field(name, value);
        }
        match value.as_bson() {
            Some(value) => fields.set_field(&self.field, value),
            None => fields.remove_field(&self.field),
        }
        Ok(fields.into_document().into())
    }
}
