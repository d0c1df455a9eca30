//! `$regexMatch`: whether a pattern is found in a string.
//!
//! ```text
//! { "$regexMatch": { "input": "Hello", "regex": "l+" } } → true
//! { "$regexMatch": { "input": "Hello", "regex": "^h", "options": "i" } } → true
//! { "$regexMatch": { "input": null, "regex": "l" } } → false
//! ```

use super::regex;
use crate::Result;
use crate::expression::Expression;
use crate::expression::call::Call;

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    regex::parse(call, |search| {
        let is_found = search.is_some_and(|(text, pattern)| pattern.is_found_in(text));
        Ok(is_found.into())
    })
}
