//! The tuples of values under which an index files a document, and a sort orders it.

use bson::{RawArray, RawBsonRef, RawDocument};

use super::{Part, Path};
use crate::value;

/// Why a document has no key tuples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyError {
    /// Two of the paths lead through different arrays; their names.
    ParallelArrays(String, String),
    /// A number in a path names both a position and a field of an element; the number.
    AmbiguousPosition(String),
}

/// The tuples of values at the paths, one for each element of the array that they share.
///
/// A path that leads nowhere gives `None`. An empty array gives undefined. Tuples repeat if array
/// elements do.
///
/// # Errors
/// [`KeyError`] as described there: the document fits neither the index nor the sort.
pub(crate) fn key_tuples<'d>(
    paths: &[Path],
    document: &'d RawDocument,
) -> Result<Vec<Vec<Option<RawBsonRef<'d>>>>, KeyError> {
    let mut tuples = Tuples { found: Vec::new() };
    let fields = paths
        .iter()
        .map(|path| Field {
            rest: &path.parts,
            value: None,
            indexed: None,
        })
        .collect();
    tuples.collect(fields, Some(document))?;
    Ok(tuples.found)
}

/// One component of the tuple while it is being found.
#[derive(Debug, Clone)]
struct Field<'p, 'd> {
    /// What remains of the path; nothing once `value` is final.
    rest: &'p [Part],
    value: Option<RawBsonRef<'d>>,
    /// The array element that the next component names by position, if it does.
    indexed: Option<Indexed<'p, 'd>>,
}

/// What a position in a path leads to, found before the elements are visited one by one.
#[derive(Debug, Clone, Copy)]
struct Indexed<'p, 'd> {
    value: Option<RawBsonRef<'d>>,
    rest: &'p [Part],
    /// The position names an array in an array. It is then one value and not expanded again.
    nested: bool,
}

struct Tuples<'d> {
    found: Vec<Vec<Option<RawBsonRef<'d>>>>,
}

impl<'d> Tuples<'d> {
    /// `document` is what the remaining paths start from; `None` if the element is no document.
    fn collect(
        &mut self,
        mut fields: Vec<Field<'_, 'd>>,
        document: Option<&'d RawDocument>,
    ) -> Result<(), KeyError> {
        let mut shared: Option<(&'d RawArray, &str)> = None;
        let mut in_array = vec![false; fields.len()];
        let mut expand_leaf = true;
        for (field, in_array) in fields.iter_mut().zip(&mut in_array) {
            let Some(part) = field.rest.first() else {
                continue;
            };
            let own = document.and_then(|document| value::get(document, part.name()));
            let (value, rest) = match (own, field.indexed.take()) {
                (Some(_), Some(_)) => {
                    return Err(KeyError::AmbiguousPosition(part.name().to_owned()));
                }
                (Some(_), None) => extract(field.rest, document),
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
                        let (one, two) = (part.name().to_owned(), other.to_owned());
                        return Err(KeyError::ParallelArrays(one, two));
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
            field.indexed = index_into(array, field.rest);
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
        mut fields: Vec<Field<'_, 'd>>,
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
                let whole = RawBsonRef::Array(array);
                field.value = Some(if expand_leaf { element } else { whole });
            }
        }
        self.collect(fields, element.as_document())
    }
}

/// Follows a path to its end or to the first array on it, whichever comes first.
fn extract<'p, 'd>(
    parts: &'p [Part],
    document: Option<&'d RawDocument>,
) -> (Option<RawBsonRef<'d>>, &'p [Part]) {
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

/// Follows a path into an array if its first component is a position there.
fn index_into<'p, 'd>(array: &'d RawArray, parts: &'p [Part]) -> Option<Indexed<'p, 'd>> {
    let (part, rest) = parts.split_first()?;
    let element = value::items(array).nth(part.index()?)?;
    let nested = matches!(element, RawBsonRef::Array(_));
    let (value, rest) = match (element, rest.is_empty()) {
        (element, true) | (element @ RawBsonRef::Array(_), false) => (Some(element), rest),
        (RawBsonRef::Document(inner), false) => extract(rest, Some(inner)),
        (_, false) => (None, &[][..]),
    };
    Some(Indexed {
        value,
        rest,
        nested,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Leaf;
    use bson::{Bson, RawBson, RawDocumentBuf, bson, rawdoc};
    use proptest::prelude::*;

    fn keys(paths: &[&str], document: &RawDocumentBuf) -> Result<Vec<Bson>, KeyError> {
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
        assert_eq!(keys(&["a.x", "a.y", "b"], &document).unwrap(), expected);
    }

    #[test]
    fn an_empty_array_is_undefined_and_an_array_in_an_array_is_a_value() {
        assert_eq!(
            keys(&["a"], &rawdoc! { "a": [] }).unwrap(),
            [bson!([(Bson::Undefined)])]
        );
        assert_eq!(
            keys(&["a"], &rawdoc! { "a": [1, [2]] }).unwrap(),
            [bson!([1]), bson!([[2]])]
        );
        assert_eq!(
            keys(&["a.b"], &rawdoc! { "a": [] }).unwrap(),
            [bson!(["missing"])]
        );
    }

    #[test]
    fn positions_are_followed() {
        let document = rawdoc! { "a": [{ "b": 1 }, { "b": 2 }] };
        let keys = keys(&["a.1.b"], &document).unwrap();
        assert!(keys.iter().all(|key| *key == bson!([2])));
    }

    #[test]
    fn parallel_arrays_and_ambiguous_positions_are_refused() {
        let parallel = keys(&["a", "b"], &rawdoc! { "a": [1], "b": [2] });
        assert_eq!(
            parallel,
            Err(KeyError::ParallelArrays("b".into(), "a".into()))
        );
        let ambiguous = keys(&["a.0"], &rawdoc! { "a": [{ "0": 1 }] });
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
        /// What a filter finds, an index must have a key for.
        #[test]
        fn every_value_that_a_filter_sees_has_a_key(a in any_value(), path in r"a(\.[ab01]){0,3}") {
            let document = RawDocumentBuf::try_from(&bson::doc! { "a": a }).unwrap();
            let path = Path::new(&path);
            if let Ok(tuples) = key_tuples(std::slice::from_ref(&path), &document) {
                // A number also means a field of an element, and is missing there without a key.
                let by_position = path.parts().iter().any(|part| part.index().is_some());
                let unseen = path.walk(&document, Leaf::Expand, &mut |value, _| {
                    if value.is_none() && by_position {
                        return false;
                    }
                    let is_array = matches!(value, Some(RawBsonRef::Array(_)));
                    let value = value.unwrap_or(RawBsonRef::Null);
                    let key_of = |tuple: &Vec<Option<RawBsonRef<'_>>>| {
                        let key = tuple.first().copied().flatten();
                        value::equal(key.unwrap_or(RawBsonRef::Null), value)
                    };
                    // A whole array is looked for by its elements.
                    !is_array && !tuples.iter().any(key_of)
                });
                prop_assert!(!unseen, "{:?}", tuples);
            }
        }
    }
}
