//! `$setIsSubset`: whether another array has all elements of an array.
//!
//! ```text
//! { "$setIsSubset": [[1, 1], [2, 1]] } → true
//! { "$setIsSubset": [[1, 3], [2, 1]] } → false
//! ```

use super::elements::{Elements, array};
use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.binary(set_is_subset)
}

fn set_is_subset<'v>(set: Value<'v>, of: Value<'v>) -> Result<Value<'v>> {
    let set = array("$setIsSubset", &set, 17046)?;
    let of: Elements<'_> = value::items(array("$setIsSubset", &of, 17042)?).collect();
    Ok(value::items(set).all(|item| of.contains(item)).into())
}
