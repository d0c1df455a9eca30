//! `$type`: the name of a value's type.
//!
//! ```text
//! { "$type": "a" } → "string"
//! { "$type": "$$REMOVE" } → "missing"
//! ```

use crate::Result;
use crate::expression::Expression;
use crate::expression::call::OperatorCall;

pub(super) fn parse_type(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| Ok(value.type_name().to_owned().into()))
}
