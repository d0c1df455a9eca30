//! Wildcard indexes: entries for every path of a document that leads to a value.
//!
//! ```json
//! { "key": { "$**": 1 } }
//! { "key": { "attributes.$**": 1 } }
//! { "key": { "$**": 1 }, "wildcardProjection": { "attributes": 1, "tags": 1 } }
//! ```
//!
//! An entry has a path and a value. Documents are entered, and arrays one level: their elements have the
//! path of the array. What is empty is a value: an empty array as undefined, a document as itself; so is
//! an array in an array. A document of which nothing is indexed counts as empty, so that whatever is at a
//! path has an entry under it.

mod coverage;

use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};

use super::keys::Collector;
use super::{Collator, Index};
use crate::direction::Direction;
use crate::error::{Error, Result, code};
use crate::key::value::{encode, encode_collated};
use crate::value;

use coverage::Cover;
pub(crate) use coverage::Coverage;

/// The last component of the path of a wildcard index.
const WILDCARD: &str = "$**";

/// Whether the path of an index stands for all that begin like it.
pub(super) fn is_wildcard(path: &str) -> bool {
    path == WILDCARD || path.ends_with(".$**")
}

/// Refuses what a wildcard index cannot be, and what only a wildcard index can have.
pub(super) fn check(index: &Index) -> Result<()> {
    let cannot = |message: String| Err(Error::server(code::CANNOT_CREATE_INDEX, message));
    let wildcard = index.keys.iter().find(|(path, _)| is_wildcard(path));
    let Some((path, direction)) = wildcard else {
        if index.wildcard_projection.is_some() {
            let message = "wildcardProjection is only for wildcard indexes; leave it out";
            return Err(Error::bad_value(message));
        }
        return Ok(());
    };
    if index.keys.len() > 1 {
        return cannot("a wildcard index has one field".into());
    }
    if index.hashed.is_some() {
        return cannot(format!("'{path}' cannot be hashed"));
    }
    if *direction == Direction::Descending {
        return cannot(format!("'{path}' is always ascending; give it 1"));
    }
    if let Some(root) = root(path) {
        super::specification::check_path(root)?;
    }
    Coverage::of(index)?;
    if index.unique || index.sparse || index.expire_after.is_some() {
        return cannot("a wildcard index cannot be unique, sparse or a TTL index".into());
    }
    if index.version() < 2 {
        return cannot("a wildcard index has the version 2; leave v out".into());
    }
    Ok(())
}

/// The path that all indexed ones begin with, if there is one.
fn root(path: &str) -> Option<&str> {
    path.strip_suffix(WILDCARD)
        .and_then(|root| root.strip_suffix('.'))
}

/// Collects the keys of a document.
///
/// # Errors
/// Too deep nesting, too many bytes.
pub(super) fn collect(
    coverage: &Coverage,
    document: &RawDocument,
    collator: Option<&Collator>,
    keys: &mut Collector<'_>,
) -> Result<()> {
    let mut walk = Walk {
        path: String::new(),
        has_arrays: false,
        collator,
        keys,
    };
    walk.fields(document, coverage.root(), 0)?;
    if walk.has_arrays {
        keys.mark_multikey(0);
    }
    Ok(())
}

/// What the key of a value at a path begins with.
pub(crate) fn encode_path(path: &str, key: &mut Vec<u8>) -> Result<()> {
    encode(RawBsonRef::String(path), Direction::Ascending, key)
}

struct Walk<'k, 'c> {
    path: String,
    has_arrays: bool,
    /// What makes keys of the strings among the values; paths stay what they are.
    collator: Option<&'k Collator>,
    keys: &'k mut Collector<'c>,
}

impl Walk<'_, '_> {
    /// Adds what is in a document; the answer is whether that is anything.
    fn fields(&mut self, document: &RawDocument, cover: Cover<'_>, depth: usize) -> Result<bool> {
        let mut is_indexed = false;
        for (name, value) in value::fields(document) {
            let inner = cover.field(name);
            // No path leads to a name with a dot.
            if inner.is_nothing() || name.contains('.') {
                continue;
            }
            let length = self.path.len();
            if depth > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
            is_indexed |= match value {
                RawBsonRef::Array(array) => self.elements(array, inner, depth + 1)?,
                value => self.value(value, inner, depth + 1)?,
            };
            self.path.truncate(length);
        }
        Ok(is_indexed)
    }

    fn elements(&mut self, array: &RawArray, cover: Cover<'_>, depth: usize) -> Result<bool> {
        self.has_arrays = true;
        let mut is_indexed = false;
        for item in value::items(array) {
            is_indexed |= self.value(item, cover, depth)?;
        }
        if is_indexed {
            return Ok(true);
        }
        self.leaf(RawBsonRef::Undefined, cover)
    }

    fn value(&mut self, value: RawBsonRef<'_>, cover: Cover<'_>, depth: usize) -> Result<bool> {
        match value {
            RawBsonRef::Document(inner) => {
                if self.fields(inner, cover, depth)? {
                    return Ok(true);
                }
                self.leaf(RawBsonRef::Document(&RawDocumentBuf::new()), cover)
            }
            value => self.leaf(value, cover),
        }
    }

