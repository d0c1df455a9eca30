//! `$setDifference`: the distinct elements of the first array that the second array lacks.
//!
//! ```text
//! { "$setDifference": [[3, 1, 2, 3], [2]] } → [3, 1]
//! { "$setDifference": [[1], null] } → null
//! ```

use std::collections::BTreeSet;

use bson::RawArrayBuf;

use super::elements::{DistinctElements, require_array};
use crate::collation::ValueOrder;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Result, value};

pub(super) fn parse_set_difference(call: &OperatorCall<'_>) -> Result<Expression> {
    call.ordered_binary(set_difference)
}

fn set_difference<'v>(
    order: &ValueOrder,
    set: Value<'v>,
    excluded: Value<'v>,
) -> Result<Value<'v>> {
    if set.is_nullish() || excluded.is_nullish() {
        return Ok(Value::NULL);
    }
    let set = require_array("$setDifference", &set, 17048)?;
    let excluded = value::items(require_array("$setDifference", &excluded, 17049)?);
    let excluded = DistinctElements::new(excluded, order);
    // The result keeps the order of the array, with each element at its first position.
    let mut first: Vec<_> = value::items(set).enumerate().collect();
    first.sort_by(|(_, a), (_, b)| order.compare(*a, *b));
    first.dedup_by(|(_, a), (_, b)| order.equal(*a, *b));
    let first: BTreeSet<usize> = first.into_iter().map(|(at, _)| at).collect();
    let difference = value::items(set)
        .enumerate()
        .filter(|(at, item)| first.contains(at) && !excluded.contains(*item));
    Ok(difference
        .map(|(_, item)| item)
        .collect::<RawArrayBuf>()
        .into())
}
