//! `$rename`: moves a value to another path.
//!
//! ```text
//! { "$rename": { "nick": "name.nick" } }
//! in: { "nick": "Al", "name": { "first": "Alan" } }
//! out: { "name": { "first": "Alan", "nick": "Al" } }
//! ```

use std::collections::HashMap;

use bson::{RawBsonRef, RawDocument};

use super::operation::Operations;
use super::target::{Name, dotted};
use crate::path::Path;
use crate::{Error, Result, value};

pub(super) fn parse(
    operations: &mut Operations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    let RawBsonRef::String(to) = operand else {
        return Err(Error::bad_value(format!(
            "$rename of '{path}' takes the new name as a string"
        )));
    };
    operations.rename(path, to)
}

/// Checks that a value is not moved into or out of itself.
pub(super) fn check_apart(path: &str, to: &str) -> Result<()> {
    let (source, target) = (Path::new(path), Path::new(to));
    if source.starts_with(&target) || target.starts_with(&source) {
        return Err(Error::bad_value(format!(
            "$rename of '{path}' to '{to}' needs two paths of which none leads into the other"
        )));
    }
    Ok(())
}

/// How often fields are looked for one after the other before they are noted.
const MAX_SEARCHES: usize = 64;

/// A document before its update.
pub(super) struct Before<'d> {
    document: &'d RawDocument,
    searches: usize,
    /// The fields of the documents in it that have been looked into, by the address of the document, once
    /// that has happened often.
    noted: HashMap<usize, HashMap<&'d str, RawBsonRef<'d>>>,
}

impl<'d> Before<'d> {
    pub(super) fn new(document: &'d RawDocument) -> Before<'d> {
        Before {
            document,
            searches: 0,
            noted: HashMap::new(),
        }
    }

    /// The first field of this name in a document that is part of this one.
    fn get(&mut self, document: &'d RawDocument, name: &str) -> Option<RawBsonRef<'d>> {
        if self.searches < MAX_SEARCHES {
            self.searches += 1;
            return value::get(document, name);
        }
        let fields = self.noted.entry(document.as_bytes().as_ptr().addr());
        let fields = fields.or_insert_with(|| {
            let mut fields = HashMap::new();
            for (name, value) in value::fields(document) {
                fields.entry(name).or_insert(value);
            }
            fields
        });
        fields.get(name).copied()
    }
}

/// The value to move. `None` if there is none, in which case nothing happens.
///
/// # Errors
/// The path leads to a value through an array (code 2), or into a value that has no such fields (code 28).
pub(super) fn source<'d>(before: &mut Before<'d>, from: &Path) -> Result<Option<RawBsonRef<'d>>> {
    let mut value = RawBsonRef::Document(before.document);
    let mut is_in_array = false;
    for part in from.parts() {
        let next = match (value, part.index_in_update()) {
            (RawBsonRef::Document(inner), _) => before.get(inner, part.name()),
            (RawBsonRef::Array(array), Some(index)) => {
                is_in_array = true;
                value::items(array).nth(index)
            }
            (other, _) => {
                let (path, kind) = (from.as_str(), value::type_name(other));
                let message = format!("'{path}' leads through a value of type {kind}");
                return Err(Error::server(28, message));
            }
        };
        match next {
            Some(next) => value = next,
            None => return Ok(None),
        }
    }
    if is_in_array {
        return Err(through_array(from.as_str()));
    }
    Ok(Some(value))
}

/// Checks that the path to move to leads through no array, and not to `_id`.
pub(super) fn check_destination(before: &mut Before<'_>, to: &[Name]) -> Result<()> {
    if to.first().is_some_and(|first| first.as_str() == "_id") {
        return Err(Error::server(
            66,
            "$rename would change '_id', which never changes",
        ));
    }
    let mut value = Some(RawBsonRef::Document(before.document));
    for name in to {
        value = match value {
            Some(RawBsonRef::Document(inner)) => before.get(inner, name.as_str()),
            Some(RawBsonRef::Array(_)) => return Err(through_array(&dotted(to))),
            _ => return Ok(()),
        };
    }
    Ok(())
}

fn through_array(path: &str) -> Error {
    Error::bad_value(format!(
        "$rename cannot reach into an array, as '{path}' does"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::updated;
    use bson::{RawDocumentBuf, rawdoc};

    fn renamed(document: RawDocumentBuf) -> crate::Result<RawDocumentBuf> {
        updated(document, rawdoc! { "$rename": { "a.b": "c.d" } })
    }

    #[test]
    fn values_move() {
        let changed = renamed(rawdoc! { "a": { "b": 1, "x": 2 }, "c": { "d": 3 } }).unwrap();
        assert_eq!(changed, rawdoc! { "a": { "x": 2 }, "c": { "d": 1 } });
        assert_eq!(renamed(rawdoc! { "a": {} }).unwrap(), rawdoc! { "a": {} });
    }

    #[test]
    fn a_value_does_not_move_into_or_out_of_itself() {
        for renames in [
            rawdoc! { "a": "a" },
            rawdoc! { "a": "a.b" },
            rawdoc! { "a.b": "a" },
        ] {
            let refused = updated(rawdoc! {}, rawdoc! { "$rename": renames });
            assert_eq!(refused.unwrap_err().code(), Some(2));
        }
    }

    #[test]
    fn arrays_are_not_reached_into() {
        let code = |document| renamed(document).unwrap_err().code();
        assert_eq!(code(rawdoc! { "a": [{ "b": 1 }] }), Some(28));
        assert_eq!(code(rawdoc! { "a": { "b": 1 }, "c": [] }), Some(2));
        let of_item = |path: &str| {
            let mut paths = RawDocumentBuf::new();
            crate::document::append(&mut paths, path, "c");
            updated(rawdoc! { "a": [{ "b": 1 }] }, rawdoc! { "$rename": paths })
        };
        assert_eq!(of_item("a.0").unwrap_err().code(), Some(2));
        assert_eq!(of_item("a.0.b").unwrap_err().code(), Some(2));
        // What is not there is not moved, from wherever.
        assert!(of_item("a.1").is_ok());
    }
}
