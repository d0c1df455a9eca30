//! Key tuples: the values under which an index stores a document and by which a sort orders
//! documents.

use bson::{RawArray, RawBsonRef, RawDocument};

use super::{Path, PathPart};
use crate::value;

/// The reason why a document has no key tuples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyError {
    /// Two paths lead through different arrays. Holds the names of the arrays.
    ParallelArrays(String, String),
    /// A number in a path is both a position and a field of an element. Holds the number.
    AmbiguousPosition(String),
}

/// Returns the tuples of values at the paths, one for each element of the array that the paths
/// share.
///
/// A path without a value gives `None`, an empty array gives undefined. Equal array elements give
/// equal tuples.
///
/// # Errors
/// The document fits neither the index nor the sort: see [`KeyError`].
pub(crate) fn key_tuples<'d>(
    paths: &[Path],
    document: &'d RawDocument,
) -> Result<Vec<Vec<Option<RawBsonRef<'d>>>>, KeyError> {
    let mut tuples = TupleCollector { found: Vec::new() };
    let fields = paths
        .iter()
        .map(|path| KeyField {
            rest: &path.parts,
            value: None,
            indexed: None,
        })
        .collect();
    tuples.collect_tuples(fields, Some(document))?;
    Ok(tuples.found)
}

/// The state of one path while the tuples are collected.
#[derive(Debug, Clone)]
struct KeyField<'p, 'd> {
    /// The remaining path. Empty once `value` is final.
    rest: &'p [PathPart],
    value: Option<RawBsonRef<'d>>,
    /// The array element that the next component names by position, if any.
    indexed: Option<PositionValue<'p, 'd>>,
}

/// The value at a position in a path, looked up before the elements are visited one by one.
#[derive(Debug, Clone, Copy)]
struct PositionValue<'p, 'd> {
    value: Option<RawBsonRef<'d>>,
    rest: &'p [PathPart],
    /// Whether the position names an array inside an array, which is one value and is not expanded
    /// again.
    nested: bool,
}

struct TupleCollector<'d> {
    found: Vec<Vec<Option<RawBsonRef<'d>>>>,
}

