//! Index kinds and options of MongoDB that this engine lacks.
//!
//! A definition that MongoDB refuses gets MongoDB's error code. Only definitions that MongoDB would accept are "not supported".

use bson::{RawBsonRef, RawDocument};

use super::{Index, hashed, partial, wildcard};
use crate::error::{Error, Result, code};
use crate::value::{self, Number};

/// The kinds that a key names by a string.
const UNSUPPORTED_KINDS: [&str; 4] = ["2d", "2dsphere", "geoHaystack", "text"];

/// The options of these kinds, and further unsupported options.
const UNSUPPORTED_OPTIONS: [&str; 14] = [
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

/// The languages of text indexes, by names and codes.
const TEXT_LANGUAGES: [&str; 32] = [
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

/// The exclusive upper limit for weights of a text index.
const MAX_WEIGHT: i64 = 100_000;

/// Whether MongoDB has an option with this name.
pub(super) fn is_option(name: &str) -> bool {
    UNSUPPORTED_OPTIONS.contains(&name)
}

/// Refuses a kind that MongoDB does not have either.
pub(super) fn check_kind(kind: &str) -> Result<()> {
    if kind == hashed::KIND || UNSUPPORTED_KINDS.contains(&kind) {
        return Ok(());
    }
    if kind == "wildcard" {
        return cannot_create_index(
            "the key of a wildcard index needs a number, not 'wildcard'".into(),
        );
    }
    cannot_create_index(format!("Unknown index plugin '{kind}'"))
}

/// Refuses an invalid value of an option.
pub(super) fn check_option(name: &str, value: RawBsonRef<'_>) -> Result<()> {
    let is_valid = match name {
        "storageEngine" | "weights" => value.as_document().is_some(),
        "default_language" | "language_override" => value.as_str().is_some(),
        _ => true,
    };
    if !is_valid {
        let type_name = value::type_name(value);
        let message = format!("The field '{name}' cannot be of type {type_name}");
        return Err(Error::with_server_code(code::TYPE_MISMATCH, message));
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

/// Refuses a definition with an unsupported kind or option.
pub(super) fn ensure_supported(specification: &RawDocument, index: &Index) -> Result<()> {
    let mut kinds: Vec<&str> = match specification.get_document("key") {
        Ok(key) => value::fields(key)
            .filter_map(|(_, value)| value.as_str())
            .collect(),
        Err(_) => Vec::new(),
    };
    let option_value = |name: &str| value::get(specification, name);
    if kinds.iter().filter(|kind| **kind == hashed::KIND).count() > 1 {
        let message = "an index can have only one hashed field";
        return Err(Error::with_server_code(
            code::TOO_MANY_HASHED_FIELDS,
            message,
        ));
    }
    kinds.dedup();
    if kinds.len() > 1 {
        return cannot_create_index(format!(
            "an index can have only one kind, not {}",
            kinds.join(" and ")
        ));
    }
    let kind = kinds.first().copied().filter(|kind| *kind != hashed::KIND);
    // A text index may cover all fields.
    if kind.is_some_and(|kind| kind != "text") && index.is_wildcard() {
        return cannot_create_index(
            "the path of an index of this kind cannot contain '$**'".into(),
        );
    }
    if kind == Some("text") {
        ensure_valid_text_index(specification)?;
    } else if option_value("weights").is_some() {
        return cannot_create_index("weights are only for text indexes; leave them out".into());
    }
    if let Some(bits) = option_value("bits").filter(|_| kind == Some("2d")) {
        let bits = Number::from_bson(bits).and_then(Number::truncated_long);
        if !bits.is_some_and(|bits| (1..=32).contains(&bits)) {
            let message = "the bits of a 2d index are 1 to 32";
            return Err(Error::with_server_code(code::INVALID_OPTIONS, message));
        }
    }
    if kind.is_none() {
        wildcard::check_index(index)?;
        hashed::check_index(index)?;
    }
    if let Some(filter) = &index.partial {
        partial::check_filter(filter)?;
    }
    if let Some(kind) = kind {
        return Err(Error::not_supported(format!(
            "a {kind} index is not supported"
        )));
    }
    match UNSUPPORTED_OPTIONS
        .iter()
        .find(|option| option_value(option).is_some())
    {
        Some(option) => Err(Error::not_supported(format!(
            "the index option {option} is not supported"
        ))),
        None => Ok(()),
    }
}

fn ensure_valid_text_index(specification: &RawDocument) -> Result<()> {
    if let Some(RawBsonRef::Document(weights)) = value::get(specification, "weights") {
        for (path, weight) in value::fields(weights) {
            let weight = Number::from_bson(weight).and_then(Number::truncated_long);
            if !weight.is_some_and(|weight| weight > 0 && weight < MAX_WEIGHT) {
                let message = format!("the weight of '{path}' must be between 0 and {MAX_WEIGHT}");
                return cannot_create_index(message);
            }
        }
    }
    let language = value::get(specification, "default_language").and_then(|value| value.as_str());
    if let Some(language) = language
        && !TEXT_LANGUAGES.contains(&language.to_lowercase().as_str())
    {
        return cannot_create_index(format!("'{language}' is not a language of text indexes"));
    }
    Ok(())
}

fn cannot_create_index(message: String) -> Result<()> {
    Err(Error::with_server_code(code::CANNOT_CREATE_INDEX, message))
}
