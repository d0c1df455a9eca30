//! `$reduce`: an expression applied to each element of an array in turn. `$$value` is the previous
//! result, `$$this` the element.
//!
//! ```text
//! { "$reduce": { "input": ["a", "b"], "initialValue": "", "in": { "$concat": ["$$value", "$$this"] } } } → "ab"
//! { "$reduce": { "input": [], "initialValue": 5, "in": "$$this" } } → 5
//! { "$reduce": { "input": null, "initialValue": 5, "in": "$$this" } } → null
//! ```

use bson::{RawBson, RawBsonRef};

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};
use crate::{Error, Result, value};

#[derive(Debug)]
struct ReduceArray {
    input: Expression,
    initial: Expression,
    body: Expression,
}

pub(super) fn parse_reduce(call: &OperatorCall<'_>) -> Result<Expression> {
    let known = &["in", "initialValue", "input"];
    let arguments = call.named_arguments(known, 40075, 40076)?;
    let input = arguments.required_expression("input", 40077)?;
    let initial = arguments.required_expression("initialValue", 40078)?;
    let body = arguments.required_value("in", 40079)?;
    Ok(Expression::from_operator(ReduceArray {
        input,
        initial,
        body: Expression::parse(body, &call.names.with_variables(["this", "value"]))?,
    }))
}

impl ExpressionOperator for ReduceArray {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let input = self.input.evaluate(scope)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(array) = input.as_array() else {
            let type_name = input.type_name();
            let message = format!("the input of $reduce must be an array, not {type_name}");
            return Err(Error::with_server_code(40080, message));
        };
        let mut reduced = self.initial.evaluate(scope)?.into_bson();
        for item in value::items(array) {
            let value = reduced.as_ref().map(RawBson::as_raw_bson_ref);
            let variables = vec![("this", item.into()), ("value", value.into())];
            let next = self.body.evaluate(&scope.bind_all(variables))?.into_bson();
            check_depth(next.as_ref())?;
            reduced = next;
        }
        Ok(reduced.into())
    }
}

/// Checks the nesting depth of an intermediate result. Each step may add a level, and recursive
/// functions rely on the depth limit.
fn check_depth(value: Option<&RawBson>) -> Result<()> {
    match value.map(RawBson::as_raw_bson_ref) {
        Some(RawBsonRef::Document(document)) => value::check_document(document),
        Some(RawBsonRef::Array(array)) => value::check_array_depth(array),
        _ => Ok(()),
    }
}
