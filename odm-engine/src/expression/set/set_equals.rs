//! `$setEquals`: whether all arrays have the same distinct elements.
//!
//! ```text
//! { "$setEquals": [[1, 2, 1], [2, 1]] } → true
//! { "$setEquals": [[1], [1], [1, 2]] } → false
//! ```

use super::elements::{DistinctElements, require_array};
use crate::collation::ValueOrder;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse_set_equals(call: &OperatorCall<'_>) -> Result<Expression> {
    if call.operand_count() < 2 {
        let message = "$setEquals takes two or more operands";
        return Err(Error::with_server_code(17045, message));
    }
    call.ordered_variadic(set_equals)
}

fn set_equals<'v>(order: &ValueOrder, sets: Vec<Value<'v>>) -> Result<Value<'v>> {
    let mut elements = Vec::with_capacity(sets.len());
    for set in &sets {
        let items = value::items(require_array("$setEquals", set, 5887502)?);
        elements.push(DistinctElements::new(items, order));
    }
    let equal = elements.windows(2).all(|pair| match pair {
        [a, b] => a.equals(b),
        _ => true,
    });
    Ok(equal.into())
}
