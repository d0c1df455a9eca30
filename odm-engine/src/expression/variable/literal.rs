//! `$literal`, `$const`: a value as it stands, even if it looks like a path or an operator.
//!
//! ```text
//! { "$literal": "$a" } → "$a"
//! { "$const": { "$abs": -1 } } → { "$abs": -1 }
//! ```

use crate::Result;
use crate::expression::Expression;
use crate::expression::call::Call;

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    Ok(Expression::Constant(Some(call.operand.into())))
}
