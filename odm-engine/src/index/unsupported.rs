//! The kinds of index and the options of MongoDB that this engine does not have.
//!
//! What MongoDB refuses is refused under its code; only what it would take is "not supported".

mod collation;

use bson::{RawBsonRef, RawDocument};

use super::{Index, partial};
use crate::error::{Error, Result, code};
use crate::value::{self, Number};

/// The kinds that are named by a string in the key.
const KINDS: [&str; 6] = [
    "2d",
    "2dsphere",
    "geoHaystack",
    "hashed",
    "text",
    "wildcard",
];

/// The options of these kinds, and others.
const OPTIONS: [&str; 16] = [
    "2dsphereIndexVersion",
    "bits",
    "bucketSize",
    "clustered",
    "coarsestIndexedLevel",
    "collation",
    "default_language",
    "finestIndexedLevel",
    "language_override",
    "max",
    "min",
    "prepareUnique",
    "storageEngine",
    "textIndexVersion",
    "weights",
    "wildcardProjection",
];

/// The languages of text indexes, by their names and codes.
const LANGUAGES: [&str; 32] = [
    "da",
    "danish",
    "de",
    "dutch",
    "en",
    "english",
    "es",
    "fi",
    "finnish",
    "fr",
    "french",
    "german",
    "hu",
    "hungarian",
    "it",
    "italian",
    "nb",
    "nl",
    "none",
    "norwegian",
    "porter",
    "portuguese",
    "pt",
    "ro",
    "romanian",
    "ru",
    "russian",
    "spanish",
    "sv",
    "swedish",
    "tr",
    "turkish",
];

/// The weights of a text index are less than this.
const MAX_WEIGHT: i64 = 100_000;

/// Whether MongoDB has an option of this name.
pub(super) fn is_option(name: &str) -> bool {
    OPTIONS.contains(&name)
}

/// Refuses a kind that MongoDB does not have either.
pub(super) fn check_kind(kind: &str) -> Result<()> {
    if KINDS.contains(&kind) {
        return Ok(());
    }
    cannot(format!("Unknown index plugin '{kind}'"))
}

/// Refuses a value that the option cannot have.
pub(super) fn check_option(name: &str, value: RawBsonRef<'_>) -> Result<()> {
    let is_right = match name {
        "collation" | "storageEngine" | "weights" | "wildcardProjection" => {
            value.as_document().is_some()
        }
        "default_language" | "language_override" => value.as_str().is_some(),
        _ => true,
    };
    if !is_right {
        let type_name = value::type_name(value);
        let message = format!("The field '{name}' cannot be of type {type_name}");
        return Err(Error::server(code::TYPE_MISMATCH, message));
    }
    match (name, value) {
        ("collation", RawBsonRef::Document(collation)) => collation::check(collation),
        ("storageEngine", RawBsonRef::Document(engines)) => {
            for (engine, options) in value::fields(engines) {
                if options.as_document().is_none() {
                    let message = format!("'storageEngine.{engine}' has to be a document");
                    return Err(Error::bad_value(message));
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Refuses the definition if it has anything of these.
pub(super) fn refuse(specification: &RawDocument, index: &Index) -> Result<()> {
    let kinds: Vec<&str> = match specification.get_document("key") {
        Ok(key) => value::fields(key)
            .filter_map(|(_, value)| value.as_str())
            .collect(),
        Err(_) => Vec::new(),
    };
    let is_wildcard = |path: &str| path == "$**" || path.ends_with(".$**");
    let has_wildcard = index.keys.iter().any(|(path, _)| is_wildcard(path));
    let has = |name: &str| value::get(specification, name);
    if has_wildcard {
        refuse_wildcard(index)?;
    }
    if has("wildcardProjection").is_some() {
        if !has_wildcard {
            let message = "wildcardProjection is only for wildcard indexes; leave it out";
            return Err(Error::bad_value(message));
        }
        if index.keys.iter().any(|(path, _)| path != "$**") {
            let message = "wildcardProjection is only for an index on '$**'";
            return Err(Error::server(code::FAILED_TO_PARSE, message));
        }
    }
    if kinds.contains(&"text") {
        refuse_text(specification)?;
    } else if has("weights").is_some() {
        return cannot("weights are only for text indexes; leave them out".into());
    }
    if kinds.contains(&"hashed") {
        refuse_hashed(&kinds, index)?;
    }
    if let Some(bits) = has("bits").filter(|_| kinds.contains(&"2d")) {
        let bits = Number::from_bson(bits).and_then(Number::truncated);
        if !bits.is_some_and(|bits| (1..=32).contains(&bits)) {
            let message = "the bits of a 2d index are 1 to 32";
            return Err(Error::server(code::INVALID_OPTIONS, message));
        }
    }
    if let Some(filter) = &index.partial {
        partial::check(filter)?;
    }
    if let Some(kind) = kinds.first() {
        return Err(Error::not_supported(format!(
            "a {kind} index is not supported"
        )));
    }
    if has_wildcard {
        return Err(Error::not_supported("a wildcard index is not supported"));
    }
    match OPTIONS.iter().find(|option| has(option).is_some()) {
        Some(option) => Err(Error::not_supported(format!(
            "the index option {option} is not supported"
        ))),
        None => Ok(()),
    }
}

fn refuse_wildcard(index: &Index) -> Result<()> {
    if index.keys.len() > 1 {
        return cannot("a wildcard index has one field".into());
    }
    for (path, _) in &index.keys {
        let inner = path.strip_suffix("$**").unwrap_or(path);
        if inner.starts_with('.') || inner.contains("..") {
            return cannot(format!("'{path}' has an empty component"));
        }
    }
    if index.unique || index.sparse || index.expire_after.is_some() {
        return cannot("a wildcard index cannot be unique, sparse or a TTL index".into());
    }
    Ok(())
}

fn refuse_text(specification: &RawDocument) -> Result<()> {
    if let Some(RawBsonRef::Document(weights)) = value::get(specification, "weights") {
        for (path, weight) in value::fields(weights) {
            let weight = Number::from_bson(weight).and_then(Number::truncated);
            if !weight.is_some_and(|weight| weight > 0 && weight < MAX_WEIGHT) {
                let message = format!("the weight of '{path}' must be between 0 and {MAX_WEIGHT}");
                return cannot(message);
            }
        }
    }
    let language = value::get(specification, "default_language").and_then(|value| value.as_str());
    if let Some(language) = language
        && !LANGUAGES.contains(&language.to_lowercase().as_str())
    {
        return cannot(format!("'{language}' is not a language of text indexes"));
    }
    Ok(())
}

fn refuse_hashed(kinds: &[&str], index: &Index) -> Result<()> {
    if kinds.iter().filter(|kind| **kind == "hashed").count() > 1 {
        let message = "an index can have one hashed field";
        return Err(Error::server(code::TOO_MANY_HASHED_FIELDS, message));
    }
    if index.unique {
        let message = "a hashed index cannot be unique; use an ordinary index";
        return Err(Error::server(code::HASHED_UNIQUE_INDEX, message));
    }
    Ok(())
}

fn cannot(message: String) -> Result<()> {
    Err(Error::server(code::CANNOT_CREATE_INDEX, message))
}
