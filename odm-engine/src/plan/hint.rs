//! Hints: a caller's choice of an index.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::catalog::Collection;
use crate::direction::Direction;
use crate::error::{Error, Result, code};
use crate::index::IndexState;
use crate::value::{self, Number};

/// A parsed hint.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum IndexHint {
    /// A collection scan, in order of insertion or in reverse: `{ $natural: -1 }`.
    Natural(Direction),
    /// The index with this name.
    Name(String),
    /// The index with this key.
    Key(RawDocumentBuf),
    /// The index with this number, hidden or not. Only the engine itself uses this hint.
    Number(u32),
}

impl IndexHint {
    /// Parses the name of an index, its key, or `{ $natural: 1 }`. An empty document is no hint.
    ///
    /// # Errors
    /// A value of a different type (code 9), `$natural` together with a field (code 2).
    pub(crate) fn parse(hint: RawBsonRef<'_>) -> Result<Option<IndexHint>> {
        match hint {
            RawBsonRef::String(name) => Ok(Some(IndexHint::Name(name.to_owned()))),
            RawBsonRef::Document(key) if key.is_empty() => Ok(None),
            RawBsonRef::Document(key) => Ok(Some(match parse_natural(key, "hint")? {
                Some(direction) => IndexHint::Natural(direction),
                None => IndexHint::Key(key.to_owned()),
            })),
            _ => {
                let message = "a hint must be the name or the key of an index";
                Err(Error::with_server_code(code::FAILED_TO_PARSE, message))
            }
        }
    }

    /// Returns the hinted index, or `None` for `$natural`.
    ///
    /// # Errors
    /// No index matches (code 2), several indexes match (code 27).
    pub(super) fn find_index<'c>(
        &self,
        collection: &'c Collection,
    ) -> Result<Option<&'c Arc<IndexState>>> {
        let mut matches = collection.indexes.iter().filter(|state| match self {
            IndexHint::Natural(_) => false,
            IndexHint::Name(name) => !state.index.hidden && state.index.name == *name,
            IndexHint::Key(key) => {
                let pattern = state.index.key_pattern();
                let (pattern, key) = (RawBsonRef::Document(&pattern), RawBsonRef::Document(key));
                !state.index.hidden && value::equal(pattern, key)
            }
            IndexHint::Number(number) => state.id == *number,
        });
        let index = matches.next();
        if matches.next().is_some() {
            let message = "several indexes match the hint; use the name of an index as hint";
            return Err(Error::with_server_code(code::INDEX_NOT_FOUND, message));
        }
        if index.is_none() && !matches!(self, IndexHint::Natural(_)) {
            let message = "no index matches the hint; list_indexes returns the existing indexes";
            return Err(Error::bad_value(message));
        }
        Ok(index)
    }
}

/// Returns the direction of a `$natural` order, if the specification has one. As on MongoDB, only a negative integer means
/// backwards.
///
/// # Errors
/// `$natural` together with a field (code 2).
pub(crate) fn parse_natural(
    specification: &RawDocument,
    context: &str,
) -> Result<Option<Direction>> {
    let Some(value) = value::get(specification, "$natural") else {
        return Ok(None);
    };
    if value::fields(specification).nth(1).is_some() {
        let message = format!("'$natural' cannot be combined with a field in a {context}");
        return Err(Error::bad_value(message));
    }
    let integer = Number::from_bson(value).and_then(Number::truncated_long);
    Ok(Some(match integer {
        Some(integer) if integer < 0 => Direction::Descending,
        _ => Direction::Ascending,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn a_hint_is_a_name_a_key_or_natural() {
        let parse = |key: RawDocumentBuf| IndexHint::parse(RawBsonRef::Document(&key));
        let code = |key: RawDocumentBuf| parse(key).unwrap_err().code();
        assert_eq!(parse(rawdoc! {}).unwrap(), None);
        let backwards = Some(IndexHint::Natural(Direction::Descending));
        assert_eq!(parse(rawdoc! { "$natural": -1.0 }).unwrap(), backwards);
        assert_eq!(code(rawdoc! { "$natural": 1, "a": 1 }), Some(2));
        let forwards = Some(IndexHint::Natural(Direction::Ascending));
        assert_eq!(parse(rawdoc! { "$natural": "up" }).unwrap(), forwards);
        let rejection = IndexHint::parse(RawBsonRef::Int32(1)).unwrap_err();
        assert_eq!(rejection.code(), Some(9));
    }
}