impl<'d> TupleCollector<'d> {
    /// Collects the tuples below `document`, where the remaining paths start. `None` if the array
    /// element is not a document.
    fn collect_tuples(
        &mut self,
        mut fields: Vec<KeyField<'_, 'd>>,
        document: Option<&'d RawDocument>,
    ) -> Result<(), KeyError> {
        let mut shared: Option<(&'d RawArray, &str)> = None;
        let mut in_array = vec![false; fields.len()];
        let mut expand_leaf = true;
        for (field, in_array) in fields.iter_mut().zip(&mut in_array) {
            let Some(part) = field.rest.first() else {
                continue;
            };
            let direct = document.and_then(|document| value::get(document, part.name()));
            let (value, rest) = match (direct, field.indexed.take()) {
                (Some(_), Some(_)) => {
                    return Err(KeyError::AmbiguousPosition(part.name().to_owned()));
                }
                (Some(_), None) => follow_to_array(field.rest, document),
                (None, Some(indexed)) => {
                    if indexed.nested && indexed.rest.is_empty() {
                        expand_leaf = false;
                    }
                    (indexed.value, indexed.rest)
                }
                (None, None) => (None, &[][..]),
            };
            field.rest = rest;
            field.value = value;
            if let Some(RawBsonRef::Array(array)) = value {
                *in_array = true;
                match shared {
                    None => shared = Some((array, part.name())),
                    Some((other, _)) if std::ptr::eq(other, array) => {}
                    Some((_, other)) => {
                        let (first, second) = (part.name().to_owned(), other.to_owned());
                        return Err(KeyError::ParallelArrays(first, second));
                    }
                }
            } else {
                field.rest = &[];
            }
        }
        let Some((array, _)) = shared else {
            self.found
                .push(fields.into_iter().map(|field| field.value).collect());
            return Ok(());
        };
        for (field, _) in fields
            .iter_mut()
            .zip(&in_array)
            .filter(|(_, in_array)| **in_array)
        {
            field.indexed = value_at_position(array, field.rest);
        }
        if array.is_empty() {
            let element = RawBsonRef::Undefined;
            return self.collect_element(fields, &in_array, element, array, true);
        }
        for element in value::items(array) {
            self.collect_element(fields.clone(), &in_array, element, array, expand_leaf)?;
        }
        Ok(())
    }

    fn collect_element(
        &mut self,
        mut fields: Vec<KeyField<'_, 'd>>,
        in_array: &[bool],
        element: RawBsonRef<'d>,
        array: &'d RawArray,
        expand_leaf: bool,
    ) -> Result<(), KeyError> {
        for (field, _) in fields
            .iter_mut()
            .zip(in_array)
            .filter(|(_, in_array)| **in_array)
        {
            if field.rest.is_empty() {
                let array_value = RawBsonRef::Array(array);
                field.value = Some(if expand_leaf { element } else { array_value });
            }
        }
        self.collect_tuples(fields, element.as_document())
    }
}

/// Follows a path to the end, or to the first array on the path.
fn follow_to_array<'p, 'd>(
    parts: &'p [PathPart],
    document: Option<&'d RawDocument>,
) -> (Option<RawBsonRef<'d>>, &'p [PathPart]) {
    let mut parts = parts;
    let mut document = document;
    while let (Some((part, rest)), Some(current)) = (parts.split_first(), document) {
        match value::get(current, part.name()) {
            Some(RawBsonRef::Document(inner)) if !rest.is_empty() => {
                (parts, document) = (rest, Some(inner));
            }
            Some(value @ RawBsonRef::Array(_)) => return (Some(value), rest),
            value if rest.is_empty() => return (value, rest),
            _ => return (None, &[]),
        }
    }
    (None, &[])
}

/// Follows a path into an array if the first component is a position in the array.
fn value_at_position<'p, 'd>(
    array: &'d RawArray,
    parts: &'p [PathPart],
) -> Option<PositionValue<'p, 'd>> {
    let (part, rest) = parts.split_first()?;
    let element = value::items(array).nth(part.index()?)?;
    let nested = matches!(element, RawBsonRef::Array(_));
    let (value, rest) = match (element, rest.is_empty()) {
        (element, true) | (element @ RawBsonRef::Array(_), false) => (Some(element), rest),
        (RawBsonRef::Document(inner), false) => follow_to_array(rest, Some(inner)),
        (_, false) => (None, &[][..]),
    };
    Some(PositionValue {
        value,
        rest,
        nested,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::LeafArrayMode;
    use bson::{Bson, RawBson, RawDocumentBuf, bson, rawdoc};
    use proptest::prelude::*;

    fn key_documents(paths: &[&str], document: &RawDocumentBuf) -> Result<Vec<Bson>, KeyError> {
        let paths: Vec<_> = paths.iter().map(|path| Path::new(path)).collect();
        let tuples = key_tuples(&paths, document)?;
        let to_bson = |value: Option<RawBsonRef<'_>>| {
            value.map_or(Bson::String("missing".into()), |value| {
                Bson::try_from(RawBson::from(value)).unwrap()
            })
        };
        Ok(tuples
            .into_iter()
            .map(|tuple| Bson::Array(tuple.into_iter().map(to_bson).collect()))
            .collect())
    }

    #[test]
    fn values_of_one_array_stay_together() {
        let document = rawdoc! { "a": [{ "x": 1, "y": 2 }, { "x": 3 }], "b": 9 };
        let expected = vec![bson!([1, 2, 9]), bson!([3, "missing", 9])];
        assert_eq!(
            key_documents(&["a.x", "a.y", "b"], &document).unwrap(),
            expected
        );
    }

    #[test]
    fn an_empty_array_is_undefined_and_an_array_in_an_array_is_a_value() {
        assert_eq!(
            key_documents(&["a"], &rawdoc! { "a": [] }).unwrap(),
            [bson!([(Bson::Undefined)])]
        );
        assert_eq!(
            key_documents(&["a"], &rawdoc! { "a": [1, [2]] }).unwrap(),
            [bson!([1]), bson!([[2]])]
        );
        assert_eq!(
            key_documents(&["a.b"], &rawdoc! { "a": [] }).unwrap(),
            [bson!(["missing"])]
        );
    }

    #[test]
    fn positions_are_followed() {
        let document = rawdoc! { "a": [{ "b": 1 }, { "b": 2 }] };
        let keys = key_documents(&["a.1.b"], &document).unwrap();
        assert!(keys.iter().all(|key| *key == bson!([2])));
    }

    #[test]
    fn parallel_arrays_and_ambiguous_positions_are_refused() {
        let parallel = key_documents(&["a", "b"], &rawdoc! { "a": [1], "b": [2] });
        assert_eq!(
            parallel,
            Err(KeyError::ParallelArrays("b".into(), "a".into()))
        );
        let ambiguous = key_documents(&["a.0"], &rawdoc! { "a": [{ "0": 1 }] });
        assert_eq!(ambiguous, Err(KeyError::AmbiguousPosition("0".into())));
    }

    fn any_value() -> impl Strategy<Value = Bson> {
        let scalar = prop_oneof![Just(Bson::Null), (0..4).prop_map(Bson::Int32)];
        scalar.prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Bson::Array),
                prop::collection::btree_map("[ab0]", inner, 0..3)
                    .prop_map(|fields| Bson::Document(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// An index must have a key for every value that a filter finds.
        #[test]
        fn every_value_that_a_filter_sees_has_a_key(a in any_value(), path in r"a(\.[ab01]){0,3}") {
            let document = RawDocumentBuf::try_from(&bson::doc! { "a": a }).unwrap();
            let path = Path::new(&path);
            if let Ok(tuples) = key_tuples(std::slice::from_ref(&path), &document) {
                // A number can also name a field of an element, which is missing and has no key of
                // its own.
                let by_position = path.parts().iter().any(|part| part.index().is_some());
                let unseen = path.walk(&document, LeafArrayMode::Expand, &mut |value, _| {
                    if value.is_none() && by_position {
                        return false;
                    }
                    let is_array = matches!(value, Some(RawBsonRef::Array(_)));
                    let value = value.unwrap_or(RawBsonRef::Null);
                    let key_of = |tuple: &Vec<Option<RawBsonRef<'_>>>| {
                        let key = tuple.first().copied().flatten();
                        value::equal(key.unwrap_or(RawBsonRef::Null), value)
                    };
                    // A query for a whole array looks for the elements.
                    !is_array && !tuples.iter().any(key_of)
                });
                prop_assert!(!unseen, "{:?}", tuples);
            }
        }
    }
}
