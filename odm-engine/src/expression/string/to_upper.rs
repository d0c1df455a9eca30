//! `$toUpper`, `$toLower`: a string with its ASCII letters in one case.
//!
//! ```text
//! { "$toUpper": "abc é" } → "ABC é"
//! { "$toLower": "ABC É" } → "abc É"
//! { "$toUpper": null } → ""
//! ```

use super::text;
use crate::Result;
use crate::expression::Expression;
use crate::expression::call::Call;

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| Ok(text::of(&value)?.to_ascii_uppercase().into()))
}

pub(super) fn parse_lower(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| Ok(text::of(&value)?.to_ascii_lowercase().into()))
}
