//! The document form of an index definition, as in MongoDB's `createIndexes`.

use std::time::Duration;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::verbatim::VerbatimOptions;
use super::wildcard::{self, Coverage};
use super::{Direction, Index, collation, hashed, partial, unsupported};
use crate::collation::Collation;
use crate::document::append_field;
use crate::error::{Error, Result, code};
use crate::filter::Filter;
use crate::value::{self, Number};

/// The maximum time to live that MongoDB accepts, in seconds.
const MAX_EXPIRE_AFTER_SECONDS: i64 = i32::MAX as i64;

/// The maximum number of fields in an index.
const MAX_INDEX_FIELDS: usize = 32;

/// The supported fields of a definition.
const INDEX_OPTIONS: [&str; 13] = [
    "background",
    "collation",
    "dropDups",
    "expireAfterSeconds",
    "hidden",
    "key",
    "name",
    "ns",
    "partialFilterExpression",
    "sparse",
    "unique",
    "v",
    "wildcardProjection",
];

impl Index {
    /// Reads a definition in the form of MongoDB's `createIndexes`: `{ key, name, unique, sparse, hidden,
    /// partialFilterExpression, expireAfterSeconds, wildcardProjection, collation, background, v }`.
    ///
    /// # Errors
    /// Missing, unknown or badly typed fields, with MongoDB's error codes. "Not supported" for index options and kinds that this
    /// engine lacks.
    pub fn from_document(specification: &RawDocument) -> Result<Index> {
        ensure_known_options(specification)?;
        let mut index = Index::new::<String>([]);
        let mut name = None;
        let mut has_key = false;
        let mut expire_after = None;
        for element in specification.iter_elements() {
            let element = element?;
            let value = element.value()?;
            match element.key().as_str() {
                "key" => {
                    let key = expect_document("key", value)?;
                    if key.is_empty() {
                        let message = "Index keys cannot be empty.";
                        return Err(Error::with_server_code(code::CANNOT_CREATE_INDEX, message));
                    }
                    parse_keys(key, &mut index)?;
                    let is_plain = plain_pattern(&index).as_bytes() == key.as_bytes();
                    index.verbatim.key = (!is_plain).then(|| key.to_owned());
                    has_key = true;
                }
                "name" => {
                    let text = value
                        .as_str()
                        .ok_or_else(|| type_mismatch("name", "a string", value))?;
                    name = Some(text.to_owned());
                }
                "unique" => index.unique = expect_flag("unique", value)?,
                "sparse" => {
                    index.sparse = expect_flag("sparse", value)?;
                    index.verbatim.has_sparse = true;
                }
                "hidden" => {
                    let hidden = value.as_bool();
                    index.hidden =
                        hidden.ok_or_else(|| type_mismatch("hidden", "a bool", value))?;
                }
                "background" => index.verbatim.background = Some(expect_flag("background", value)?),
                "v" => index.verbatim.version = parse_version(value)?,
                // MongoDB accepts both options and does not list them.
                "dropDups" | "ns" => {}
                "partialFilterExpression" => {
                    let filter = expect_document("partialFilterExpression", value)?;
                    partial::ensure_conditions_only(filter)?;
                    Filter::parse(filter)?;
                    index.partial = Some(filter.to_owned());
                }
                "expireAfterSeconds" => expire_after = Some(value),
                "wildcardProjection" => {
                    let projection = expect_document("wildcardProjection", value)?;
                    index.wildcard_projection = Some(projection.to_owned());
                }
                "collation" => {
                    // The content of the collation is checked after all other options.
                    let collation = expect_document("collation", value)?;
                    if collation.is_empty() {
                        return Err(Error::bad_value("a collation cannot be empty"));
                    }
                }
                option => unsupported::check_option(option, value)?,
            }
        }
        if !has_key {
            return Err(missing_field_error("key"));
        }
        index.name = name.ok_or_else(|| missing_field_error("name"))?;
        ensure_no_id_options(specification, &index)?;
        index.check_reserved()?;
        index.expire_after = expire_after.map(parse_expire_after).transpose()?;
        if let Some(RawBsonRef::Document(collation)) = value::get(specification, "collation") {
            index.collation = Collation::from_document(collation)?;
            collation::check_index_kind(specification, &index)?;
            collation::check_index(&index)?;
        }
        unsupported::ensure_supported(specification, &index)?;
        Ok(index)
    }

