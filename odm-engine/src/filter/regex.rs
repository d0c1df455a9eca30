//! `$regex` with `$options`: strings that match a pattern.
//!
//! ```text
//! { "name": { "$regex": "^al", "$options": "i" } }
//! in: { "name": "Alan" }
//! in: { "name": "Pascal" }
//! out: { "name": "Alan" }
//! ```

use bson::{RawBsonRef, RawDocument};

use super::parse::FieldOperand;
use super::{ValuePredicate, ValueTest};
use crate::pattern::Regex;
use crate::{Error, Result, value};

pub(super) fn parse_regex(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    let options = match value::get(operand.siblings, "$options") {
        None => None,
        Some(RawBsonRef::String(options)) => Some(options),
        Some(_) => return Err(Error::bad_value("$options must be a string")),
    };
    let regex = match operand.value {
        RawBsonRef::String(pattern) => Regex::new(pattern, options.unwrap_or_default())?,
        RawBsonRef::RegularExpression(literal) => {
            let options = combine_options(literal.options.as_str(), options, operand.siblings)?;
            Regex::new(literal.pattern.as_str(), options)?
        }
        _ => {
            return Err(Error::bad_value(
                "$regex must be a string or a regular expression",
            ));
        }
    };
    Ok(ValuePredicate::Test(ValueTest::Regex(regex)))
}

/// Combines the options of a regular expression literal with `$options`. As on MongoDB, empty
/// `$options` before `$regex` are ignored.
fn combine_options<'a>(
    literal_options: &'a str,
    separate_options: Option<&'a str>,
    siblings: &RawDocument,
) -> Result<&'a str> {
    let mut names = value::fields(siblings).map(|(name, _)| name);
    let options_first =
        names.find(|name| matches!(*name, "$options" | "$regex")) == Some("$options");
    match separate_options {
        None => Ok(literal_options),
        Some(options) if literal_options.is_empty() => Ok(options),
        Some("") if options_first => Ok(literal_options),
        Some(_) => {
            let code = if options_first { 51074 } else { 51075 };
            Err(Error::with_server_code(
                code,
                "options set in both $regex and $options",
            ))
        }
    }
}

/// Checks that `$options` has a `$regex` beside the options. [`parse_regex`] reads the options.
pub(super) fn parse_options(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    match value::get(operand.siblings, "$regex") {
        Some(_) => Ok(ValuePredicate::All(Vec::new())),
        None => Err(Error::bad_value("$options needs a $regex")),
    }
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
    use bson::raw::{CStr, cstr};
    use bson::{RawDocumentBuf, rawdoc};

    fn matches(filter: RawDocumentBuf, document: RawDocumentBuf) -> bool {
        Filter::parse(&filter).unwrap().matches(&document).unwrap()
    }

    #[test]
    fn patterns_are_found_anywhere() {
        assert!(matches(
            rawdoc! { "a": { "$regex": "b" } },
            rawdoc! { "a": ["x", "abc"] }
        ));
        assert!(matches(
            rawdoc! { "a": { "$regex": "^B", "$options": "i" } },
            rawdoc! { "a": "bc" }
        ));
        assert!(!matches(
            rawdoc! { "a": { "$regex": "1" } },
            rawdoc! { "a": 1 }
        ));
    }

    #[test]
    fn options_are_given_once() {
        let literal = |options: &CStr| bson::Regex {
            pattern: cstr!("a").into(),
            options: options.into(),
        };
        let code = |conditions: RawDocumentBuf| {
            let parsed = Filter::parse(&rawdoc! { "a": conditions });
            parsed.err().and_then(|error| error.code())
        };
        assert_eq!(
            code(rawdoc! { "$regex": literal(cstr!("")), "$options": "i" }),
            None
        );
        assert_eq!(
            code(rawdoc! { "$regex": literal(cstr!("m")), "$options": "" }),
            Some(51075)
        );
        assert_eq!(
            code(rawdoc! { "$options": "", "$regex": literal(cstr!("m")) }),
            None
        );
        assert_eq!(
            code(rawdoc! { "$options": "i", "$regex": literal(cstr!("m")) }),
            Some(51074)
        );
    }
}
