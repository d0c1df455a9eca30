//! Wildcard indexes: entries for every path of a document that has a value.
//!
//! ```json
//! { "key": { "$**": 1 } }
//! { "key": { "attributes.$**": 1 } }
//! { "key": { "$**": 1 }, "wildcardProjection": { "attributes": 1, "tags": 1 } }
//! ```
//!
//! An entry has a path and a value. The index descends into documents, and one level into arrays. The elements of an array have
//! the path of the array. An array inside an array is indexed as one value.
//!
//! An empty array is indexed as undefined, and an empty document as itself. A document without any indexed field also counts as
//! empty. So every path with a value has an entry.

mod coverage;

use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};

use super::Index;
use super::keys::KeyCollector;
use crate::collation::Collator;
use crate::direction::Direction;
use crate::error::{Error, Result, code};
use crate::key::value::{encode_indexed, encode_value};
use crate::value;

pub(crate) use coverage::Coverage;
use coverage::PathCover;

/// The last component of the path of a wildcard index.
const WILDCARD: &str = "$**";

/// Whether the path of an index is a wildcard, and stands for all paths with a prefix.
pub(super) fn is_wildcard(path: &str) -> bool {
    path == WILDCARD || path.ends_with(".$**")
}

/// Refuses definitions that a wildcard index does not allow, and wildcard options on other indexes.
pub(super) fn check_index(index: &Index) -> Result<()> {
    let creation_error =
        |message: String| Err(Error::with_server_code(code::CANNOT_CREATE_INDEX, message));
    let wildcard = index.keys.iter().find(|(path, _)| is_wildcard(path));
    let Some((path, direction)) = wildcard else {
        if index.wildcard_projection.is_some() {
            let message = "wildcardProjection is only for wildcard indexes; leave it out";
            return Err(Error::bad_value(message));
        }
        return Ok(());
    };
    if index.keys.len() > 1 {
        return creation_error("a wildcard index can have only one field".into());
    }
    if index.hashed.is_some() {
        return creation_error(format!("'{path}' cannot be hashed"));
    }
    if *direction == Direction::Descending {
        return creation_error(format!("'{path}' is always ascending; give it 1"));
    }
    if let Some(root) = path_prefix(path) {
        super::specification::check_path(root)?;
    }
    Coverage::of_index(index)?;
    if index.unique || index.sparse || index.expire_after.is_some() {
        return creation_error("a wildcard index cannot be unique, sparse or a TTL index".into());
    }
    if index.version() < 2 {
        return creation_error("a wildcard index must have version 2; leave out v".into());
    }
    Ok(())
}

/// Returns the common prefix of all indexed paths, if there is one.
fn path_prefix(path: &str) -> Option<&str> {
    path.strip_suffix(WILDCARD)
        .and_then(|root| root.strip_suffix('.'))
}

/// Collects the keys of a document.
///
/// # Errors
/// Nesting too deep, too many bytes.
pub(super) fn collect_keys(
    coverage: &Coverage,
    document: &RawDocument,
    collator: Option<&Collator>,
    keys: &mut KeyCollector<'_>,
) -> Result<()> {
    let mut key_walk = KeyWalk {
        path: String::new(),
        has_arrays: false,
        collator,
        keys,
    };
    key_walk.add_fields(document, coverage.root_cover(), 0)?;
    if key_walk.has_arrays {
        keys.mark_multikey(0);
    }
    Ok(())
}

/// Appends the encoded path, with which the key of a value begins.
pub(crate) fn encode_path(path: &str, key: &mut Vec<u8>) -> Result<()> {
    encode_value(RawBsonRef::String(path), Direction::Ascending, key)
}

struct KeyWalk<'k, 'c> {
    path: String,
    has_arrays: bool,
    /// The collator for strings among the values. Paths are not collated.
    collator: Option<&'k Collator>,
    keys: &'k mut KeyCollector<'c>,
}

