//! `$getField`: the field of a document by its literal name, which may contain dots and dollars.
//! The default document is `$$CURRENT`.
//!
//! ```text
//! { "$getField": { "field": "a.b", "input": { "$arrayToObject": [[["a.b", 1]]] } } } → 1
//! { "$getField": { "field": { "$literal": "$a" }, "input": {} } } → missing
//! { "$getField": { "field": "a", "input": null } } → null
//! ```

use bson::RawBsonRef;

use crate::expression::call::{FoldableOperator, OperatorCall};
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};
use crate::{Error, Result, value};

#[derive(Debug)]
struct GetField {
    field: Box<str>,
    input: Expression,
}

pub(super) fn parse_get_field(call: &OperatorCall<'_>) -> Result<Expression> {
    // A document holds named arguments, unless its first field is an operator that computes the
    // name.
    let is_operator = |name: &str| name.starts_with('$');
    let first = call.operand.as_document().map(|operand| {
        let name = value::fields(operand).next().map(|(name, _)| name);
        name.is_some_and(is_operator)
    });
    let (field, input) = if first == Some(false) {
        let arguments = call.named_arguments(&["field", "input"], 3041700, 3041701)?;
        let field = arguments.required_value("field", 3041702)?;
        (field, arguments.required_expression("input", 3041703)?)
    } else {
        let document = call.parse_operand(RawBsonRef::String("$$CURRENT"))?;
        (call.operand, document)
    };
    call.fold_constant(GetField {
        field: constant_name(call, field, [5654600, 5654601, 5654602])?,
        input,
    })
}

/// Reads a field name, which must be constant. The codes are for a path, a name that is not
/// constant, and a value that is not a string.
pub(super) fn constant_name(
    call: &OperatorCall<'_>,
    name: RawBsonRef<'_>,
    codes: [i32; 3],
) -> Result<Box<str>> {
    let [path, not_constant, no_string] = codes;
    let operator = call.name;
    if name.as_str().is_some_and(|name| name.starts_with('$')) {
        let message = format!(
            "{operator} takes a field name, not a path; use $literal for a name that starts with '$'"
        );
        return Err(Error::with_server_code(path, message));
    }
    // MongoDB accepts literals only and computes nothing here.
    let is_literal = |name: RawBsonRef<'_>| match name {
        RawBsonRef::Array(_) => false,
        RawBsonRef::Document(document) => matches!(
            value::fields(document).next(),
            Some(("$literal" | "$const", _))
        ),
        _ => true,
    };
    let parsed = call.parse_operand(name)?;
    let Some(value) = parsed.as_constant().filter(|_| is_literal(name)) else {
        let message = format!("the field name of {operator} must be constant");
        return Err(Error::with_server_code(not_constant, message));
    };
    let name = value.as_text().ok_or_else(|| {
        let type_name = value.type_name();
        let message = format!("{operator} takes a string as the name of a field, not {type_name}");
        Error::with_server_code(no_string, message)
    })?;
    Ok(name.into())
}

impl FoldableOperator for GetField {
    fn operand_expressions(&self) -> impl Iterator<Item = &Expression> {
        [&self.input].into_iter()
    }
}

impl ExpressionOperator for GetField {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let input = self.input.evaluate(scope)?;
        if input.is_nullish() {
            return Ok(match input {
                Value::Missing => Value::Missing,
                _ => Value::NULL,
            });
        }
        Ok(input.map_part(|input| value::get(input.as_document()?, &self.field)))
    }
}
