//! `$setIntersection`: the distinct elements that all arrays share.
//!
//! ```text
//! { "$setIntersection": [[3, 1, 2], [2, 3, 3]] } → [2, 3]
//! { "$setIntersection": [[1], null] } → null
//! { "$setIntersection": [] } → []
//! ```

use super::elements::{DistinctElements, require_array};
use crate::collation::ValueOrder;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Result, value};

pub(super) fn parse_set_intersection(call: &OperatorCall<'_>) -> Result<Expression> {
    call.ordered_commutative(set_intersection)
}

fn set_intersection<'v>(order: &ValueOrder, sets: Vec<Value<'v>>) -> Result<Value<'v>> {
    let mut common: Option<DistinctElements<'_>> = None;
    for set in &sets {
        if set.is_nullish() {
            return Ok(Value::NULL);
        }
        let elements = value::items(require_array("$setIntersection", set, 17047)?);
        let elements = DistinctElements::new(elements, order);
        // Of equal elements, MongoDB returns those of the smaller set, or of the first set if the
        // sizes are equal.
        common = Some(match common {
            Some(common) if elements.len() < common.len() => elements.common_with(&common),
            Some(common) => common.common_with(&elements),
            None => elements,
        });
    }
    let none = || DistinctElements::new([], order);
    Ok(common.unwrap_or_else(none).into())
}
