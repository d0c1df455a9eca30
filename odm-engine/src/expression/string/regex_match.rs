//! `$regexMatch`: whether a string matches a pattern.
//!
//! ```text
//! { "$regexMatch": { "input": "Hello", "regex": "l+" } } → true
//! { "$regexMatch": { "input": "Hello", "regex": "^h", "options": "i" } } → true
//! { "$regexMatch": { "input": null, "regex": "l" } } → false
//! ```

use super::regex;
use crate::Result;
use crate::expression::Expression;
use crate::expression::call::OperatorCall;

pub(super) fn parse_regex_match(call: &OperatorCall<'_>) -> Result<Expression> {
    regex::parse_regex_operator(call, |search| {
        let is_found = search.is_some_and(|(text, pattern)| pattern.is_found_in(text));
        Ok(is_found.into())
    })
}
