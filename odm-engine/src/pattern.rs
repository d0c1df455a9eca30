//! Regular expressions in MongoDB's syntax.
//!
//! Matching takes linear time in the length of the string. Look-around and back-references need
//! more and are not supported.

mod budget;
mod translate;

use bson::RawBsonRef;
use bson::raw::RawRegexRef;

use crate::{Error, Result};

pub(crate) use budget::PatternScope;

/// The maximum length of a pattern in bytes, as on MongoDB.
const MAX_PATTERN_BYTES: usize = 32764;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Regex {
    pattern: String,
    options: String,
    compiled: regex::Regex,
}

impl Regex {
    pub(crate) fn from_literal(literal: RawRegexRef<'_>) -> Result<Regex> {
        Regex::new(literal.pattern.as_str(), literal.options.as_str())
    }

    /// Compiles a pattern.
    ///
    /// # Errors
    /// Unknown options (code 51108), an invalid pattern (code 51091), and unsupported syntax such
    /// as look-around and back-references.
    pub(crate) fn new(pattern: &str, options: &str) -> Result<Regex> {
        if let Some(unknown) = options.chars().find(|option| !"imsux".contains(*option)) {
            let message = format!("invalid flag in regex options: {unknown}");
            return Err(Error::with_server_code(51108, message));
        }
        if pattern.contains('\0') {
            return Err(Error::bad_value(
                "a regular expression cannot contain a null byte",
            ));
        }
        if pattern.len() > MAX_PATTERN_BYTES {
            let message =
                format!("the regular expression is too long (max {MAX_PATTERN_BYTES} bytes)");
            return Err(Error::with_server_code(51091, message));
        }
        let multi_line = options.contains('m');
        let translated = translate::translate_pattern(pattern, multi_line, options.contains('x'))?;
        let mut builder = regex::RegexBuilder::new(&translated);
        builder
            .case_insensitive(options.contains('i'))
            .multi_line(multi_line)
            .dot_matches_new_line(options.contains('s'));
        let compiled = budget::compile_within_budget(&mut builder).map_err(|error| {
            let message = format!("regular expression /{pattern}/ is invalid: {error}");
            Error::with_server_code(51091, message)
        })?;
        Ok(Regex {
            pattern: pattern.to_owned(),
            options: options.to_owned(),
            compiled,
        })
    }

    /// Returns the pattern and the options.
    pub(crate) fn pattern_and_options(&self) -> (&str, &str) {
        (&self.pattern, &self.options)
    }

    /// Returns the literal prefix of every match, if the pattern demands a prefix: `^abc`.
    pub(crate) fn literal_prefix(&self) -> Option<&str> {
        let start = self
            .pattern
            .strip_prefix('^')
            .filter(|_| self.options.is_empty())?;
        let end = start.find(|c: char| !c.is_alphanumeric() && !" _-:/@#%&=,;<>~'\"".contains(c));
        let (literal, rest) = start.split_at(end.unwrap_or(start.len()));
        // A quantifier makes the last character optional, and alternatives make the whole prefix
        // optional.
        if self.pattern.contains('|') {
            return None;
        }
        let literal = match rest.chars().next() {
            Some('*' | '?' | '{' | '+') => {
                let last = literal.char_indices().next_back().map_or(0, |(at, _)| at);
                literal.get(..last)?
            }
            _ => literal,
        };
        Some(literal).filter(|literal| !literal.is_empty())
    }

    /// Returns whether a string matches the pattern, or the value is the same regular expression.
    pub(crate) fn matches(&self, value: RawBsonRef<'_>) -> bool {
        match value {
            RawBsonRef::String(text) | RawBsonRef::Symbol(text) => self.is_found_in(text),
            RawBsonRef::RegularExpression(other) => {
                self.pattern == other.pattern.as_str() && self.options == other.options.as_str()
            }
            _ => false,
        }
    }

    /// Finds the first match at or after the byte `start`, with the captured groups. Unused groups
    /// are `None`.
    pub(crate) fn find_at<'t>(&self, text: &'t str, start: usize) -> Option<regex::Captures<'t>> {
        self.compiled.captures_at(text, start)
    }

    /// Returns whether the pattern is found in a string.
    pub(crate) fn is_found_in(&self, text: &str) -> bool {
        self.compiled.is_match(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_match_starts_with_the_prefix() {
        let prefix = |pattern| {
            Regex::new(pattern, "")
                .unwrap()
                .literal_prefix()
                .map(str::to_owned)
        };
        assert_eq!(prefix("^abc"), Some("abc".into()));
        assert_eq!(prefix("^abc*d"), Some("ab".into()));
        assert_eq!(prefix("^ab.c"), Some("ab".into()));
        assert_eq!(prefix("^ab|c"), None);
        assert_eq!(prefix("abc"), None);
        assert_eq!(Regex::new("^abc", "i").unwrap().literal_prefix(), None);
    }

    #[test]
    fn errors_tell_invalid_from_unsupported() {
        let code = |pattern| Regex::new(pattern, "").unwrap_err().code();
        assert_eq!(code("[a"), Some(51091));
        assert_ne!(code("(?=a)"), Some(51091));
        assert_eq!(Regex::new("a", "g").unwrap_err().code(), Some(51108));
    }
}
