//! `$regexFindAll`: all matches of a pattern in a string, each in the form of `$regexFind`.
//!
//! ```text
//! { "$regexFindAll": { "input": "abab", "regex": "b" } } → [{ "match": "b", "idx": 1, "captures": [] }, { "match": "b", "idx": 3, "captures": [] }]
//! { "$regexFindAll": { "input": null, "regex": "b" } } → []
//! ```

use bson::RawArrayBuf;

use super::regex::{self, TextPosition, next_match};
use crate::Result;
use crate::expression::Expression;
use crate::expression::call::OperatorCall;
use crate::pattern::Regex;
use crate::value::growth;

pub(super) fn parse_regex_find_all(call: &OperatorCall<'_>) -> Result<Expression> {
    regex::parse_regex_operator(call, |search| {
        let all = search.map_or_else(
            || Ok(RawArrayBuf::new()),
            |(text, regex)| find_all(text, regex),
        );
        Ok(all?.into())
    })
}

fn find_all(text: &str, regex: &Regex) -> Result<RawArrayBuf> {
    let mut all = RawArrayBuf::new();
    let mut from = TextPosition::default();
    while let Some((place, length, output)) = next_match(text, regex, from)? {
        all.push(output);
        growth::check_size(all.as_bytes().len())?;
        // After an empty match, the search continues at the next character. The search would not
        // advance otherwise.
        let rest = text.get(place.byte..).unwrap_or_default();
        let step = match length {
            0 => rest.chars().next().map_or(0, char::len_utf8),
            length => length,
        };
        from = place.move_to(text, place.byte + step);
        if from.byte >= text.len() {
            break;
        }
    }
    Ok(all)
}
