//! Regular expressions as MongoDB takes them.
//!
//! Patterns are searched for in time linear in the string. Look-around and back-references, which
//! cannot be, are refused.

mod budget;
mod translate;

use bson::RawBsonRef;
use bson::raw::RawRegexRef;

use crate::{Error, Result};

pub(crate) use budget::Scope as PatternScope;

/// How long a pattern may be, in bytes.
const MAX_LENGTH: usize = 32764;

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
    /// Unknown options (code 51108), a pattern that is none (code 51091), and look-around and
    /// back-references, which are not supported.
    pub(crate) fn new(pattern: &str, options: &str) -> Result<Regex> {
        if let Some(unknown) = options.chars().find(|option| !"imsux".contains(*option)) {
            let message = format!("invalid flag in regex options: {unknown}");
            return Err(Error::server(51108, message));
        }
        if pattern.contains('\0') {
            return Err(Error::bad_value(
                "a regular expression cannot contain a null byte",
            ));
        }
        if pattern.len() > MAX_LENGTH {
            let message = format!("a regular expression can have {MAX_LENGTH} bytes");
            return Err(Error::server(51091, message));
        }
        let multi_line = options.contains('m');
        let translated = translate::translate(pattern, multi_line, options.contains('x'))?;
        let mut builder = regex::RegexBuilder::new(&translated);
        builder
            .case_insensitive(options.contains('i'))
            .multi_line(multi_line)
            .dot_matches_new_line(options.contains('s'));
        let compiled = budget::compile(&mut builder).map_err(|error| {
            let message = format!("regular expression /{pattern}/ is invalid: {error}");
            Error::server(51091, message)
        })?;
        Ok(Regex {
            pattern: pattern.to_owned(),
            options: options.to_owned(),
            compiled,
        })
    }

    /// The pattern and its options.
    pub(crate) fn source(&self) -> (&str, &str) {
        (&self.pattern, &self.options)
    }

    /// The string that everything found starts with, if the pattern demands one: `^abc`.
    pub(crate) fn prefix(&self) -> Option<&str> {
        let start = self
            .pattern
            .strip_prefix('^')
            .filter(|_| self.options.is_empty())?;
        let end = start.find(|c: char| !c.is_alphanumeric() && !" _-:/@#%&=,;<>~'\"".contains(c));
        let (literal, rest) = start.split_at(end.unwrap_or(start.len()));
        // A quantifier takes the last character away again; alternatives take everything.
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

    /// Whether the pattern is found in a string, or is the value.
    pub(crate) fn matches(&self, value: RawBsonRef<'_>) -> bool {
        match value {
            RawBsonRef::String(text) | RawBsonRef::Symbol(text) => self.is_found_in(text),
            RawBsonRef::RegularExpression(other) => {
                self.pattern == other.pattern.as_str() && self.options == other.options.as_str()
            }
            _ => false,
        }
    }

    /// Where the pattern and its groups are found first, not before the byte `start`. Groups that
    /// took no part are missing.
    pub(crate) fn find_at<'t>(&self, text: &'t str, start: usize) -> Option<regex::Captures<'t>> {
        self.compiled.captures_at(text, start)
    }

    /// Whether the pattern is found in a string.
    pub(crate) fn is_found_in(&self, text: &str) -> bool {
        self.compiled.is_match(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_what_every_match_starts_with() {
        let prefix = |pattern| Regex::new(pattern, "").unwrap().prefix().map(str::to_owned);
        assert_eq!(prefix("^abc"), Some("abc".into()));
        assert_eq!(prefix("^abc*d"), Some("ab".into()));
        assert_eq!(prefix("^ab.c"), Some("ab".into()));
        assert_eq!(prefix("^ab|c"), None);
        assert_eq!(prefix("abc"), None);
        assert_eq!(Regex::new("^abc", "i").unwrap().prefix(), None);
    }

    #[test]
    fn errors_tell_invalid_from_unsupported() {
        let code = |pattern| Regex::new(pattern, "").unwrap_err().code();
        assert_eq!(code("[a"), Some(51091));
        assert_ne!(code("(?=a)"), Some(51091));
        assert_eq!(Regex::new("a", "g").unwrap_err().code(), Some(51108));
    }
}
