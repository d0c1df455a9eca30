//! `$setIntersection`: the distinct elements that all arrays have.
//!
//! ```text
//! { "$setIntersection": [[3, 1, 2], [2, 3, 3]] } → [2, 3]
//! { "$setIntersection": [[1], null] } → null
//! { "$setIntersection": [] } → []
//! ```

use super::elements::{Elements, array};
use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.commutative(set_intersection)
}

fn set_intersection(sets: Vec<Value<'_>>) -> Result<Value<'_>> {
    let mut common: Option<Elements<'_>> = None;
    for set in &sets {
        if set.is_nullish() {
            return Ok(Value::NULL);
        }
        let elements: Elements<'_> = value::items(array("$setIntersection", set, 17047)?).collect();
        // Of equal elements MongoDB gives those of the smaller set, else those of the first.
        common = Some(match common {
            Some(common) if elements.len() < common.len() => elements.common_with(&common),
            Some(common) => common.common_with(&elements),
            None => elements,
        });
    }
    Ok(common.unwrap_or_default().into())
}
