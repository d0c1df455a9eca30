//! `$let`: an expression with local variables. The values of the variables cannot refer to each
//! other.
//!
//! ```text
//! { "$let": { "vars": { "x": -1 }, "in": { "$abs": "$$x" } } } → 1
//! { "$let": { "vars": { "CURRENT": { "a": 5 } }, "in": "$a" } } → 5
//! ```

use bson::{RawBsonRef, RawDocument};

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope, names};
use crate::{Error, Result, value};

#[derive(Debug)]
struct Let {
    variables: Vec<(Box<str>, Expression)>,
    body: Expression,
}

pub(super) fn parse_let(call: &OperatorCall<'_>) -> Result<Expression> {
    let arguments = call.named_arguments(&["in", "vars"], 16874, 16875)?;
    let variables = match arguments.required_value("vars", 16876)? {
        RawBsonRef::Document(variables) => variables,
        // The elements of an array have numbers as names, which are not valid variable names, so
        // the check below fails.
        RawBsonRef::Array(array) => RawDocument::from_bytes(array.as_bytes())?,
        other => {
            let type_name = value::type_name(other);
            let message = format!("'vars' of $let must be a document, not {type_name}");
            return Err(Error::with_server_code(10065, message));
        }
    };
    let body = arguments.required_value("in", 16877)?;
    let variables = value::fields(variables)
        .map(|(name, value)| {
            names::check_bindable(name)?;
            Ok((name.into(), call.parse_operand(value)?))
        })
        .collect::<Result<Vec<(Box<str>, _)>>>()?;
    let names = call
        .names
        .with_variables(variables.iter().map(|(name, _)| &**name));
    let body = Expression::parse(body, &names)?;
    Ok(Expression::from_operator(Let { variables, body }))
}

impl ExpressionOperator for Let {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let values = self
            .variables
            .iter()
            .map(|(name, value)| Ok((&**name, value.evaluate(scope)?)));
        let inner = scope.bind_all(values.collect::<Result<_>>()?);
        self.body.evaluate(&inner)
    }
}