impl KeyWalk<'_, '_> {
    /// Adds the keys of a document's fields. Returns whether there are any.
    fn add_fields(
        &mut self,
        document: &RawDocument,
        cover: PathCover<'_>,
        depth: usize,
    ) -> Result<bool> {
        let mut is_indexed = false;
        for (name, value) in value::fields(document) {
            let inner = cover.field_cover(name);
            // A name with a dot is unreachable by paths.
            if inner.is_nothing() || name.contains('.') {
                continue;
            }
            let length = self.path.len();
            if depth > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
            is_indexed |= match value {
                RawBsonRef::Array(array) => self.add_elements(array, inner, depth + 1)?,
                value => self.add_value(value, inner, depth + 1)?,
            };
            self.path.truncate(length);
        }
        Ok(is_indexed)
    }

    fn add_elements(
        &mut self,
        array: &RawArray,
        cover: PathCover<'_>,
        depth: usize,
    ) -> Result<bool> {
        self.has_arrays = true;
        let mut is_indexed = false;
        for item in value::items(array) {
            is_indexed |= self.add_value(item, cover, depth)?;
        }
        if is_indexed {
            return Ok(true);
        }
        self.add_leaf(RawBsonRef::Undefined, cover)
    }

    fn add_value(
        &mut self,
        value: RawBsonRef<'_>,
        cover: PathCover<'_>,
        depth: usize,
    ) -> Result<bool> {
        match value {
            RawBsonRef::Document(inner) => {
                if self.add_fields(inner, cover, depth)? {
                    return Ok(true);
                }
                self.add_leaf(RawBsonRef::Document(&RawDocumentBuf::new()), cover)
            }
            value => self.add_leaf(value, cover),
        }
    }

    fn add_leaf(&mut self, value: RawBsonRef<'_>, cover: PathCover<'_>) -> Result<bool> {
        if !cover.has_values() {
            return Ok(false);
        }
        let mut key = Vec::with_capacity(self.path.len() + 16);
        encode_path(&self.path, &mut key)?;
        encode_indexed(value, Direction::Ascending, self.collator, &mut key)?;
        self.keys.add_key(key)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, RawBson, rawdoc};

    use super::*;
    use crate::index::IndexState;
    use crate::index::keys::{IndexKeys, keys_of};
    use crate::key::value::KeyDecoder;

    fn index_keys(index: Index, document: &RawDocumentBuf) -> (Vec<(String, Bson)>, bool) {
        let state = IndexState::new(1, 1, index).unwrap();
        let IndexKeys { keys, multikey, .. } = keys_of(&state, document).unwrap();
        let decoded = keys.iter().map(|key| {
            let mut decoder = KeyDecoder::new(key);
            let path = decoder.next_value(Direction::Ascending).unwrap();
            let RawBson::String(path) = path else {
                panic!("{path:?}")
            };
            let value = decoder.next_value(Direction::Ascending).unwrap();
            assert!(decoder.is_at_end());
            (path, Bson::try_from(value).unwrap())
        });
        (decoded.collect(), multikey != 0)
    }

    fn wildcard_index(path: &str) -> Index {
        Index::new([(path, Direction::Ascending)])
    }

    fn sorted_pairs(expected: &[(&str, Bson)]) -> Vec<(String, Bson)> {
        let mut pairs: Vec<_> = expected.to_vec();
        pairs.sort_by_key(|(path, _)| *path);
        let conditions = pairs
            .into_iter()
            .map(|(path, value)| (path.to_owned(), value));
        conditions.collect()
    }