    /// Returns the definition in the form of MongoDB's `listIndexes`, without the version.
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        append_field(&mut document, "key", self.key_pattern());
        append_field(&mut document, "name", self.name.as_str());
        if let Some(background) = self.verbatim.background {
            append_field(&mut document, "background", background);
        }
        if self.unique {
            append_field(&mut document, "unique", true);
        }
        if self.hidden {
            append_field(&mut document, "hidden", true);
        }
        if let Some(filter) = &self.partial {
            append_field(&mut document, "partialFilterExpression", filter.as_ref());
        }
        if self.sparse || self.verbatim.has_sparse {
            append_field(&mut document, "sparse", self.sparse);
        }
        if let Some(duration) = self.expire_after {
            let seconds = i32::try_from(duration.as_secs()).unwrap_or(i32::MAX);
            append_field(&mut document, "expireAfterSeconds", seconds);
        }
        if let Some(collation) = &self.collation {
            append_field(&mut document, "collation", collation.to_document());
        }
        if let Some(projection) = &self.wildcard_projection {
            append_field(&mut document, "wildcardProjection", projection.as_ref());
        }
        document
    }

    /// Returns the definition for the catalog, in the form that [`from_document`](Index::from_document) reads.
    pub(crate) fn to_stored(&self) -> RawDocumentBuf {
        let mut document = self.to_document();
        if self.version() != VerbatimOptions::default().version {
            append_field(&mut document, "v", self.version());
        }
        document
    }

    /// Returns the version that MongoDB's `listIndexes` shows. The engine ignores the version.
    pub fn version(&self) -> i32 {
        self.verbatim.version
    }

    /// The fields with their original values: `hashed`, numbers, or `1` and `-1` by default.
    pub(crate) fn key_pattern(&self) -> RawDocumentBuf {
        if let Some(key) = self.verbatim.key_of(self) {
            return key.to_owned();
        }
        plain_pattern(self)
    }

    /// Whether the definition stands for the index of `_id` that every collection has: a single field `_id` with 1 or -1. As on
    /// MongoDB, a different number, such as 5, defines a separate index.
    pub(crate) fn is_id_index(&self) -> bool {
        let key = self.key_pattern();
        let mut fields = value::fields(&key);
        let integer = |direction| Number::from_bson(direction).and_then(Number::truncated_long);
        let is_of_id = matches!(fields.next(), Some(("_id", direction)) if matches!(integer(direction), Some(1 | -1)));
        is_of_id && fields.next().is_none()
    }

    /// Whether both definitions have the same keys under the same rules. A collection can have only one of two equivalent
    /// indexes.
    pub(crate) fn is_equivalent(&self, other: &Index) -> bool {
        let (key, other_key) = (self.key_pattern(), other.key_pattern());
        let has_same_key =
            value::compare(RawBsonRef::Document(&key), RawBsonRef::Document(&other_key)).is_eq();
        let has_same_filter = match (&self.partial, &other.partial) {
            (Some(filter), Some(other)) => partial::is_equivalent(filter, other),
            (None, None) => true,
            _ => false,
        };
        has_same_key
            && has_same_filter
            && self.has_same_coverage(other)
            && self.unique == other.unique
            && self.sparse == other.sparse
            && self.collation == other.collation
    }

    /// Whether the projections of two wildcard indexes on the same path are equivalent.
    fn has_same_coverage(&self, other: &Index) -> bool {
        match (&self.wildcard_projection, &other.wildcard_projection) {
            (Some(projection), Some(other_projection)) => {
                match (Coverage::of_index(self), Coverage::of_index(other)) {
                    (Ok(coverage), Ok(other_coverage)) => coverage == other_coverage,
                    _ => projection == other_projection,
                }
            }
            (projection, other_projection) => projection == other_projection,
        }
    }

    /// Refuses reserved names, and keys that are reserved for the index of `_id`.
    ///
    /// As on MongoDB, the index of `_id` itself may have any name.
    pub(super) fn check_reserved(&self) -> Result<()> {
        if self.is_id_index() {
            let (key, ascending) = (self.key_pattern(), bson::rawdoc! { "_id": 1 });
            let order =
                value::compare(RawBsonRef::Document(&key), RawBsonRef::Document(&ascending));
            if order.is_ne() {
                let message = "the index of _id is ascending; it can be read in both directions";
                return Err(Error::bad_value(message));
            }
        } else if matches!(self.name.as_str(), "*" | "_id_") {
            let message = format!("the name '{}' is reserved; choose another one", self.name);
            return Err(Error::bad_value(message));
        }
        Ok(())
    }

    /// Checks the definition as far as possible without the collection.
    pub(crate) fn check_definition(&self) -> Result<()> {
        let creation_error =
            |message: String| Err(Error::with_server_code(code::CANNOT_CREATE_INDEX, message));
        if self.keys.is_empty() {
            return creation_error("Index keys cannot be empty.".into());
        }
        if self.keys.len() > MAX_INDEX_FIELDS {
            let message = "too many compound keys";
            return Err(Error::with_server_code(
                code::TOO_MANY_COMPOUND_KEYS,
                message,
            ));
        }
        self.check_reserved()?;
        if self.name.is_empty() || self.name.contains('\0') {
            return creation_error(format!("'{}' cannot be the name of an index", self.name));
        }
        wildcard::check_index(self)?;
        hashed::check_index(self)?;
        collation::check_index(self)?;
        let is_wildcard = self.is_wildcard();
        for (position, (path, _)) in self.keys.iter().enumerate() {
            if !is_wildcard {
                check_path(path)?;
            }
            if self
                .keys
                .iter()
                .skip(position + 1)
                .any(|(other, _)| other == path)
            {
                let message = format!("the field '{path}' appears twice in the index");
                return Err(Error::bad_value(message));
            }
        }
        if self.sparse && self.partial.is_some() {
            return creation_error(
                "cannot mix \"partialFilterExpression\" and \"sparse\" options".into(),
            );
        }
        if let Some(filter) = &self.partial {
            partial::check_filter(filter)?;
        }
        if self.expire_after.is_some() && self.keys.len() > 1 {
            return creation_error("TTL indexes are single-field indexes".into());
        }
        if self.expire_after.is_some() && self.keys.iter().any(|(path, _)| path == "_id") {
            let message = "the index of _id cannot be a TTL index; use another field";
            return Err(Error::with_server_code(
                code::INVALID_INDEX_SPECIFICATION_OPTION,
                message,
            ));
        }
        Ok(())
    }
}