    fn leaf(&mut self, value: RawBsonRef<'_>, cover: Cover<'_>) -> Result<bool> {
        if !cover.has_values() {
            return Ok(false);
        }
        let mut key = Vec::with_capacity(self.path.len() + 16);
        encode_path(&self.path, &mut key)?;
        encode_collated(value, Direction::Ascending, self.collator, &mut key)?;
        self.keys.add(key)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, RawBson, rawdoc};

    use super::*;
    use crate::index::IndexState;
    use crate::index::keys::{Keys, keys_of};
    use crate::key::value::Decoder;

    fn keys(index: Index, document: &RawDocumentBuf) -> (Vec<(String, Bson)>, bool) {
        let state = IndexState::new(1, 1, index).unwrap();
        let Keys { keys, multikey, .. } = keys_of(&state, document).unwrap();
        let decoded = keys.iter().map(|key| {
            let mut decoder = Decoder::new(key);
            let path = decoder.next(Direction::Ascending).unwrap();
            let RawBson::String(path) = path else {
                panic!("{path:?}")
            };
            let value = decoder.next(Direction::Ascending).unwrap();
            assert!(decoder.is_at_end());
            (path, Bson::try_from(value).unwrap())
        });
        (decoded.collect(), multikey != 0)
    }

    fn wildcard(path: &str) -> Index {
        Index::new([(path, Direction::Ascending)])
    }

    fn pairs(expected: &[(&str, Bson)]) -> Vec<(String, Bson)> {
        let mut pairs: Vec<_> = expected.to_vec();
        pairs.sort_by_key(|(path, _)| *path);
        let owned = pairs
            .into_iter()
            .map(|(path, value)| (path.to_owned(), value));
        owned.collect()
    }

    #[test]
    fn every_path_that_leads_to_a_value_has_an_entry() {
        let document = rawdoc! {
            "_id": 1,
            "a": { "b": 1, "c": {}, "d": [] },
            "e": [1, { "f": 2 }, [3, [4]], {}],
            "g": RawBson::Null,
        };
        let (found, has_arrays) = keys(wildcard("$**"), &document);
        assert!(has_arrays);
        assert_eq!(
            found,
            pairs(&[
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
        assert!(!keys(wildcard("$**"), &rawdoc! { "a": { "b": 1 } }).1);
    }

    #[test]
    fn a_path_before_the_wildcard_is_where_it_begins() {
        let document = rawdoc! { "a": { "b": { "c": 1 }, "d": 2 }, "e": 3 };
        assert_eq!(
            keys(wildcard("a.b.$**"), &document).0,
            pairs(&[("a.b.c", 1.into())])
        );
        let document = rawdoc! { "a": { "b": 7 }, "_id": 1 };
        assert_eq!(
            keys(wildcard("a.b.$**"), &document).0,
            pairs(&[("a.b", 7.into())])
        );
        assert_eq!(
            keys(wildcard("_id.$**"), &document).0,
            pairs(&[("_id", 1.into())])
        );
    }

    #[test]
    fn a_projection_says_what_is_indexed() {
        let document = rawdoc! { "_id": 1, "a": [{ "b": 1, "c": 2 }, 5], "d": { "e": 3 } };
        let projected =
            |projection| keys(wildcard("$**").wildcard_projection(projection), &document).0;
        assert_eq!(projected(rawdoc! { "a.b": 1 }), pairs(&[("a.b", 1.into())]));
        assert_eq!(
            projected(rawdoc! { "a": { "b": 0 }, "_id": 1 }),
            pairs(&[
                ("_id", 1.into()),
                ("a", 5.into()),
                ("a.c", 2.into()),
                ("d.e", 3.into()),
            ])
        );
        // What is left of a document is empty.
        assert_eq!(
            projected(rawdoc! { "a": 0, "d.e": 0 }),
            pairs(&[("d", bson::doc! {}.into())])
        );
    }

    #[test]
    fn a_document_without_paths_counts_as_empty() {
        let document = rawdoc! { "a": { "x.y": 1 } };
        let expected = pairs(&[("a", bson::doc! {}.into())]);
        assert_eq!(keys(wildcard("$**"), &document).0, expected);
    }

    #[test]
    fn what_is_refused_has_its_number() {
        let code = |index: Index| index.check().err().and_then(|error| error.code());
        assert_eq!(code(wildcard("$**")), None);
        assert_eq!(code(wildcard("a.$**")), None);
        assert_eq!(code(wildcard(".$**")), Some(67));
        assert_eq!(code(wildcard("a.$b.$**")), Some(67));
        assert_eq!(code(wildcard("$**.$**")), Some(67));
        assert_eq!(code(wildcard("$**").unique()), Some(67));
        assert_eq!(code(wildcard("$**").sparse()), Some(67));
        assert_eq!(code(wildcard("$**").hashed("$**")), Some(67));
        assert_eq!(code(Index::new([("$**", Direction::Descending)])), Some(67));
        let both = [("$**", Direction::Ascending), ("a", Direction::Ascending)];
        assert_eq!(code(Index::new(both)), Some(67));
        let projected = |path| wildcard(path).wildcard_projection(rawdoc! { "a": 1 });
        assert_eq!(code(projected("b")), Some(2));
        assert_eq!(code(projected("b.$**")), Some(9));
    }
}
