//! `$cmp`, `$eq`, `$gt`, `$gte`, `$lt`, `$lte`, `$ne`: comparisons of two values. `$cmp` returns
//! -1, 0 or 1, the others a boolean.
//!
//! ```text
//! { "$cmp": [1, "a"] } → -1
//! { "$eq": [1, 1.0] } → true
//! { "$gt": [[], {}] } → true
//! { "$gte": [1, 2] } → false
//! { "$lt": [1, 2] } → true
//! { "$lte": [2, 2] } → true
//! { "$ne": [null, 0] } → true
//! ```

use crate::Result;
use crate::expression::Expression;
use crate::expression::call::OperatorCall;

pub(super) fn parse_cmp(call: &OperatorCall<'_>) -> Result<Expression> {
    call.ordered_binary(|order, a, b| Ok((a.compare(&b, order) as i32).into()))
}

pub(super) fn parse_eq(call: &OperatorCall<'_>) -> Result<Expression> {
    call.ordered_binary(|order, a, b| Ok(a.compare(&b, order).is_eq().into()))
}

pub(super) fn parse_gt(call: &OperatorCall<'_>) -> Result<Expression> {
    call.ordered_binary(|order, a, b| Ok(a.compare(&b, order).is_gt().into()))
}

pub(super) fn parse_gte(call: &OperatorCall<'_>) -> Result<Expression> {
    call.ordered_binary(|order, a, b| Ok(a.compare(&b, order).is_ge().into()))
}

pub(super) fn parse_lt(call: &OperatorCall<'_>) -> Result<Expression> {
    call.ordered_binary(|order, a, b| Ok(a.compare(&b, order).is_lt().into()))
}

pub(super) fn parse_lte(call: &OperatorCall<'_>) -> Result<Expression> {
    call.ordered_binary(|order, a, b| Ok(a.compare(&b, order).is_le().into()))
}

pub(super) fn parse_ne(call: &OperatorCall<'_>) -> Result<Expression> {
    call.ordered_binary(|order, a, b| Ok(a.compare(&b, order).is_ne().into()))
}