    #[test]
    fn every_path_that_leads_to_a_value_has_an_entry() {
        let document = rawdoc! {
            "_id": 1,
            "a": { "b": 1, "c": {}, "d": [] },
            "e": [1, { "f": 2 }, [3, [4]], {}],
            "g": RawBson::Null,
        };
        let (keys, has_arrays) = index_keys(wildcard_index("$**"), &document);
        assert!(has_arrays);
        assert_eq!(
            keys,
            sorted_pairs(&[
                ("a.b", 1.into()),
                ("a.c", bson::doc! {}.into()),
                ("a.d", Bson::Undefined),
                ("e", 1.into()),
                ("e", bson::doc! {}.into()),
                ("e", bson::bson!([3, [4]])),
                ("e.f", 2.into()),
                ("g", Bson::Null),
            ])
        );
        assert!(!index_keys(wildcard_index("$**"), &rawdoc! { "a": { "b": 1 } }).1);
    }

    #[test]
    fn a_prefix_path_limits_the_wildcard() {
        let document = rawdoc! { "a": { "b": { "c": 1 }, "d": 2 }, "e": 3 };
        assert_eq!(
            index_keys(wildcard_index("a.b.$**"), &document).0,
            sorted_pairs(&[("a.b.c", 1.into())])
        );
        let document = rawdoc! { "a": { "b": 7 }, "_id": 1 };
        assert_eq!(
            index_keys(wildcard_index("a.b.$**"), &document).0,
            sorted_pairs(&[("a.b", 7.into())])
        );
        assert_eq!(
            index_keys(wildcard_index("_id.$**"), &document).0,
            sorted_pairs(&[("_id", 1.into())])
        );
    }

    #[test]
    fn a_projection_selects_the_indexed_paths() {
        let document = rawdoc! { "_id": 1, "a": [{ "b": 1, "c": 2 }, 5], "d": { "e": 3 } };
        let projected = |projection| {
            index_keys(
                wildcard_index("$**").wildcard_projection(projection),
                &document,
            )
            .0
        };
        assert_eq!(
            projected(rawdoc! { "a.b": 1 }),
            sorted_pairs(&[("a.b", 1.into())])
        );
        assert_eq!(
            projected(rawdoc! { "a": { "b": 0 }, "_id": 1 }),
            sorted_pairs(&[
                ("_id", 1.into()),
                ("a", 5.into()),
                ("a.c", 2.into()),
                ("d.e", 3.into()),
            ])
        );
        // The projection leaves an empty document.
        assert_eq!(
            projected(rawdoc! { "a": 0, "d.e": 0 }),
            sorted_pairs(&[("d", bson::doc! {}.into())])
        );
    }

    #[test]
    fn a_document_without_paths_counts_as_empty() {
        let document = rawdoc! { "a": { "x.y": 1 } };
        let expected = sorted_pairs(&[("a", bson::doc! {}.into())]);
        assert_eq!(index_keys(wildcard_index("$**"), &document).0, expected);
    }

    #[test]
    fn refused_wildcard_indexes_have_mongodb_codes() {
        let code = |index: Index| {
            index
                .check_definition()
                .err()
                .and_then(|error| error.code())
        };
        assert_eq!(code(wildcard_index("$**")), None);
        assert_eq!(code(wildcard_index("a.$**")), None);
        assert_eq!(code(wildcard_index(".$**")), Some(67));
        assert_eq!(code(wildcard_index("a.$b.$**")), Some(67));
        assert_eq!(code(wildcard_index("$**.$**")), Some(67));
        assert_eq!(code(wildcard_index("$**").unique()), Some(67));
        assert_eq!(code(wildcard_index("$**").sparse()), Some(67));
        assert_eq!(code(wildcard_index("$**").hashed("$**")), Some(67));
        assert_eq!(code(Index::new([("$**", Direction::Descending)])), Some(67));
        let both = [("$**", Direction::Ascending), ("a", Direction::Ascending)];
        assert_eq!(code(Index::new(both)), Some(67));
        let projected = |path| wildcard_index(path).wildcard_projection(rawdoc! { "a": 1 });
        assert_eq!(code(projected("b")), Some(2));
        assert_eq!(code(projected("b.$**")), Some(9));
    }
}
