//! `$regex` with `$options`: a string in which a pattern is found.
//!
//! ```json
//! { "name": { "$regex": "^al", "$options": "i" } }
//! ```

use bson::RawBsonRef;

use super::parse::Operand;
use super::{Predicate, Test};
use crate::pattern::Regex;
use crate::{Error, Result, value};

pub(super) fn parse(operand: &Operand<'_>) -> Result<Predicate> {
    let options = match value::get(operand.siblings, "$options") {
        None => None,
        Some(RawBsonRef::String(options)) => Some(options),
        Some(_) => return Err(Error::bad_value("$options has to be a string")),
    };
    let regex = match operand.value {
        RawBsonRef::String(pattern) => Regex::new(pattern, options.unwrap_or_default())?,
        RawBsonRef::RegularExpression(literal) => {
            let own = literal.options.as_str();
            if options.is_some() && !own.is_empty() {
                return Err(Error::server(
                    51075,
                    "options set in both $regex and $options",
                ));
            }
            Regex::new(literal.pattern.as_str(), options.unwrap_or(own))?
        }
        _ => {
            return Err(Error::bad_value(
                "$regex has to be a string or a regular expression",
            ));
        }
    };
    Ok(Predicate::Test(Test::Regex(regex)))
}

/// The options are read by [`parse`]; all there is to check is that it has something to read.
pub(super) fn parse_options(operand: &Operand<'_>) -> Result<Predicate> {
    match value::get(operand.siblings, "$regex") {
        Some(_) => Ok(Predicate::All(Vec::new())),
        None => Err(Error::bad_value("$options needs a $regex")),
    }
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
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
}
