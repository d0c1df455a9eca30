//! `$map`: each element of an array, computed anew. The element is `$$this`, or what `as` calls it.
//!
//! ```text
//! { "$map": { "input": [-1, 2], "in": { "$abs": "$$this" } } } → [1, 2]
//! { "$map": { "input": [{ "a": 1 }, { "a": 2 }], "as": "item", "in": "$$item.a" } } → [1, 2]
//! { "$map": { "input": null, "in": 1 } } → null
//! ```

use bson::RawArrayBuf;

use crate::expression::call::Call;
use crate::expression::{Expression, Operator, Scope, Value, names};
use crate::value::{self, growth};
use crate::{Error, Result};

#[derive(Debug)]
struct Map {
    input: Expression,
    variable: Box<str>,
    body: Expression,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let arguments = call.arguments(&["as", "in", "input"], 16878, 16879)?;
    let variable = names::bindable(arguments.get("as"))?;
    let input = arguments.required("input", 16880)?;
    let body = arguments.need("in", 16882)?;
    Ok(Expression::operator(Map {
        input,
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
            growth::check_size(output.as_bytes().len())?;
        }
        Ok(output.into())
    }
}
