//! `$maxN`, `$minN`: up to `n` of the greatest or smallest elements of an array, in that order.
//! Null elements are ignored.
//!
//! ```text
//! { "$maxN": { "input": [3, 1, 2], "n": 2 } } → [3, 2]
//! { "$minN": { "input": [3, null, 1, 2], "n": 2 } } → [1, 2]
//! ```

use bson::{RawArrayBuf, RawBsonRef};

use crate::collation::ValueOrder;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};
use crate::{Error, Result, value};

/// The candidate elements; after the selection, the selected elements.
pub(super) type Selection<'v> = Vec<RawBsonRef<'v>>;

/// Reduces the candidates to at most `n` elements.
type Select = fn(&mut Selection<'_>, usize, &ValueOrder);

#[derive(Debug)]
struct SelectN {
    n: Expression,
    input: Expression,
    select: Select,
    order: ValueOrder,
}

pub(super) fn parse_max(call: &OperatorCall<'_>) -> Result<Expression> {
    parse_select_n(call, 5787900, keep_greatest)
}

pub(super) fn parse_min(call: &OperatorCall<'_>) -> Result<Expression> {
    parse_select_n(call, 5787900, keep_smallest)
}

/// Parses `{ n: …, input: … }`. `no_document` is the operator's error code for an operand that is
/// not a document.
pub(super) fn parse_select_n(
    call: &OperatorCall<'_>,
    no_document: i32,
    select: Select,
) -> Result<Expression> {
    let arguments = call.named_arguments(&["input", "n"], no_document, 5787901)?;
    Ok(Expression::from_operator(SelectN {
        n: arguments.required_expression("n", 5787906)?,
        input: arguments.required_expression("input", 5787907)?,
        select,
        order: call.order().clone(),
    }))
}

fn keep_greatest(items: &mut Selection<'_>, n: usize, order: &ValueOrder) {
    items.retain(is_not_null);
    items.sort_by(|a, b| order.compare(*b, *a));
    items.truncate(n);
}

fn keep_smallest(items: &mut Selection<'_>, n: usize, order: &ValueOrder) {
    items.retain(is_not_null);
    items.sort_by(|a, b| order.compare(*a, *b));
    items.truncate(n);
}

fn is_not_null(item: &RawBsonRef<'_>) -> bool {
    !matches!(item, RawBsonRef::Null | RawBsonRef::Undefined)
}

impl ExpressionOperator for SelectN {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let n = positive_count(&self.n.evaluate(scope)?)?;
        let input = self.input.evaluate(scope)?;
        let Some(array) = input.as_array() else {
            let message = format!("the input must be an array, not {}", input.type_name());
            return Err(Error::with_server_code(5788200, message));
        };
        let mut items: Vec<_> = value::items(array).collect();
        (self.select)(&mut items, n, &self.order);
        Ok(items.into_iter().collect::<RawArrayBuf>().into())
    }
}

/// Reads the number of elements from `n`.
fn positive_count(n: &Value<'_>) -> Result<usize> {
    let number = n.as_number().ok_or_else(|| {
        let message = format!("'n' must be a number, not {}", n.type_name());
        Error::with_server_code(5787902, message)
    })?;
    let n = number
        .whole_long()
        .ok_or_else(|| Error::with_server_code(5787903, "'n' must be a whole number of 64 bits"))?;
    usize::try_from(n).ok().filter(|n| *n > 0).ok_or_else(|| {
        Error::with_server_code(5787908, format!("'n' must be greater than zero, not {n}"))
    })
}
