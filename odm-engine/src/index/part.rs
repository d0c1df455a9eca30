//! The part of a document that an index has, so that a query of no more than that need not read the
//! document.
//!
//! A key does not say all of it: `1` and `1.0` have one key, so have a missing field and null, and the
//! order of the fields in the document is not in it. Where the key leads back to another part than the
//! document's, the part stands beside the key; mostly nothing does.

use std::sync::Arc;

use bson::raw::CString;
use bson::{RawBson, RawDocument, RawDocumentBuf};

use super::Index;
use crate::document::append;
use crate::error::{Error, Result};
use crate::key::value::Decoder;
use crate::path::{Part as Component, Path};
use crate::projection::Projection;

/// How the part of a document is found.
#[derive(Debug)]
pub(crate) struct Part {
    projection: Projection,
}

impl Part {
    /// `None` where no projection gives the fields of the index: one of them lies in another.
    pub(super) fn new(paths: &[Path]) -> Option<Part> {
        let mut fields = RawDocumentBuf::new();
        for path in paths {
            append(&mut fields, path.as_str(), true);
        }
        if !paths.iter().any(|path| path.as_str() == "_id") {
            append(&mut fields, "_id", false);
        }
        let projection = Projection::parse(&fields, &Arc::default()).ok()?;
        Some(Part { projection })
    }

    /// What stands beside the only key of a document that has no array in these fields.
    pub(super) fn beside(
        &self,
        index: &Index,
        paths: &[Path],
        document: &RawDocument,
        key: &[u8],
    ) -> Result<Vec<u8>> {
        let part = self.projection.apply_plainly(document)?;
        Ok(match rebuild(index, paths, key) {
            Some(rebuilt) if rebuilt.as_bytes() == part.as_bytes() => Vec::new(),
            _ => part.into_bytes(),
        })
    }
}

/// The part of the document that has this key, with this beside it.
pub(super) fn read(
    index: &Index,
    paths: &[Path],
    key: &[u8],
    beside: &[u8],
) -> Result<RawDocumentBuf> {
    let damaged = || Error::damaged(format!("a key of the index {} cannot be read", index.name));
    if beside.is_empty() {
        return rebuild(index, paths, key).ok_or_else(damaged);
    }
    RawDocumentBuf::from_bytes(beside.to_vec()).map_err(|_| damaged())
}

/// The part that a key alone says.
fn rebuild(index: &Index, paths: &[Path], key: &[u8]) -> Option<RawDocumentBuf> {
    let mut decoder = Decoder::new(key);
    let mut fields = Fields::default();
    for (path, (_, direction)) in paths.iter().zip(&index.keys) {
        fields.insert(path.parts(), decoder.next(*direction)?);
    }
    (decoder.is_at_end()).then(|| fields.into_document())?
}

/// Fields in the order in which an index names them, those of one document together.
#[derive(Default)]
struct Fields<'p>(Vec<(&'p str, Node<'p>)>);

enum Node<'p> {
    Value(RawBson),
    Inner(Fields<'p>),
}

impl<'p> Fields<'p> {
    fn insert(&mut self, path: &'p [Component], value: RawBson) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        if rest.is_empty() {
            self.0.push((first.name(), Node::Value(value)));
            return;
        }
        let known = self.0.iter_mut().find(|(name, _)| *name == first.name());
        if let Some((_, Node::Inner(inner))) = known {
            inner.insert(rest, value);
        } else {
            let mut inner = Fields::default();
            inner.insert(rest, value);
            self.0.push((first.name(), Node::Inner(inner)));
        }
    }

    fn into_document(self) -> Option<RawDocumentBuf> {
        let mut document = RawDocumentBuf::new();
        for (name, node) in self.0 {
            let value = match node {
                Node::Value(value) => value,
                Node::Inner(inner) => RawBson::Document(inner.into_document()?),
            };
            document.append(CString::try_from(name).ok()?, value);
        }
        Some(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::Direction;
    use crate::index::IndexState;
    use crate::index::keys::keys_of;
    use bson::{Bson, doc};
    use proptest::prelude::*;

    fn state(paths: &[&str]) -> IndexState {
        let keys = paths.iter().enumerate().map(|(position, path)| {
            let directions = [Direction::Ascending, Direction::Descending];
            (*path, directions[position % 2])
        });
        IndexState::new(1, 1, Index::new(keys)).unwrap()
    }

    fn entry(state: &IndexState, document: &bson::Document) -> (Vec<u8>, Vec<u8>) {
        let document = RawDocumentBuf::try_from(document).unwrap();
        let keys = keys_of(state, &document).unwrap();
        (keys.keys.into_iter().next().unwrap(), keys.beside)
    }

    #[test]
    fn plain_values_need_nothing_beside_the_key() {
        let state = state(&["a", "b.c", "b.d", "e"]);
        let id = bson::oid::ObjectId::new();
        let (_, beside) = entry(
            &state,
            &doc! { "a": 1, "b": { "c": "x", "d": 2.5 }, "e": id },
        );
        assert!(beside.is_empty());
    }

    #[test]
    fn what_a_key_cannot_tell_stands_beside_it() {
        let state = state(&["a", "b"]);
        for document in [
            doc! { "a": 1.0, "b": 1 },
            doc! { "a": 1 },
            doc! { "b": 1, "a": 1 },
            doc! { "a": 1, "b": Bson::Symbol("x".into()) },
        ] {
            assert!(!entry(&state, &document).1.is_empty(), "{document}");
        }
    }

    fn value() -> impl Strategy<Value = Bson> {
        let scalar = prop_oneof![
            any::<i32>().prop_map(Bson::from),
            any::<i64>().prop_map(Bson::from),
            any::<f64>().prop_map(Bson::from),
            (-5..5_i32).prop_map(|number| Bson::from(f64::from(number))),
            (-5..5_i64).prop_map(Bson::from),
            Just(Bson::Decimal128("1.0".parse().unwrap())),
            Just(Bson::Null),
            Just(Bson::Double(-0.0)),
            "[a\0]{0,3}".prop_map(Bson::from),
            "[a]{0,3}".prop_map(Bson::Symbol),
            any::<bool>().prop_map(Bson::from),
            any::<i64>().prop_map(|millis| Bson::DateTime(bson::DateTime::from_millis(millis))),
        ];
        scalar.prop_recursive(2, 6, 3, |inner| {
            let fields = prop::collection::btree_map("[bcx]", inner.clone(), 0..3);
            prop_oneof![
                fields.prop_map(|fields| Bson::Document(fields.into_iter().collect())),
                prop::collection::vec(inner, 0..2)
                    .prop_map(|items| Bson::Document(doc! { "x": items })),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_part_is_that_of_the_document_byte_by_byte(
            fields in prop::collection::vec((prop::sample::select(vec!["a", "b", "z"]), value()), 0..4),
        ) {
            let document: bson::Document = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let state = state(&["a", "b.c", "b.d"]);
            let raw = RawDocumentBuf::try_from(&document).unwrap();
            let keys = keys_of(&state, &raw).unwrap();
            if keys.multikey == 0 {
                let key = keys.keys.iter().next().unwrap();
                let part = state.part_of(key, &keys.beside).unwrap();
                let projection = doc! { "a": 1, "b.c": 1, "b.d": 1, "_id": 0 };
                let projection = RawDocumentBuf::try_from(&projection).unwrap();
                let expected = Projection::parse(&projection, &Arc::default()).unwrap();
                let expected = expected.apply_plainly(&raw).unwrap();
                prop_assert_eq!(part.as_bytes(), expected.as_bytes());
            }
        }
    }
}
