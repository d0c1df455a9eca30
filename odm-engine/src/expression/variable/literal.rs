//! `$literal`, `$const`: a value taken literally, even if the value looks like a path or an
//! operator.
//!
//! ```text
//! { "$literal": "$a" } → "$a"
//! { "$const": { "$abs": -1 } } → { "$abs": -1 }
//! ```

use crate::Result;
use crate::expression::Expression;
use crate::expression::call::OperatorCall;

pub(super) fn parse_literal(call: &OperatorCall<'_>) -> Result<Expression> {
    Ok(Expression::Constant(Some(call.operand.into())))
}
