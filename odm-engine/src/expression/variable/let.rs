//! `$let`: an expression with variables of its own. They do not see each other.
//!
//! ```text
//! { "$let": { "vars": { "x": -1 }, "in": { "$abs": "$$x" } } } → 1
//! { "$let": { "vars": { "CURRENT": { "a": 5 } }, "in": "$a" } } → 5
//! ```

use bson::{RawBsonRef, RawDocument};

use crate::expression::call::Call;
use crate::expression::{Expression, Operator, Scope, Value, names};
use crate::{Error, Result, value};

#[derive(Debug)]
struct Let {
    variables: Vec<(Box<str>, Expression)>,
    body: Expression,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let arguments = call.arguments(&["in", "vars"], 16874, 16875)?;
    let variables = match arguments.need("vars", 16876)? {
        RawBsonRef::Document(variables) => variables,
        // The elements of an array have numbers as names, which variables cannot have.
        RawBsonRef::Array(array) => RawDocument::from_bytes(array.as_bytes())?,
        other => {
            let found = value::type_name(other);
            let message = format!("'vars' of $let is a document, not {found}");
            return Err(Error::server(10065, message));
        }
    };
    let body = arguments.need("in", 16877)?;
    let variables = value::fields(variables)
        .map(|(name, value)| {
            names::check_bindable(name)?;
            Ok((name.into(), call.parse(value)?))
        })
        .collect::<Result<Vec<(Box<str>, _)>>>()?;
    let names = call.names.with(variables.iter().map(|(name, _)| &**name));
    let body = Expression::parse(body, &names)?;
    Ok(Expression::operator(Let { variables, body }))
}

impl Operator for Let {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let values = self
            .variables
            .iter()
            .map(|(name, value)| Ok((&**name, value.evaluate(scope)?)));
        let inner = scope.bind_all(values.collect::<Result<_>>()?);
        self.body.evaluate(&inner)
    }
}
