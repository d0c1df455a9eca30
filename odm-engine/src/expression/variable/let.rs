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
    let (mut variables, mut body) = (None, None);
    for (name, argument) in value::fields(call.document(16874)?) {
        match (name, argument) {
            ("in", argument) => body = Some(argument),
            ("vars", RawBsonRef::Document(document)) => variables = Some(document),
            // The elements of an array have numbers as names, which variables cannot have.
            ("vars", RawBsonRef::Array(array)) => {
                variables = Some(RawDocument::from_bytes(array.as_bytes())?);
            }
            ("vars", other) => {
                let found = value::type_name(other);
                let message = format!("'vars' of $let is a document, not {found}");
                return Err(Error::server(10065, message));
            }
            (other, _) => {
                let message = format!("$let has no argument '{other}', but 'vars' and 'in'");
                return Err(Error::server(16875, message));
            }
        }
    }
    let missing = |code, name| Error::server(code, format!("$let needs the argument '{name}'"));
    let variables = variables.ok_or_else(|| missing(16876, "vars"))?;
    let body = body.ok_or_else(|| missing(16877, "in"))?;
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
