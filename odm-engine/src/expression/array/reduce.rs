//! `$reduce`: a value computed from another and each element of an array in turn: `$$value` is what
//! was computed before, `$$this` the element.
//!
//! ```text
//! { "$reduce": { "input": ["a", "b"], "initialValue": "", "in": { "$concat": ["$$value", "$$this"] } } } → "ab"
//! { "$reduce": { "input": [], "initialValue": 5, "in": "$$this" } } → 5
//! { "$reduce": { "input": null, "initialValue": 5, "in": "$$this" } } → null
//! ```

use bson::{RawBson, RawBsonRef};

use crate::expression::call::Call;
use crate::expression::{Expression, Operator, Scope, Value};
use crate::{Error, Result, value};

#[derive(Debug)]
struct Reduce {
    input: Expression,
    initial: Expression,
    body: Expression,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let known = &["in", "initialValue", "input"];
    let arguments = call.arguments(known, 40075, 40076)?;
    let input = arguments.required("input", 40077)?;
    let initial = arguments.required("initialValue", 40078)?;
    let body = arguments.need("in", 40079)?;
    Ok(Expression::operator(Reduce {
        input,
        initial,
        body: Expression::parse(body, &call.names.with(["this", "value"]))?,
    }))
}

impl Operator for Reduce {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let input = self.input.evaluate(scope)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(array) = input.array() else {
            let found = input.type_name();
            let message = format!("the input of $reduce is an array, not {found}");
            return Err(Error::server(40080, message));
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

/// Each step may wrap the value once more, and everything that recurses over values relies on them
/// not to nest too deep.
fn check_depth(value: Option<&RawBson>) -> Result<()> {
    match value.map(RawBson::as_raw_bson_ref) {
        Some(RawBsonRef::Document(document)) => value::check(document),
        Some(RawBsonRef::Array(array)) => value::check_array(array),
        _ => Ok(()),
    }
}
