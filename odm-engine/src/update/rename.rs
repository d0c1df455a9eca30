//! `$rename`: moves a value to another path.
//!
//! ```text
//! { "$rename": { "nick": "name.nick" } }
//! in: { "nick": "Al", "name": { "first": "Alan" } }
//! out: { "name": { "first": "Alan", "nick": "Al" } }
//! ```

use std::collections::HashMap;

use bson::{RawBsonRef, RawDocument};

use super::operation::UpdateOperations;
use super::target::{PathName, dotted_path};
use crate::path::Path;
use crate::{Error, Result, value};

pub(super) fn parse_rename(
    operations: &mut UpdateOperations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    let RawBsonRef::String(destination) = operand else {
        return Err(Error::bad_value(format!(
            "$rename of '{path}' needs the new path as a string"
        )));
    };
    operations.push_rename(path, destination)
}

/// Checks that neither path lies inside the other.
pub(super) fn ensure_separate_paths(path: &str, destination: &str) -> Result<()> {
    let (source, target) = (Path::new(path), Path::new(destination));
    if source.starts_with(&target) || target.starts_with(&source) {
        return Err(Error::bad_value(format!(
            "$rename of '{path}' to '{destination}': neither path may contain the other"
        )));
    }
    Ok(())
}

/// The number of linear searches for a field before an index of the fields is built.
const MAX_ORIGINAL_FIELD_SEARCHES: usize = 64;

/// A document before the update.
pub(super) struct OriginalDocument<'d> {
    document: &'d RawDocument,
    searches: usize,
    /// The fields of nested documents by the address of the document, filled after many searches.
    field_index: HashMap<usize, HashMap<&'d str, RawBsonRef<'d>>>,
}

impl<'d> OriginalDocument<'d> {
    pub(super) fn new(document: &'d RawDocument) -> OriginalDocument<'d> {
        OriginalDocument {
            document,
            searches: 0,
            field_index: HashMap::new(),
        }
    }

    /// Returns the first field of this name in the document or a nested document.
    fn get_field(&mut self, document: &'d RawDocument, name: &str) -> Option<RawBsonRef<'d>> {
        if self.searches < MAX_ORIGINAL_FIELD_SEARCHES {
            self.searches += 1;
            return value::get(document, name);
        }
        let fields = self.field_index.entry(document.as_bytes().as_ptr().addr());
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

/// Returns the value to move. `None` if the source is missing, so that `$rename` does nothing.
///
/// # Errors
/// The path leads to a value through an array (code 2), or into a value that cannot have fields
/// (code 28).
pub(super) fn source_value<'d>(
    before: &mut OriginalDocument<'d>,
    from: &Path,
) -> Result<Option<RawBsonRef<'d>>> {
    let mut value = RawBsonRef::Document(before.document);
    let mut is_in_array = false;
    for part in from.parts() {
        let next = match (value, part.index_in_update()) {
            (RawBsonRef::Document(inner), _) => before.get_field(inner, part.name()),
            (RawBsonRef::Array(array), Some(index)) => {
                is_in_array = true;
                value::items(array).nth(index)
            }
            (other, _) => {
                let (path, kind) = (from.as_str(), value::type_name(other));
                let message = format!("cannot reach '{path}' through a value of type {kind}");
                return Err(Error::with_server_code(28, message));
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

/// Checks that the destination is not `_id` and does not lead through an array.
pub(super) fn check_destination(
    before: &mut OriginalDocument<'_>,
    destination: &[PathName],
) -> Result<()> {
    if destination
        .first()
        .is_some_and(|first| first.as_str() == "_id")
    {
        return Err(Error::with_server_code(
            66,
            "$rename cannot change '_id': the field is immutable",
        ));
    }
    let mut value = Some(RawBsonRef::Document(before.document));
    for name in destination {
        value = match value {
            Some(RawBsonRef::Document(inner)) => before.get_field(inner, name.as_str()),
            Some(RawBsonRef::Array(_)) => return Err(through_array(&dotted_path(destination))),
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
    use super::super::tests::apply_update;
    use bson::{RawDocumentBuf, rawdoc};

    fn apply_rename(document: RawDocumentBuf) -> crate::Result<RawDocumentBuf> {
        apply_update(document, rawdoc! { "$rename": { "a.b": "c.d" } })
    }

    #[test]
    fn rename_moves_values() {
        let changed = apply_rename(rawdoc! { "a": { "b": 1, "x": 2 }, "c": { "d": 3 } }).unwrap();
        assert_eq!(changed, rawdoc! { "a": { "x": 2 }, "c": { "d": 1 } });
        assert_eq!(
            apply_rename(rawdoc! { "a": {} }).unwrap(),
            rawdoc! { "a": {} }
        );
    }

    #[test]
    fn a_value_does_not_move_into_or_out_of_itself() {
        for renames in [
            rawdoc! { "a": "a" },
            rawdoc! { "a": "a.b" },
            rawdoc! { "a.b": "a" },
        ] {
            let rejection = apply_update(rawdoc! {}, rawdoc! { "$rename": renames });
            assert_eq!(rejection.unwrap_err().code(), Some(2));
        }
    }

    #[test]
    fn rename_does_not_enter_arrays() {
        let code = |document| apply_rename(document).unwrap_err().code();
        assert_eq!(code(rawdoc! { "a": [{ "b": 1 }] }), Some(28));
        assert_eq!(code(rawdoc! { "a": { "b": 1 }, "c": [] }), Some(2));
        let of_item = |path: &str| {
            let mut paths = RawDocumentBuf::new();
            crate::document::append_field(&mut paths, path, "c");
            apply_update(rawdoc! { "a": [{ "b": 1 }] }, rawdoc! { "$rename": paths })
        };
        assert_eq!(of_item("a.0").unwrap_err().code(), Some(2));
        assert_eq!(of_item("a.0.b").unwrap_err().code(), Some(2));
        // A missing source moves nothing, for every destination.
        assert!(of_item("a.1").is_ok());
    }
}
