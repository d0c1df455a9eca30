//! The order of results.

mod elements;
mod sorter;

use std::cmp::Ordering;

use bson::{RawBson, RawBsonRef, RawDocument};

use crate::direction::Direction;
use crate::path::{KeyError, Path, key_tuples};
use crate::value::{self, Number};
use crate::{Error, Result};

pub(crate) use elements::{ElementOrder, OrderFault};
pub(crate) use sorter::Sorter;

/// A parsed sort specification, such as `{ age: -1, name: 1 }`.
#[derive(Debug, Clone)]
pub(crate) struct Sort {
    paths: Vec<Path>,
    directions: Vec<Direction>,
}

/// What a document is sorted by, taken from it once.
#[derive(Debug, Clone)]
pub(crate) struct SortKey(Vec<RawBson>);

impl Sort {
    /// Reads a specification. An empty one leaves everything in its place.
    ///
    /// # Errors
    /// A direction that is not 1 or −1, a path that is not one, `$meta`.
    pub(crate) fn parse(specification: &RawDocument) -> Result<Sort> {
        let mut sort = Sort {
            paths: Vec::new(),
            directions: Vec::new(),
        };
        for (name, value) in value::fields(specification) {
            if name == "$natural" {
                return Err(refuse_natural(specification));
            }
            let direction = parse_direction(name, value)?;
            check_field_path(name)?;
            // The first mention of a path decides.
            if sort.paths.iter().any(|path| path.as_str() == name) {
                continue;
            }
            sort.paths.push(Path::new(name));
            sort.directions.push(direction);
        }
        Ok(sort)
    }

