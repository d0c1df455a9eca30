//! The kinds of index and the options of MongoDB that this engine does not have.
//!
//! What MongoDB refuses is refused under its code; only what it would take is "not supported".

use bson::{RawBsonRef, RawDocument};

use super::{Index, hashed, partial, wildcard};
use crate::error::{Error, Result, code};
use crate::value::{self, Number};

/// The kinds that are named by a string in the key.
const KINDS: [&str; 4] = ["2d", "2dsphere", "geoHaystack", "text"];

/// The options of these kinds, and others.
const OPTIONS: [&str; 14] = [
    "2dsphereIndexVersion",
    "bits",
    "bucketSize",
    "clustered",
    "coarsestIndexedLevel",
    "default_language",
    "finestIndexedLevel",
    "language_override",
    "max",
    "min",
    "prepareUnique",
    "storageEngine",
    "textIndexVersion",
    "weights",
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
    if kind == hashed::KIND || KINDS.contains(&kind) {
        return Ok(());
    }
    if kind == "wildcard" {
        return cannot("a wildcard index has a number in its key, not 'wildcard'".into());
    }
    cannot(format!("Unknown index plugin '{kind}'"))
}

/// Refuses a value that the option cannot have.
pub(super) fn check_option(name: &str, value: RawBsonRef<'_>) -> Result<()> {
    let is_right = match name {
        "storageEngine" | "weights" => value.as_document().is_some(),
        "default_language" | "language_override" => value.as_str().is_some(),
        _ => true,
    };
    if !is_right {
        let type_name = value::type_name(value);
        let message = format!("The field '{name}' cannot be of type {type_name}");
        return Err(Error::server(code::TYPE_MISMATCH, message));
    }
    match (name, value) {
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
    let mut kinds: Vec<&str> = match specification.get_document("key") {
        Ok(key) => value::fields(key)
            .filter_map(|(_, value)| value.as_str())
            .collect(),
        Err(_) => Vec::new(),
    };
    let has = |name: &str| value::get(specification, name);
    if kinds.iter().filter(|kind| **kind == hashed::KIND).count() > 1 {
        let message = "an index can have one hashed field";
        return Err(Error::server(code::TOO_MANY_HASHED_FIELDS, message));
    }
    kinds.dedup();
    if kinds.len() > 1 {
        return cannot(format!(
            "an index is of one kind, not of {} at once",
            kinds.join(" and ")
        ));
    }
    let kind = kinds.first().copied().filter(|kind| *kind != hashed::KIND);
    // A text index may be about all fields.
    if kind.is_some_and(|kind| kind != "text") && index.is_wildcard() {
        return cannot("the path of an index of this kind has no '$**'".into());
    }
    if kind == Some("text") {
        refuse_text(specification)?;
    } else if has("weights").is_some() {
        return cannot("weights are only for text indexes; leave them out".into());
    }
    if let Some(bits) = has("bits").filter(|_| kind == Some("2d")) {
        let bits = Number::from_bson(bits).and_then(Number::truncated);
        if !bits.is_some_and(|bits| (1..=32).contains(&bits)) {
            let message = "the bits of a 2d index are 1 to 32";
            return Err(Error::server(code::INVALID_OPTIONS, message));
        }
    }
    if kind.is_none() {
        wildcard::check(index)?;
        hashed::check(index)?;
    }
    if let Some(filter) = &index.partial {
        partial::check(filter)?;
    }
    if let Some(kind) = kind {
        return Err(Error::not_supported(format!(
            "a {kind} index is not supported"
        )));
    }
    match OPTIONS.iter().find(|option| has(option).is_some()) {
        Some(option) => Err(Error::not_supported(format!(
            "the index option {option} is not supported"
        ))),
        None => Ok(()),
    }
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

fn cannot(message: String) -> Result<()> {
    Err(Error::server(code::CANNOT_CREATE_INDEX, message))
}
