//! The document form of an index's definition, as MongoDB's `createIndexes` takes it.

use std::time::Duration;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::given::Given;
use super::wildcard::{self, Coverage};
use super::{Collation, Direction, Index, collation, hashed, partial, unsupported};
use crate::document::append;
use crate::error::{Error, Result, code};
use crate::filter::Filter;
use crate::value::{self, Number};

/// The longest time to live that MongoDB takes, in seconds.
const MAX_EXPIRE_AFTER: i64 = i32::MAX as i64;

/// How many fields an index can have.
const MAX_FIELDS: usize = 32;

/// What a definition may have.
const OPTIONS: [&str; 13] = [
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
    /// The definition as MongoDB's `createIndexes` takes it: `{ key, name, unique, sparse, hidden,
    /// partialFilterExpression, expireAfterSeconds, wildcardProjection, collation, background, v }`.
    ///
    /// # Errors
    /// Missing, unknown or badly typed fields under MongoDB's codes, and "not supported" for the
    /// options and kinds of index that this engine does not have.
    pub fn from_document(specification: &RawDocument) -> Result<Index> {
        refuse_unknown(specification)?;
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
                        return Err(Error::server(code::CANNOT_CREATE_INDEX, message));
                    }
                    parse_keys(key, &mut index)?;
                    let is_plain = plain_pattern(&index).as_bytes() == key.as_bytes();
                    index.given.key = (!is_plain).then(|| key.to_owned());
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
                    index.given.says_sparse = true;
                }
                "hidden" => {
                    let hidden = value.as_bool();
                    index.hidden =
                        hidden.ok_or_else(|| type_mismatch("hidden", "a bool", value))?;
                }
                "background" => index.given.background = Some(expect_flag("background", value)?),
                "v" => index.given.version = parse_version(value)?,
                // MongoDB takes both and does not list them.
                "dropDups" | "ns" => {}
                "partialFilterExpression" => {
                    let filter = expect_document("partialFilterExpression", value)?;
                    partial::refuse_special(filter)?;
                    Filter::parse(filter)?;
                    index.partial = Some(filter.to_owned());
                }
                "expireAfterSeconds" => expire_after = Some(value),
                "wildcardProjection" => {
                    let projection = expect_document("wildcardProjection", value)?;
                    index.wildcard_projection = Some(projection.to_owned());
                }
                "collation" => {
                    // What is in it comes after all the rest.
                    let collation = expect_document("collation", value)?;
                    if collation.is_empty() {
                        return Err(Error::bad_value("a collation cannot be empty"));
                    }
                }
                option => unsupported::check_option(option, value)?,
            }
        }
        if !has_key {
            return Err(required("key"));
        }
        index.name = name.ok_or_else(|| required("name"))?;
        refuse_options_of_id(specification, &index)?;
        index.check_reserved()?;
        index.expire_after = expire_after.map(parse_expire_after).transpose()?;
        if let Some(RawBsonRef::Document(collation)) = value::get(specification, "collation") {
            index.collation = Collation::from_document(collation)?;
            collation::check_kind(specification, &index)?;
            collation::check(&index)?;
        }
        unsupported::refuse(specification, &index)?;
        Ok(index)
    }

    /// The definition as MongoDB's `listIndexes` shows it, without the version.
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        append(&mut document, "key", self.key_pattern());
        append(&mut document, "name", self.name.as_str());
        if let Some(background) = self.given.background {
            append(&mut document, "background", background);
        }
        if self.unique {
            append(&mut document, "unique", true);
        }
        if self.hidden {
            append(&mut document, "hidden", true);
        }
        if let Some(filter) = &self.partial {
            append(&mut document, "partialFilterExpression", filter.as_ref());
        }
        if self.sparse || self.given.says_sparse {
            append(&mut document, "sparse", self.sparse);
        }
        if let Some(duration) = self.expire_after {
            let seconds = i32::try_from(duration.as_secs()).unwrap_or(i32::MAX);
            append(&mut document, "expireAfterSeconds", seconds);
        }
        if let Some(collation) = &self.collation {
            append(&mut document, "collation", collation.to_document());
        }
        if let Some(projection) = &self.wildcard_projection {
            append(&mut document, "wildcardProjection", projection.as_ref());
        }
        document
    }

    /// The definition for the catalog, from which [`from_document`](Index::from_document) reads it
    /// again.
    pub(crate) fn to_stored(&self) -> RawDocumentBuf {
        let mut document = self.to_document();
        if self.version() != Given::default().version {
            append(&mut document, "v", self.version());
        }
        document
    }

    /// The version that MongoDB's `listIndexes` shows. It makes no difference here.
    pub fn version(&self) -> i32 {
        self.given.version
    }

    /// The fields with what the index was created with: `hashed`, numbers, or `1` and `-1` for these.
    pub(crate) fn key_pattern(&self) -> RawDocumentBuf {
        if let Some(key) = self.given.key_of(self) {
            return key.to_owned();
        }
        plain_pattern(self)
    }

    /// Whether it stands for the index that every collection has: it is the only one on `_id`, up or down. As on MongoDB, another
    /// number, such as 5, makes it an index of its own.
    pub(crate) fn is_of_id(&self) -> bool {
        let key = self.key_pattern();
        let mut fields = value::fields(&key);
        let whole = |direction| Number::from_bson(direction).and_then(Number::truncated);
        let is_of_id = matches!(fields.next(), Some(("_id", direction)) if matches!(whole(direction), Some(1 | -1)));
        is_of_id && fields.next().is_none()
    }

    /// Whether both hold the same keys under the same rules: then there is one of them in a
    /// collection.
    pub(crate) fn is_equivalent(&self, other: &Index) -> bool {
        let (own_key, other_key) = (self.key_pattern(), other.key_pattern());
        let has_same_key = value::compare(
            RawBsonRef::Document(&own_key),
            RawBsonRef::Document(&other_key),
        )
        .is_eq();
        let has_same_filter = match (&self.partial, &other.partial) {
            (Some(own), Some(other)) => partial::is_same(own, other),
            (None, None) => true,
            _ => false,
        };
        has_same_key
            && has_same_filter
            && self.covers_the_same(other)
            && self.unique == other.unique
            && self.sparse == other.sparse
            && self.collation == other.collation
    }

    /// Whether the projections of two wildcard indexes on the same path say the same.
    fn covers_the_same(&self, other: &Index) -> bool {
        match (&self.wildcard_projection, &other.wildcard_projection) {
            (Some(own), Some(theirs)) => match (Coverage::of(self), Coverage::of(other)) {
                (Ok(own), Ok(theirs)) => own == theirs,
                _ => own == theirs,
            },
            (own, theirs) => own == theirs,
        }
    }

    /// Refuses a reserved name, and a key that only the index of `_id` could have.
    ///
    /// As on MongoDB, the name of the index of `_id` itself does not matter.
    pub(super) fn check_reserved(&self) -> Result<()> {
        if self.is_of_id() {
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

    /// Checks what can be checked without the collection.
    pub(crate) fn check(&self) -> Result<()> {
        let cannot = |message: String| Err(Error::server(code::CANNOT_CREATE_INDEX, message));
        if self.keys.is_empty() {
            return cannot("Index keys cannot be empty.".into());
        }
        if self.keys.len() > MAX_FIELDS {
            let message = "too many compound keys";
            return Err(Error::server(code::TOO_MANY_COMPOUND_KEYS, message));
        }
        self.check_reserved()?;
        if self.name.is_empty() || self.name.contains('\0') {
            return cannot(format!("'{}' cannot be the name of an index", self.name));
        }
        wildcard::check(self)?;
        hashed::check(self)?;
        collation::check(self)?;
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
            return cannot("cannot mix \"partialFilterExpression\" and \"sparse\" options".into());
        }
        if let Some(filter) = &self.partial {
            partial::check(filter)?;
        }
        if self.expire_after.is_some() && self.keys.len() > 1 {
            return cannot("TTL indexes are single-field indexes".into());
        }
        if self.expire_after.is_some() && self.keys.iter().any(|(path, _)| path == "_id") {
            let message = "the index of _id cannot be a TTL index; use another field";
            return Err(Error::server(
                code::INVALID_INDEX_SPECIFICATION_OPTION,
                message,
            ));
        }
        Ok(())
    }
}

