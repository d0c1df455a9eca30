//! `$map`: an array with an expression applied to each element. The element is `$$this` or the
//! variable named by `as`.
//!
//! ```text
//! { "$map": { "input": [-1, 2], "in": { "$abs": "$$this" } } } → [1, 2]
//! { "$map": { "input": [{ "a": 1 }, { "a": 2 }], "as": "item", "in": "$$item.a" } } → [1, 2]
//! { "$map": { "input": null, "in": 1 } } → null
//! ```

use bson::RawArrayBuf;

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope, names};
use crate::value::{self, growth};
use crate::{Error, Result};

#[derive(Debug)]
struct MapArray {
    input: Expression,
    variable: Box<str>,
    body: Expression,
}

pub(super) fn parse_map(call: &OperatorCall<'_>) -> Result<Expression> {
    let arguments = call.named_arguments(&["as", "in", "input"], 16878, 16879)?;
    let variable = names::element_variable(arguments.get("as"))?;
    let input = arguments.required_expression("input", 16880)?;
    let body = arguments.required_value("in", 16882)?;
    Ok(Expression::from_operator(MapArray {
        input,
        body: Expression::parse(body, &call.names.with_variables([variable]))?,
        variable: variable.into(),
    }))
}

impl ExpressionOperator for MapArray {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let input = self.input.evaluate(scope)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(array) = input.as_array() else {
            let message = format!(
                "the input of $map must be an array, not {}",
                input.type_name()
            );
            return Err(Error::with_server_code(16883, message));
        };
        let mut output = RawArrayBuf::new();
        for item in value::items(array) {
            let inner = scope.bind_variable(&self.variable, item.into());
            output.push(self.body.evaluate(&inner)?.or_null());
            growth::check_size(output.as_bytes().len())?;
        }
        Ok(output.into())
    }
}
