//! `$allElementsTrue`: whether all elements of an array count as true.
//!
//! ```text
//! { "$allElementsTrue": [[true, 1, "x"]] } → true
//! { "$allElementsTrue": [[true, 0]] } → false
//! { "$allElementsTrue": [[]] } → true
//! ```

use super::elements::array;
use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.unary(all_elements_true)
}

fn all_elements_true(set: Value<'_>) -> Result<Value<'_>> {
    let set = array("$allElementsTrue", &set, 17040)?;
    Ok(value::items(set).all(value::is_truthy).into())
}