/// Returns the fields with `hashed`, `1` or `-1`.
fn plain_pattern(index: &Index) -> RawDocumentBuf {
    let mut pattern = RawDocumentBuf::new();
    for (path, direction) in &index.keys {
        match direction {
            _ if index.is_hashed(path) => append_field(&mut pattern, path, hashed::KIND),
            Direction::Ascending => append_field(&mut pattern, path, 1),
            Direction::Descending => append_field(&mut pattern, path, -1),
        }
    }
    pattern
}

/// Parses the fields of a key. A field of an unsupported kind counts as ascending here, and [`unsupported::ensure_supported`]
/// refuses it later.
fn parse_keys(keys: &RawDocument, index: &mut Index) -> Result<()> {
    index.keys.clear();
    for element in keys.iter_elements() {
        let element = element?;
        let path = element.key().as_str();
        let value = element.value()?;
        let direction = match value.as_str() {
            Some(kind) => {
                unsupported::check_kind(kind)?;
                if kind == hashed::KIND {
                    index.hashed = Some(path.to_owned());
                }
                Direction::Ascending
            }
            None => parse_direction(path, value)?,
        };
        index.keys.push((path.to_owned(), direction));
    }
    Ok(())
}

/// Returns the direction for a number.
pub(super) fn parse_direction(path: &str, value: RawBsonRef<'_>) -> Result<Direction> {
    let creation_error =
        |message: String| Err(Error::with_server_code(code::CANNOT_CREATE_INDEX, message));
    let Some(number) = Number::from_bson(value) else {
        let name = value::type_name(value);
        return creation_error(format!(
            "the direction of '{path}' cannot be of type {name}"
        ));
    };
    if number.is_nan() || number.is_zero() {
        return creation_error(format!("the direction of '{path}' must be 1 or -1"));
    }
    Ok(if number.compare(Number::Int32(0)).is_gt() {
        Direction::Ascending
    } else {
        Direction::Descending
    })
}