/// The fields with `hashed`, `1` or `-1`.
fn plain_pattern(index: &Index) -> RawDocumentBuf {
    let mut pattern = RawDocumentBuf::new();
    for (path, direction) in &index.keys {
        match direction {
            _ if index.is_hashed(path) => append(&mut pattern, path, hashed::KIND),
            Direction::Ascending => append(&mut pattern, path, 1),
            Direction::Descending => append(&mut pattern, path, -1),
        }
    }
    pattern
}

/// The fields of a key. Those whose kind this engine does not have count as ascending:
/// [`unsupported::refuse`] has the last word on them.
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

/// The direction that a number stands for.
pub(super) fn parse_direction(path: &str, value: RawBsonRef<'_>) -> Result<Direction> {
    let cannot = |message: String| Err(Error::server(code::CANNOT_CREATE_INDEX, message));
    let Some(number) = Number::from_bson(value) else {
        let name = value::type_name(value);
        return cannot(format!(
            "the direction of '{path}' cannot be of type {name}"
        ));
    };
    if number.is_nan() || number.is_zero() {
        return cannot(format!("the direction of '{path}' must be 1 or -1"));
    }
    Ok(if number.compare(Number::Int32(0)).is_gt() {
        Direction::Ascending
    } else {
        Direction::Descending
    })
}

