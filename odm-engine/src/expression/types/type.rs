//! `$type`: the name of a value's type.
//!
//! ```text
//! { "$type": "a" } → "string"
//! { "$type": "$$REMOVE" } → "missing"
//! ```

use crate::Result;
use crate::expression::Expression;
use crate::expression::call::Call;

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| Ok(value.type_name().to_owned().into()))
}