/// Refuses unknown fields before all other checks, as MongoDB does.
fn ensure_known_options(specification: &RawDocument) -> Result<()> {
    for (option, _) in value::fields(specification) {
        let is_known = INDEX_OPTIONS.contains(&option) || unsupported::is_option(option);
        if !is_known {
            let message =
                format!("The field '{option}' is not valid for an index specification; remove it");
            return Err(Error::with_server_code(
                code::INVALID_INDEX_SPECIFICATION_OPTION,
                message,
            ));
        }
    }
    Ok(())
}

/// Refuses all options on the index of `_id`.
fn ensure_no_id_options(specification: &RawDocument, index: &Index) -> Result<()> {
    let is_id = index.is_id_index();
    let is_fixed = |option: &str| matches!(option, "collation" | "key" | "name" | "ns" | "v");
    let mut options = value::fields(specification).map(|(option, _)| option);
    match options.find(|option| is_id && !is_fixed(option)) {
        Some(option) => {
            let message = format!("the index of _id takes no options; remove {option}");
            Err(Error::with_server_code(
                code::INVALID_INDEX_SPECIFICATION_OPTION,
                message,
            ))
        }
        None => Ok(()),
    }
}

/// Parses the version of MongoDB's index format.
fn parse_version(value: RawBsonRef<'_>) -> Result<i32> {
    let Some(number) = Number::from_bson(value) else {
        return Err(type_mismatch("v", "a number", value));
    };
    match number.truncated_long() {
        Some(integer) if number.compare(Number::Int64(integer)).is_ne() => Err(Error::bad_value(
            "the version of an index is a whole number",
        )),
        Some(1) => Ok(1),
        Some(2) => Ok(2),
        _ => {
            let message = "the version of an index is 1 or 2; leave v out";
            Err(Error::with_server_code(code::CANNOT_CREATE_INDEX, message))
        }
    }
}

pub(super) fn check_path(path: &str) -> Result<()> {
    let is_invalid = |(at, part): (usize, &str)| {
        part.is_empty() || part.starts_with('$') && (at == 0 || !is_reference_part(part))
    };
    let invalid = path.contains('\0') || path.split('.').enumerate().any(is_invalid);
    if invalid {
        let message = format!("'{path}' cannot be the path of an indexed field");
        return Err(Error::with_server_code(code::CANNOT_CREATE_INDEX, message));
    }
    Ok(())
}

/// Whether the name is a field of a DBRef. Only these names with a dollar can be indexed.
fn is_reference_part(part: &str) -> bool {
    matches!(part, "$db" | "$id" | "$ref")
}

fn parse_expire_after(value: RawBsonRef<'_>) -> Result<Duration> {
    let creation_error =
        |message: String| Error::with_server_code(code::CANNOT_CREATE_INDEX, message);
    let Some(number) = Number::from_bson(value) else {
        let name = value::type_name(value);
        return Err(creation_error(format!(
            "expireAfterSeconds must be a number, not of type {name}"
        )));
    };
    // As on MongoDB, NaN counts as 0.
    let seconds = if number.is_nan() {
        0
    } else {
        number.truncated_long().unwrap_or(-1)
    };
    if !(0..=MAX_EXPIRE_AFTER_SECONDS).contains(&seconds) {
        let message =
            format!("expireAfterSeconds must be between 0 and {MAX_EXPIRE_AFTER_SECONDS}");
        return Err(creation_error(message));
    }
    Ok(Duration::from_secs(seconds.unsigned_abs()))
}

fn expect_document<'a>(field: &str, value: RawBsonRef<'a>) -> Result<&'a RawDocument> {
    value
        .as_document()
        .ok_or_else(|| type_mismatch(field, "an object", value))
}

fn expect_flag(field: &str, value: RawBsonRef<'_>) -> Result<bool> {
    let is_flag = matches!(value, RawBsonRef::Boolean(_)) || Number::from_bson(value).is_some();
    if !is_flag {
        return Err(type_mismatch(field, "a boolean", value));
    }
    Ok(value::is_truthy(value))
}

fn type_mismatch(field: &str, expected: &str, value: RawBsonRef<'_>) -> Error {
    let type_name = value::type_name(value);
    let message = format!("The field '{field}' must be {expected}, but got {type_name}");
    Error::with_server_code(code::TYPE_MISMATCH, message)
}

fn missing_field_error(field: &str) -> Error {
    let message = format!("The '{field}' field is a required property of an index specification");
    Error::with_server_code(code::FAILED_TO_PARSE, message)
}