/// Refuses fields that no index has, before anything else is read, as MongoDB does.
fn refuse_unknown(specification: &RawDocument) -> Result<()> {
    for (option, _) in value::fields(specification) {
        let is_known = OPTIONS.contains(&option) || unsupported::is_option(option);
        if !is_known {
            let message =
                format!("The field '{option}' is not valid for an index specification; remove it");
            return Err(Error::server(
                code::INVALID_INDEX_SPECIFICATION_OPTION,
                message,
            ));
        }
    }
    Ok(())
}

/// Refuses everything that could be said of the index that each collection has.
fn refuse_options_of_id(specification: &RawDocument, index: &Index) -> Result<()> {
    let is_id = index.is_of_id();
    let is_fixed = |option: &str| matches!(option, "collation" | "key" | "name" | "ns" | "v");
    let mut options = value::fields(specification).map(|(option, _)| option);
    match options.find(|option| is_id && !is_fixed(option)) {
        Some(option) => {
            let message = format!("the index of _id takes no options, and not {option}");
            Err(Error::server(
                code::INVALID_INDEX_SPECIFICATION_OPTION,
                message,
            ))
        }
        None => Ok(()),
    }
}

/// The version of MongoDB's index format.
fn parse_version(value: RawBsonRef<'_>) -> Result<i32> {
    let Some(number) = Number::from_bson(value) else {
        return Err(type_mismatch("v", "a number", value));
    };
    match number.truncated() {
        Some(whole) if number.compare(Number::Int64(whole)).is_ne() => Err(Error::bad_value(
            "the version of an index is a whole number",
        )),
        Some(1) => Ok(1),
        Some(2) => Ok(2),
        _ => {
            let message = "the version of an index is 1 or 2; leave v out";
            Err(Error::server(code::CANNOT_CREATE_INDEX, message))
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
        return Err(Error::server(code::CANNOT_CREATE_INDEX, message));
    }
    Ok(())
}

/// The fields of a DBRef are the only ones with a dollar that can be indexed.
fn is_reference_part(part: &str) -> bool {
    matches!(part, "$db" | "$id" | "$ref")
}

fn parse_expire_after(value: RawBsonRef<'_>) -> Result<Duration> {
    let cannot = |message: String| Error::server(code::CANNOT_CREATE_INDEX, message);
    let Some(number) = Number::from_bson(value) else {
        let name = value::type_name(value);
        return Err(cannot(format!(
            "expireAfterSeconds must be a number, not of type {name}"
        )));
    };
    // As on MongoDB, NaN is no time at all.
    let seconds = if number.is_nan() {
        0
    } else {
        number.truncated().unwrap_or(-1)
    };
    if !(0..=MAX_EXPIRE_AFTER).contains(&seconds) {
        let message = format!("expireAfterSeconds must be between 0 and {MAX_EXPIRE_AFTER}");
        return Err(cannot(message));
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
    let found = value::type_name(value);
    let message = format!("The field '{field}' must be {expected}, but got {found}");
    Error::server(code::TYPE_MISMATCH, message)
}

fn required(field: &str) -> Error {
    let message = format!("The '{field}' field is a required property of an index specification");
    Error::server(code::FAILED_TO_PARSE, message)
}
