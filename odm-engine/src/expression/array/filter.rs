//! `$filter`: the elements of an array for which a condition holds, the first `limit` of them. The
//! element is `$$this`, or what `as` calls it.
//!
//! ```text
//! { "$filter": { "input": [1, "x", 2], "cond": { "$isArray": [["$$this"]] } } } → [1, "x", 2]
//! { "$filter": { "input": [0, 1, 2, 3], "as": "n", "cond": "$$n", "limit": 2 } } → [1, 2]
//! { "$filter": { "input": null, "cond": true } } → null
//! ```

use bson::RawArrayBuf;

use crate::expression::call::Call;
use crate::expression::{Expression, Operator, Scope, Value, names};
use crate::{Error, Result, value};

#[derive(Debug)]
struct Filter {
    input: Expression,
    variable: Box<str>,
    condition: Expression,
    limit: Option<Expression>,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let known = &["as", "cond", "input", "limit"];
    let arguments = call.arguments(known, 28646, 28647)?;
    let input = arguments.required("input", 28648)?;
    let variable = names::bindable(arguments.get("as"))?;
    let condition = arguments.need("cond", 28650)?;
    Ok(Expression::operator(Filter {
        input,
        condition: Expression::parse(condition, &call.names.with([variable]))?,
        variable: variable.into(),
        limit: arguments.optional("limit")?,
    }))
}

impl Operator for Filter {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let input = self.input.evaluate(scope)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(array) = input.array() else {
            let found = input.type_name();
            let message = format!("the input of $filter is an array, not {found}");
            return Err(Error::server(28651, message));
        };
        if array.is_empty() {
            return Ok(RawArrayBuf::new().into());
        }
        let mut room = self.room(scope)?;
        let mut output = RawArrayBuf::new();
        for item in value::items(array) {
            if room == 0 {
                break;
            }
            let inner = scope.bind(&self.variable, item.into());
            if self.condition.evaluate(&inner)?.is_truthy() {
                output.push(item);
                room -= 1;
            }
        }
        Ok(output.into())
    }
}

impl Filter {
    /// How many elements there may be.
    fn room(&self, scope: &Scope<'_, '_>) -> Result<usize> {
        let Some(limit) = &self.limit else {
            return Ok(usize::MAX);
        };
        let limit = limit.evaluate(scope)?;
        if limit.is_nullish() {
            return Ok(usize::MAX);
        }
        let limit = limit.int32().ok_or_else(|| {
            Error::server(327391, "the limit of $filter is a whole number of 32 bits")
        })?;
        usize::try_from(limit)
            .ok()
            .filter(|limit| *limit > 0)
            .ok_or_else(|| Error::server(327392, "the limit of $filter is greater than zero"))
    }
}
