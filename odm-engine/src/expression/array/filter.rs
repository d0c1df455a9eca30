//! `$filter`: the elements of an array that satisfy a condition, at most `limit` of them. The
//! element is `$$this` or the variable named by `as`.
//!
//! ```text
//! { "$filter": { "input": [1, "x", 2], "cond": { "$isArray": [["$$this"]] } } } → [1, "x", 2]
//! { "$filter": { "input": [0, 1, 2, 3], "as": "n", "cond": "$$n", "limit": 2 } } → [1, 2]
//! { "$filter": { "input": null, "cond": true } } → null
//! ```

use bson::RawArrayBuf;

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope, names};
use crate::{Error, Result, value};

#[derive(Debug)]
struct FilterArray {
    input: Expression,
    variable: Box<str>,
    condition: Expression,
    limit: Option<Expression>,
}

pub(super) fn parse_filter(call: &OperatorCall<'_>) -> Result<Expression> {
    let known = &["as", "cond", "input", "limit"];
    let arguments = call.named_arguments(known, 28646, 28647)?;
    let input = arguments.required_expression("input", 28648)?;
    let variable = names::element_variable(arguments.get("as"))?;
    let condition = arguments.required_value("cond", 28650)?;
    Ok(Expression::from_operator(FilterArray {
        input,
        condition: Expression::parse(condition, &call.names.with_variables([variable]))?,
        variable: variable.into(),
        limit: arguments.optional_expression("limit")?,
    }))
}

impl ExpressionOperator for FilterArray {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let input = self.input.evaluate(scope)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(array) = input.as_array() else {
            let type_name = input.type_name();
            let message = format!("the input of $filter must be an array, not {type_name}");
            return Err(Error::with_server_code(28651, message));
        };
        if array.is_empty() {
            return Ok(RawArrayBuf::new().into());
        }
        let mut room = self.max_elements(scope)?;
        let mut output = RawArrayBuf::new();
        for item in value::items(array) {
            if room == 0 {
                break;
            }
            let inner = scope.bind_variable(&self.variable, item.into());
            if self.condition.evaluate(&inner)?.is_truthy() {
                output.push(item);
                room -= 1;
            }
        }
        Ok(output.into())
    }
}

impl FilterArray {
    /// Returns the maximum number of elements in the result.
    fn max_elements(&self, scope: &VariableScope<'_, '_>) -> Result<usize> {
        let Some(limit) = &self.limit else {
            return Ok(usize::MAX);
        };
        let limit = limit.evaluate(scope)?;
        if limit.is_nullish() {
            return Ok(usize::MAX);
        }
        let limit = limit.as_int32().ok_or_else(|| {
            Error::with_server_code(
                327391,
                "the limit of $filter must be a whole number of 32 bits",
            )
        })?;
        usize::try_from(limit)
            .ok()
            .filter(|limit| *limit > 0)
            .ok_or_else(|| {
                Error::with_server_code(327392, "the limit of $filter must be greater than zero")
            })
    }
}
