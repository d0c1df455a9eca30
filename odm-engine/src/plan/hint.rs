//! What a caller demands of the plan.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::catalog::Collection;
use crate::direction::Direction;
use crate::error::{Error, Result, code};
use crate::index::IndexState;
use crate::value::{self, Number};

/// A parsed hint.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Hint {
    /// All documents, in order of insertion or against it: `{ $natural: -1 }`.
    Natural(Direction),
    /// The index with this name.
    Name(String),
    /// The index with this key.
    Key(RawDocumentBuf),
    /// The index with this number, hidden or not. Only the engine itself asks so.
    Number(u32),
}

impl Hint {
    /// Reads the name of an index, its key, or `{ $natural: 1 }`. The empty document is no hint.
    ///
    /// # Errors
    /// Something else (code 9), `$natural` beside a field (code 2).
    pub(crate) fn parse(hint: RawBsonRef<'_>) -> Result<Option<Hint>> {
        match hint {
            RawBsonRef::String(name) => Ok(Some(Hint::Name(name.to_owned()))),
            RawBsonRef::Document(key) if key.is_empty() => Ok(None),
            RawBsonRef::Document(key) => Ok(Some(match natural(key, "hint")? {
                Some(direction) => Hint::Natural(direction),
                None => Hint::Key(key.to_owned()),
            })),
            _ => {
                let message = "a hint is the name of an index or its key";
                Err(Error::server(code::FAILED_TO_PARSE, message))
            }
        }
    }

    /// The index, or `None` for `$natural`.
    ///
    /// # Errors
    /// No index fits (code 2), several do (code 27).
    pub(super) fn index<'c>(
        &self,
        collection: &'c Collection,
    ) -> Result<Option<&'c Arc<IndexState>>> {
        let mut fitting = collection.indexes.iter().filter(|state| match self {
            Hint::Natural(_) => false,
            Hint::Name(name) => !state.index.hidden && state.index.name == *name,
            Hint::Key(key) => {
                let own = state.index.key_pattern();
                let (own, key) = (RawBsonRef::Document(&own), RawBsonRef::Document(key));
                !state.index.hidden && value::equal(own, key)
            }
            Hint::Number(number) => state.id == *number,
        });
        let found = fitting.next();
        if fitting.next().is_some() {
            let message = "several indexes fit the hint; give the name of one";
            return Err(Error::server(code::INDEX_NOT_FOUND, message));
        }
        if found.is_none() && !matches!(self, Hint::Natural(_)) {
            let message = "no index fits the hint; list_indexes names those that there are";
            return Err(Error::bad_value(message));
        }
        Ok(found)
    }
}

/// The direction of a `$natural` order, if this is one. As on MongoDB, everything but a negative whole
/// number is forwards.
///
/// # Errors
/// `$natural` beside a field (code 2).
pub(crate) fn natural(specification: &RawDocument, what: &str) -> Result<Option<Direction>> {
    let Some(value) = value::get(specification, "$natural") else {
        return Ok(None);
    };
    if value::fields(specification).nth(1).is_some() {
        let message = format!("'$natural' cannot stand beside a field in a {what}");
        return Err(Error::bad_value(message));
    }
    let whole = Number::from_bson(value).and_then(Number::truncated);
    Ok(Some(match whole {
        Some(whole) if whole < 0 => Direction::Descending,
        _ => Direction::Ascending,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn a_hint_is_a_name_a_key_or_natural() {
        let parse = |key: RawDocumentBuf| Hint::parse(RawBsonRef::Document(&key));
        let code = |key: RawDocumentBuf| parse(key).unwrap_err().code();
        assert_eq!(parse(rawdoc! {}).unwrap(), None);
        let backwards = Some(Hint::Natural(Direction::Descending));
        assert_eq!(parse(rawdoc! { "$natural": -1.0 }).unwrap(), backwards);
        assert_eq!(code(rawdoc! { "$natural": 1, "a": 1 }), Some(2));
        let forwards = Some(Hint::Natural(Direction::Ascending));
        assert_eq!(parse(rawdoc! { "$natural": "up" }).unwrap(), forwards);
        let refused = Hint::parse(RawBsonRef::Int32(1)).unwrap_err();
        assert_eq!(refused.code(), Some(9));
    }
}
