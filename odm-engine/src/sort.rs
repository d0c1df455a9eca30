//! Sort orders of query results.

mod elements;
mod sorter;

use std::cmp::Ordering;

use bson::{RawBson, RawBsonRef, RawDocument};

use crate::collation::ValueOrder;
use crate::direction::Direction;
use crate::error::{Error, Result, code};
use crate::path::{KeyError, Path, key_tuples};
use crate::value::{self, Number};

/// The maximum number of sort fields.
const MAX_SORT_FIELDS: usize = 32;

pub(crate) use elements::{ElementOrder, OrderFault};
pub(crate) use sorter::Sorter;

/// A parsed sort specification, such as `{ age: -1, name: 1 }`.
#[derive(Debug, Clone)]
pub(crate) struct Sort {
    paths: Vec<Path>,
    directions: Vec<Direction>,
    order: ValueOrder,
}

/// The sort key of a document, extracted once.
#[derive(Debug, Clone)]
pub(crate) struct SortKey(Vec<RawBson>);

impl Sort {
    /// Parses a sort specification. An empty specification keeps the given order.
    ///
    /// # Errors
    /// A direction other than 1 and −1, an invalid path such as `$natural`, too many fields (code
    /// 13103), or `$meta`.
    pub(crate) fn parse(specification: &RawDocument, order: &ValueOrder) -> Result<Sort> {
        value::check_document(specification)?;
        let mut sort = Sort {
            paths: Vec::new(),
            directions: Vec::new(),
            order: order.clone(),
        };
        for (name, value) in value::fields(specification) {
            let direction = parse_direction(name, value)?;
            check_field_path(name)?;
            // If a path is repeated, the first direction wins.
            if sort.paths.iter().any(|path| path.as_str() == name) {
                continue;
            }
            if sort.paths.len() == MAX_SORT_FIELDS {
                let message = format!("a sort can have at most {MAX_SORT_FIELDS} fields");
                return Err(Error::with_server_code(
                    code::TOO_MANY_COMPOUND_KEYS,
                    message,
                ));
            }
            sort.paths.push(Path::new(name));
            sort.directions.push(direction);
        }
        Ok(sort)
    }

    /// Returns the paths with their directions, most significant first.
    pub(crate) fn directed_paths(&self) -> impl ExactSizeIterator<Item = (&Path, Direction)> {
        self.paths.iter().zip(self.directions.iter().copied())
    }

