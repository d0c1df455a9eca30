//! `$setUnion`: the distinct elements of several arrays.
//!
//! ```text
//! { "$setUnion": [[3, 1], [1, 2]] } → [1, 2, 3]
//! { "$setUnion": [[1], null] } → null
//! ```

use super::elements::{DistinctElements, require_array};
use crate::collation::ValueOrder;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Result, value};

pub(super) fn parse_set_union(call: &OperatorCall<'_>) -> Result<Expression> {
    call.ordered_commutative(set_union)
}

fn set_union<'v>(order: &ValueOrder, sets: Vec<Value<'v>>) -> Result<Value<'v>> {
    let mut all = Vec::new();
    for set in &sets {
        if set.is_nullish() {
            return Ok(Value::NULL);
        }
        all.extend(value::items(require_array("$setUnion", set, 17043)?));
    }
    Ok(DistinctElements::new(all, order).into())
}
