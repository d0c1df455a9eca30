//! `$regexFind`: the first match of a pattern in a string, the code point at which it begins, and
//! what its groups have taken.
//!
//! ```text
//! { "$regexFind": { "input": "héllo", "regex": "l(l)(x)?" } } → { "match": "ll", "idx": 2, "captures": ["l", null] }
//! { "$regexFind": { "input": "hello", "regex": "x" } } → null
//! ```

use super::regex::{self, Place, next_match};
use crate::Result;
use crate::expression::call::Call;
use crate::expression::{Expression, Value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    regex::parse(call, |search| {
        let found = match search {
            Some((text, regex)) => next_match(text, regex, Place::default())?,
            None => None,
        };
        Ok(found.map_or(Value::NULL, |(_, _, shown)| shown.into()))
    })
}
