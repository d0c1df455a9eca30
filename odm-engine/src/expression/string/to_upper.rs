//! `$toUpper`, `$toLower`: a string with its ASCII letters in upper or lower case.
//!
//! ```text
//! { "$toUpper": "abc é" } → "ABC é"
//! { "$toLower": "ABC É" } → "abc É"
//! { "$toUpper": null } → ""
//! ```

use super::text;
use crate::Result;
use crate::expression::Expression;
use crate::expression::call::OperatorCall;

pub(super) fn parse_to_upper(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| Ok(text::text_of(&value)?.to_ascii_uppercase().into()))
}

pub(super) fn parse_to_lower(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| Ok(text::text_of(&value)?.to_ascii_lowercase().into()))
}
