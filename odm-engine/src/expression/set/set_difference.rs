//! `$setDifference`: the distinct elements of an array that another one has not.
//!
//! ```text
//! { "$setDifference": [[3, 1, 2, 3], [2]] } → [3, 1]
//! { "$setDifference": [[1], null] } → null
//! ```

use std::collections::BTreeSet;

use bson::RawArrayBuf;

use super::elements::{Elements, array};
use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.binary(set_difference)
}

fn set_difference<'v>(set: Value<'v>, without: Value<'v>) -> Result<Value<'v>> {
    if set.is_nullish() || without.is_nullish() {
        return Ok(Value::NULL);
    }
    let set = array("$setDifference", &set, 17048)?;
    let without: Elements<'_> = value::items(array("$setDifference", &without, 17049)?).collect();
    // What is left stays in the order of the array, each element where it is first.
    let mut first: Vec<_> = value::items(set).enumerate().collect();
    first.sort_by(|(_, a), (_, b)| value::compare(*a, *b));
    first.dedup_by(|(_, a), (_, b)| value::equal(*a, *b));
    let first: BTreeSet<usize> = first.into_iter().map(|(at, _)| at).collect();
    let left = value::items(set)
        .enumerate()
        .filter(|(at, item)| first.contains(at) && !without.contains(*item));
    Ok(left.map(|(_, item)| item).collect::<RawArrayBuf>().into())
}
