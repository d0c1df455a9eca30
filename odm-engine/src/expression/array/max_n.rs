//! `$maxN`, `$minN`: up to `n` of the greatest or smallest elements of an array, in that order.
//! Those that are null do not count.
//!
//! ```text
//! { "$maxN": { "input": [3, 1, 2], "n": 2 } } → [3, 2]
//! { "$minN": { "input": [3, null, 1, 2], "n": 2 } } → [1, 2]
//! ```

use bson::{RawArrayBuf, RawBsonRef};

use crate::expression::call::Call;
use crate::expression::{Expression, Operator, Scope, Value};
use crate::{Error, Result, value};

/// The elements to select from, and then those that are selected.
pub(super) type Selection<'v> = Vec<RawBsonRef<'v>>;

/// Leaves up to `n` elements.
type Select = fn(&mut Selection<'_>, usize);

#[derive(Debug)]
struct SelectN {
    n: Expression,
    input: Expression,
    select: Select,
}

pub(super) fn parse_max(call: &Call<'_>) -> Result<Expression> {
    parse(call, 5787900, max)
}

pub(super) fn parse_min(call: &Call<'_>) -> Result<Expression> {
    parse(call, 5787900, min)
}

/// Reads `{ n: …, input: … }`; `no_document` is the operator's number for something else.
pub(super) fn parse(call: &Call<'_>, no_document: i32, select: Select) -> Result<Expression> {
    let arguments = call.arguments(&["input", "n"], no_document, 5787901)?;
    Ok(Expression::operator(SelectN {
        n: arguments.required("n", 5787906)?,
        input: arguments.required("input", 5787907)?,
        select,
    }))
}

fn max(items: &mut Selection<'_>, n: usize) {
    items.retain(is_something);
    items.sort_by(|a, b| value::compare(*b, *a));
    items.truncate(n);
}

fn min(items: &mut Selection<'_>, n: usize) {
    items.retain(is_something);
    items.sort_by(|a, b| value::compare(*a, *b));
    items.truncate(n);
}

fn is_something(item: &RawBsonRef<'_>) -> bool {
    !matches!(item, RawBsonRef::Null | RawBsonRef::Undefined)
}

impl Operator for SelectN {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let n = count(&self.n.evaluate(scope)?)?;
        let input = self.input.evaluate(scope)?;
        let Some(array) = input.array() else {
            let message = format!("the input is an array, not {}", input.type_name());
            return Err(Error::server(5788200, message));
        };
        let mut items: Vec<_> = value::items(array).collect();
        (self.select)(&mut items, n);
        Ok(items.into_iter().collect::<RawArrayBuf>().into())
    }
}

/// How many elements `n` asks for.
fn count(n: &Value<'_>) -> Result<usize> {
    let number = n.number().ok_or_else(|| {
        let message = format!("'n' is a number, not {}", n.type_name());
        Error::server(5787902, message)
    })?;
    let n = number
        .whole()
        .ok_or_else(|| Error::server(5787903, "'n' is a whole number of 64 bits"))?;
    usize::try_from(n)
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| Error::server(5787908, format!("'n' is greater than zero, not {n}")))
}