    /// The order of the values.
    pub(crate) fn value_order(&self) -> &ValueOrder {
        &self.order
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Extracts the sort key of a document. Of the values in an array, the smallest counts in an
    /// ascending order, the largest in a descending order.
    ///
    /// # Errors
    /// Two paths lead through different arrays (code 2), or a number in a path is both a position
    /// and a field (code 16746).
    pub(crate) fn extract_key(&self, document: &RawDocument) -> Result<SortKey> {
        if let [only] = self.paths.as_slice()
            && only.as_str() == "_id"
        {
            // As on MongoDB, a sort by `_id` alone compares an array as a whole. An `_id` can be an
            // array in a pipeline.
            let id = value::get(document, "_id").unwrap_or(RawBsonRef::Null);
            return Ok(SortKey(vec![id.into()]));
        }
        match self.scalar_key(document) {
            Some(key) => Ok(key),
            None => self.expanded_key(document),
        }
    }

    /// Returns the key of any document.
    fn expanded_key(&self, document: &RawDocument) -> Result<SortKey> {
        let tuples = key_tuples(&self.paths, document).map_err(|error| match error {
            KeyError::ParallelArrays(first, second) => Error::bad_value(format!(
                "cannot sort with keys that are parallel arrays: '{first}' and '{second}'"
            )),
            KeyError::AmbiguousPosition(name) => Error::with_server_code(
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

    /// Returns the key of a document with scalars at the top level, without the general expansion of paths.
    fn scalar_key(&self, document: &RawDocument) -> Option<SortKey> {
        if self.paths.iter().any(|path| path.parts().len() > 1) {
            return None;
        }
        let names = self.paths.iter().map(Path::as_str);
        let values = value::scalar_fields(document, names)?.values;
        let values = values.into_iter().map(RawBson::from);
        Some(SortKey(values.collect()))
    }

    /// Compares two documents by their sort keys.
    pub(crate) fn compare(&self, a: &SortKey, b: &SortKey) -> Ordering {
        self.compare_values(a.key_values(), b.key_values())
    }

    fn compare_values<'v>(
        &self,
        a: impl Iterator<Item = RawBsonRef<'v>>,
        b: impl Iterator<Item = RawBsonRef<'v>>,
    ) -> Ordering {
        a.zip(b)
            .zip(&self.directions)
            .map(|((a, b), direction)| direction.apply_to(self.order.compare(a, b)))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

impl SortKey {
    /// Returns the size of the key as a BSON array in bytes, for the memory limit of sorting. The size of a rare type is an estimate.
    pub(crate) fn byte_size(&self) -> usize {
        let elements = self.key_values().enumerate().map(|(index, value)| {
            // An element has a type, the index as text, and a zero byte.
            let index_digits = index.checked_ilog10().map_or(1, |log| log + 1) as usize;
            2 + index_digits + value::stored_bytes(value)
        });
        // A length before the elements, and a zero byte at the end.
        5 + elements.sum::<usize>()
    }

    fn key_values(&self) -> impl Iterator<Item = RawBsonRef<'_>> {
        self.0.iter().map(RawBson::as_raw_bson_ref)
    }
}

fn parse_direction(name: &str, value: RawBsonRef<'_>) -> Result<Direction> {
    if let RawBsonRef::Document(expression) = value {
        if value::get(expression, "$meta").is_some() {
            let message = format!("sorting by metadata ('{name}') is not supported");
            return Err(Error::not_supported(message));
        }
        let message = format!("sorting by an expression ('{name}') is not supported");
        return Err(Error::with_server_code(17312, message));
    }
    let malformed =
        |code| Error::with_server_code(code, format!("the direction of '{name}' must be 1 or -1"));
    let integer = match Number::from_bson(value).ok_or_else(|| malformed(15974))? {
        // As on MongoDB, decimals are rounded and doubles are truncated.
        Number::Decimal(number) => Some(number.to_nearest_long()),
        number => number.truncated_long(),
    };
    match integer {
        Some(1) => Ok(Direction::Ascending),
        Some(-1) => Ok(Direction::Descending),
        _ => Err(malformed(15975)),
    }
}

/// The maximum number of components of a path, as on MongoDB.
const MAX_PATH_COMPONENTS: usize = 200;

/// Checks a path of a sort, a projection or an index key.
///
/// # Errors
/// The path or a component is empty, a component starts with `$`, or the path has too many
/// components.
pub(crate) fn check_field_path(path: &str) -> Result<()> {
    if path.is_empty() {
        return Err(Error::with_server_code(
            40352,
            "a field path cannot be empty",
        ));
    }
    if path.split('.').count() > MAX_PATH_COMPONENTS {
        let message = format!("a field path can have at most {MAX_PATH_COMPONENTS} components");
        return Err(Error::with_server_code(15, message));
    }
    if path.ends_with('.') {
        return Err(Error::with_server_code(
            40353,
            format!("the field path '{path}' ends with a dot"),
        ));
    }
    for name in path.split('.') {
        if name.is_empty() {
            let message = format!("the field path '{path}' has an empty component");
            return Err(Error::with_server_code(15998, message));
        }
        if name.starts_with('$') && !matches!(name, "$db" | "$id" | "$ref") {
            let message = format!("the field path '{path}' has a component that starts with '$'");
            return Err(Error::with_server_code(16410, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawDocumentBuf, rawdoc};
    use proptest::prelude::*;

    fn compare_documents(
        sort: &RawDocumentBuf,
        a: &RawDocumentBuf,
        b: &RawDocumentBuf,
    ) -> Ordering {
        let sort = Sort::parse(sort, ValueOrder::SIMPLE).unwrap();
        sort.compare(&sort.extract_key(a).unwrap(), &sort.extract_key(b).unwrap())
    }

    proptest! {
        #[test]
        fn scalar_keys_equal_expanded_keys(fields in prop::collection::vec(("[a-c]", -3..3_i64), 0..5)) {
            let mut document = RawDocumentBuf::new();
            for (name, value) in &fields {
                crate::document::append_field(&mut document, name, *value);
            }
            let sort = Sort::parse(&rawdoc! { "b": 1, "a": -1 }, ValueOrder::SIMPLE).unwrap();
            if let Some(fields) = sort.scalar_key(&document) {
                prop_assert_eq!(fields.0, sort.expanded_key(&document).unwrap().0);
            }
        }
    }

    #[test]
    fn arrays_sort_by_their_extremes() {
        let (low, high) = (rawdoc! { "a": [5, 1] }, rawdoc! { "a": [2, 3] });
        assert_eq!(
            compare_documents(&rawdoc! { "a": 1 }, &low, &high),
            Ordering::Less
        );
        assert_eq!(
            compare_documents(&rawdoc! { "a": -1 }, &low, &high),
            Ordering::Less
        );
    }

    #[test]
    fn missing_sorts_as_null_and_above_an_empty_array() {
        let sort = rawdoc! { "a": 1 };
        assert_eq!(
            compare_documents(&sort, &rawdoc! {}, &rawdoc! { "a": RawBson::Null }),
            Ordering::Equal
        );
        assert_eq!(
            compare_documents(&sort, &rawdoc! { "a": [] }, &rawdoc! {}),
            Ordering::Less
        );
    }

    #[test]
    fn unsortable_values_are_errors() {
        let code =
            |sort: RawDocumentBuf| Sort::parse(&sort, ValueOrder::SIMPLE).unwrap_err().code();
        assert_eq!(code(rawdoc! { "a": 0 }), Some(15975));
        assert_eq!(code(rawdoc! { "a": "up" }), Some(15974));
        assert_eq!(code(rawdoc! { "": 1 }), Some(40352));
        let long = bson::raw::CString::try_from("a.".repeat(1000)).unwrap();
        assert_eq!(code([(long, 1)].into_iter().collect()), Some(15));
        let both = Sort::parse(&rawdoc! { "a": 1, "b": 1 }, ValueOrder::SIMPLE).unwrap();
        assert_eq!(
            both.extract_key(&rawdoc! { "a": [1], "b": [2] })
                .unwrap_err()
                .code(),
            Some(2)
        );
    }
}
