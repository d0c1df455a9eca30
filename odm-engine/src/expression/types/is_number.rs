//! `$isNumber`: whether a value is a number, of any type.
//!
//! ```text
//! { "$isNumber": { "$numberDecimal": "NaN" } } → true
//! { "$isNumber": "1" } → false
//! ```

use crate::Result;
use crate::expression::Expression;
use crate::expression::call::Call;

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| Ok(value.number().is_some().into()))
}
