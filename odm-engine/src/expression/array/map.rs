//! `$map`: each element of an array, computed anew. The element is `$$this`, or what `as` calls it.
//!
//! ```text
//! { "$map": { "input": [-1, 2], "in": { "$abs": "$$this" } } } → [1, 2]
//! { "$map": { "input": [{ "a": 1 }, { "a": 2 }], "as": "item", "in": "$$item.a" } } → [1, 2]
//! { "$map": { "input": null, "in": 1 } } → null
//! ```

use bson::{RawArrayBuf, RawBsonRef};

use crate::expression::call::Call;
use crate::expression::{Expression, Operator, Scope, Value, names};
use crate::value;
use crate::{Error, Result};

#[derive(Debug)]
struct Map {
    input: Expression,
    variable: Box<str>,
    body: Expression,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let (mut input, mut variable, mut body) = (None, "this", None);
    for (name, argument) in value::fields(call.document(16878)?) {
        match name {
            "as" => match argument {
                RawBsonRef::String(name) => variable = name,
                _ => return Err(Error::server(9, "'as' of $map is not a string")),
            },
            "in" => body = Some(argument),
            "input" => input = Some(argument),
            other => {
                let message = format!("$map has no argument '{other}', but 'input', 'as' and 'in'");
                return Err(Error::server(16879, message));
            }
        }
    }
    names::check_bindable(variable)?;
    let missing = |code, name| Error::server(code, format!("$map needs the argument '{name}'"));
    let input = input.ok_or_else(|| missing(16880, "input"))?;
    let body = body.ok_or_else(|| missing(16882, "in"))?;
    Ok(Expression::operator(Map {
        input: call.parse(input)?,
        body: Expression::parse(body, &call.names.with([variable]))?,
        variable: variable.into(),
    }))
}

impl Operator for Map {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let input = self.input.evaluate(scope)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(array) = input.array() else {
            let message = format!("the input of $map is an array, not {}", input.type_name());
            return Err(Error::server(16883, message));
        };
        let mut output = RawArrayBuf::new();
        for item in value::items(array) {
            let inner = scope.bind(&self.variable, item.into());
            output.push(self.body.evaluate(&inner)?.or_null());
        }
        Ok(output.into())
    }
}
