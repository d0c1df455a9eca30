//! `$regexFindAll`: all matches of a pattern in a string, each as `$regexFind` gives it.
//!
//! ```text
//! { "$regexFindAll": { "input": "abab", "regex": "b" } } → [{ "match": "b", "idx": 1, "captures": [] }, { "match": "b", "idx": 3, "captures": [] }]
//! { "$regexFindAll": { "input": null, "regex": "b" } } → []
//! ```

use bson::RawArrayBuf;

use super::regex::{self, Place, next_match};
use crate::Result;
use crate::expression::Expression;
use crate::expression::call::Call;
use crate::pattern::Regex;
use crate::value::growth;

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    regex::parse(call, |search| {
        let all = search.map_or_else(
            || Ok(RawArrayBuf::new()),
            |(text, regex)| find_all(text, regex),
        );
        Ok(all?.into())
    })
}

fn find_all(text: &str, regex: &Regex) -> Result<RawArrayBuf> {
    let mut all = RawArrayBuf::new();
    let mut from = Place::default();
    while let Some((place, length, shown)) = next_match(text, regex, from)? {
        all.push(shown);
        growth::check_size(all.as_bytes().len())?;
        // Behind an empty match the search goes on with the next character.
        let rest = text.get(place.byte..).unwrap_or_default();
        let step = match length {
            0 => rest.chars().next().map_or(0, char::len_utf8),
            length => length,
        };
        from = place.moved(text, place.byte + step);
        if from.byte >= text.len() {
            break;
        }
    }
    Ok(all)
}
