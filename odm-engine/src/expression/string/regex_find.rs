//! `$regexFind`: the first match of a pattern in a string, with the code point position and the
//! captured groups.
//!
//! ```text
//! { "$regexFind": { "input": "héllo", "regex": "l(l)(x)?" } } → { "match": "ll", "idx": 2, "captures": ["l", null] }
//! { "$regexFind": { "input": "hello", "regex": "x" } } → null
//! ```

use super::regex::{self, TextPosition, next_match};
use crate::Result;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};

pub(super) fn parse_regex_find(call: &OperatorCall<'_>) -> Result<Expression> {
    regex::parse_regex_operator(call, |search| {
        let first_match = match search {
            Some((text, regex)) => next_match(text, regex, TextPosition::default())?,
            None => None,
        };
        Ok(first_match.map_or(Value::NULL, |(_, _, output)| output.into()))
    })
}