    /// The paths with their directions, the most significant first.
    pub(crate) fn fields(&self) -> impl ExactSizeIterator<Item = (&Path, Direction)> {
        self.paths.iter().zip(self.directions.iter().copied())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// What a document is sorted by: of the values in an array the smallest where the order
    /// ascends, the largest where it descends.
    ///
    /// # Errors
    /// Two paths that lead through different arrays (code 2), or a number in a path that names
    /// both a position and a field (code 16746).
    pub(crate) fn key(&self, document: &RawDocument) -> Result<SortKey> {
        if let [only] = self.paths.as_slice()
            && only.as_str() == "_id"
        {
            // As on MongoDB, the order of `_id` alone takes an array as a whole, which it can be in a pipeline.
            let id = value::get(document, "_id").unwrap_or(RawBsonRef::Null);
            return Ok(SortKey(vec![id.into()]));
        }
        let tuples = key_tuples(&self.paths, document).map_err(|error| match error {
            KeyError::ParallelArrays(one, two) => Error::bad_value(format!(
                "cannot sort with keys that are parallel arrays: '{one}' and '{two}'"
            )),
            KeyError::AmbiguousPosition(name) => Error::server(
                16746,
                format!("field '{name}' is both a position and a field name in an array"),
            ),
        })?;
        let best = tuples
            .into_iter()
            .map(|tuple| {
                tuple
                    .into_iter()
                    .map(|value| value.unwrap_or(RawBsonRef::Null))
                    .collect::<Vec<_>>()
            })
            .min_by(|a, b| self.compare_values(a.iter().copied(), b.iter().copied()));
        Ok(SortKey(
            best.unwrap_or_default()
                .into_iter()
                .map(RawBson::from)
                .collect(),
        ))
    }

    /// The order of two documents by their keys.
    pub(crate) fn compare(&self, a: &SortKey, b: &SortKey) -> Ordering {
        self.compare_values(a.values(), b.values())
    }

    fn compare_values<'v>(
        &self,
        a: impl Iterator<Item = RawBsonRef<'v>>,
        b: impl Iterator<Item = RawBsonRef<'v>>,
    ) -> Ordering {
        a.zip(b)
            .zip(&self.directions)
            .map(|((a, b), direction)| direction.apply(value::compare(a, b)))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

impl SortKey {
    /// How many bytes the key takes, for the limit on sorting in memory.
    pub(crate) fn size(&self) -> usize {
        let array: bson::RawArrayBuf = self.values().collect();
        array.as_bytes().len()
    }

    fn values(&self) -> impl Iterator<Item = RawBsonRef<'_>> {
        self.0.iter().map(RawBson::as_raw_bson_ref)
    }
}

fn refuse_natural(specification: &RawDocument) -> Error {
    if value::fields(specification).nth(1).is_some() {
        return Error::bad_value("'$natural' cannot be sorted by together with a field");
    }
    Error::not_supported("sorting by '$natural' is not supported; sort by a field")
}

fn parse_direction(name: &str, value: RawBsonRef<'_>) -> Result<Direction> {
    if let RawBsonRef::Document(expression) = value {
        if value::get(expression, "$meta").is_some() {
            let message = format!("sorting by metadata ('{name}') is not supported");
            return Err(Error::not_supported(message));
        }
        let message = format!("sorting by an expression ('{name}') is not supported");
        return Err(Error::server(17312, message));
    }
    let malformed =
        |code| Error::server(code, format!("the direction of '{name}' must be 1 or -1"));
    let whole = match Number::from_bson(value).ok_or_else(|| malformed(15974))? {
        // As on MongoDB, decimals are rounded and doubles are cut.
        Number::Decimal(number) => Some(number.to_nearest_long()),
        number => number.truncated(),
    };
    match whole {
        Some(1) => Ok(Direction::Ascending),
        Some(-1) => Ok(Direction::Descending),
        _ => Err(malformed(15975)),
    }
}

/// How many components a path can have, as on MongoDB.
const MAX_COMPONENTS: usize = 200;

/// Checks a path that sorts, projections and index keys name.
///
/// # Errors
/// Empty paths and components, components that look like operators, and too many of them.
pub(crate) fn check_field_path(path: &str) -> Result<()> {
    if path.is_empty() {
        return Err(Error::server(40352, "a field path cannot be empty"));
    }
    if path.split('.').count() > MAX_COMPONENTS {
        let message = format!("a field path can have {MAX_COMPONENTS} components");
        return Err(Error::server(15, message));
    }
    if path.ends_with('.') {
        return Err(Error::server(
            40353,
            format!("the field path '{path}' ends with a dot"),
        ));
    }
    for name in path.split('.') {
        if name.is_empty() {
            let message = format!("the field path '{path}' has an empty component");
            return Err(Error::server(15998, message));
        }
        if name.starts_with('$') && !matches!(name, "$db" | "$id" | "$ref") {
            let message = format!("the field path '{path}' has a component that starts with '$'");
            return Err(Error::server(16410, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawDocumentBuf, rawdoc};

    fn order(sort: &RawDocumentBuf, a: &RawDocumentBuf, b: &RawDocumentBuf) -> Ordering {
        let sort = Sort::parse(sort).unwrap();
        sort.compare(&sort.key(a).unwrap(), &sort.key(b).unwrap())
    }

    #[test]
    fn arrays_sort_by_their_extremes() {
        let (low, high) = (rawdoc! { "a": [5, 1] }, rawdoc! { "a": [2, 3] });
        assert_eq!(order(&rawdoc! { "a": 1 }, &low, &high), Ordering::Less);
        assert_eq!(order(&rawdoc! { "a": -1 }, &low, &high), Ordering::Less);
    }

    #[test]
    fn missing_sorts_as_null_and_above_an_empty_array() {
        let sort = rawdoc! { "a": 1 };
        assert_eq!(
            order(&sort, &rawdoc! {}, &rawdoc! { "a": RawBson::Null }),
            Ordering::Equal
        );
        assert_eq!(
            order(&sort, &rawdoc! { "a": [] }, &rawdoc! {}),
            Ordering::Less
        );
    }

    #[test]
    fn what_cannot_be_sorted_says_so() {
        let code = |sort: RawDocumentBuf| Sort::parse(&sort).unwrap_err().code();
        assert_eq!(code(rawdoc! { "a": 0 }), Some(15975));
        assert_eq!(code(rawdoc! { "a": "up" }), Some(15974));
        assert_eq!(code(rawdoc! { "": 1 }), Some(40352));
        let long = bson::raw::CString::try_from("a.".repeat(1000)).unwrap();
        assert_eq!(code([(long, 1)].into_iter().collect()), Some(15));
        let both = Sort::parse(&rawdoc! { "a": 1, "b": 1 }).unwrap();
        assert_eq!(
            both.key(&rawdoc! { "a": [1], "b": [2] })
                .unwrap_err()
                .code(),
            Some(2)
        );
    }
}
