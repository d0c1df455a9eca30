//! Collations: how an index compares strings, if not byte by byte.
//!
//! ```json
//! { "key": { "email": 1 }, "unique": true, "collation": { "locale": "en", "strength": 2 } }
//! ```
//!
//! In the keys of such an index, a string stands as its collation key: bytes that are equal for strings that are equal by
//! the collation, and sort as they do.

#[cfg_attr(not(feature = "collation"), path = "collation/no_collator.rs")]
mod collator;
mod keyed;
mod locale;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

pub(crate) use collator::Collator;
pub(super) use keyed::{compares_strings, keyed, keyed_filter};
use locale::Locale;

use super::Index;
use crate::document::append;
use crate::error::{Error, Result, code};
use crate::value::{self, Number};

/// The version of ICU in the servers that the engine is held to. A collation is listed with it, and can name no other.
const VERSION: &str = "57.1";

/// The locale that stands for no collation.
const SIMPLE: &str = "simple";

/// How strings are compared, as MongoDB's `collation`.
///
/// ```
/// # #[cfg(feature = "collation")] {
/// use bson::rawdoc;
/// use odm_engine::Collation;
///
/// let ignoring_case = Collation::from_document(&rawdoc! { "locale": "en", "strength": 2 })?.unwrap();
/// assert_eq!(ignoring_case.to_document().get_str("caseFirst").unwrap(), "off");
/// # }
/// # Ok::<(), odm_engine::Error>(())
/// ```
///
/// The rules are those of the library ICU4X, whose data is newer than a server's: a few characters, mostly rare ones, stand
/// elsewhere. When a later version of a program brings other rules, indexes are made anew as a database is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collation {
    locale: &'static Locale,
    case_level: bool,
    case_first: CaseFirst,
    strength: u8,
    numeric_ordering: bool,
    alternate: Alternate,
    max_variable: MaxVariable,
    normalization: bool,
}

/// Which case comes first among equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaseFirst {
    Off,
    Upper,
    Lower,
}

/// Whether white space and punctuation count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alternate {
    NonIgnorable,
    Shifted,
}

/// What does not count if not all does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MaxVariable {
    Punct,
    Space,
}

impl Collation {
    /// Reads `{ locale, caseLevel, caseFirst, strength, numericOrdering, alternate, maxVariable, normalization, backwards,
    /// version }`, of which only `locale` is required; the others are as the locale has them. `None` for the locale
    /// `simple`, which compares byte by byte.
    ///
    /// # Errors
    /// What MongoDB refuses, under its codes; "not supported" for the languages and variants whose rules the engine does
    /// not have, for `backwards` where the locale does not say it, and for everything without the feature `collation`.
    pub fn from_document(specification: &RawDocument) -> Result<Option<Collation>> {
        let given = Given::parse(specification)?;
        let Some(name) = given.locale else {
            let message = "a collation needs a locale, such as \"en\"";
            return Err(Error::server(code::MISSING_FIELD, message));
        };
        if name == SIMPLE {
            return Ok(None);
        }
        let found = locale::find(name)?;
        if given.version.is_some_and(|version| version != VERSION) {
            let message = format!("the version of a collation is \"{VERSION}\"; leave it out");
            return Err(Error::server(code::INCOMPATIBLE_COLLATION_VERSION, message));
        }
        let backwards = given.backwards.unwrap_or(found.is_backwards());
        let strength = given.strength.unwrap_or(3);
        let case_level = given.case_level.unwrap_or(false);
        let default = match found.is_upper_first() {
            true => CaseFirst::Upper,
            false => CaseFirst::Off,
        };
        let case_first = given.case_first.unwrap_or(default);
        if case_first != CaseFirst::Off && !case_level && strength < 3 {
            let message = format!(
                "'caseFirst' of the locale {name} needs 'caseLevel' or a 'strength' of 3 or more; say {{ caseFirst: \"off\" }}"
            );
            return Err(Error::bad_value(message));
        }
        if backwards && strength == 1 {
            let message =
                format!("'backwards' of the locale {name} needs a 'strength' of 2 or more");
            return Err(Error::bad_value(message));
        }
        let Some(locale) = found.offered() else {
            let message = format!("the rules of the locale {name} are not known to the engine");
            return Err(Error::not_supported(message));
        };
        if backwards != locale.is_backwards() {
            let message = format!(
                "'backwards' is {} for the locale {name}, and nothing else is supported",
                !backwards
            );
            return Err(Error::not_supported(message));
        }
        let alternate = match locale.is_shifted() {
            true => Alternate::Shifted,
            false => Alternate::NonIgnorable,
        };
        let collation = Collation {
            locale,
            case_level,
            case_first,
            strength,
            numeric_ordering: given.numeric_ordering.unwrap_or(false),
            alternate: given.alternate.unwrap_or(alternate),
            max_variable: given.max_variable.unwrap_or(MaxVariable::Punct),
            normalization: given.normalization.unwrap_or(locale.is_normalized()),
        };
        Collator::new(&collation)?;
        Ok(Some(collation))
    }

    /// All fields, as MongoDB lists them.
    pub fn to_document(&self) -> RawDocumentBuf {
        let case_first = match self.case_first {
            CaseFirst::Off => "off",
            CaseFirst::Upper => "upper",
            CaseFirst::Lower => "lower",
        };
        let alternate = match self.alternate {
            Alternate::NonIgnorable => "non-ignorable",
            Alternate::Shifted => "shifted",
        };
        let max_variable = match self.max_variable {
            MaxVariable::Punct => "punct",
            MaxVariable::Space => "space",
        };
        let mut document = RawDocumentBuf::new();
        append(&mut document, "locale", self.locale.name);
        append(&mut document, "caseLevel", self.case_level);
        append(&mut document, "caseFirst", case_first);
        append(&mut document, "strength", i32::from(self.strength));
        append(&mut document, "numericOrdering", self.numeric_ordering);
        append(&mut document, "alternate", alternate);
        append(&mut document, "maxVariable", max_variable);
        append(&mut document, "normalization", self.normalization);
        append(&mut document, "backwards", self.locale.is_backwards());
        append(&mut document, "version", VERSION);
        document
    }
}

/// What a specification says, each thing by itself.
#[derive(Default)]
struct Given<'s> {
    locale: Option<&'s str>,
    case_level: Option<bool>,
    case_first: Option<CaseFirst>,
    strength: Option<u8>,
    numeric_ordering: Option<bool>,
    alternate: Option<Alternate>,
    max_variable: Option<MaxVariable>,
    normalization: Option<bool>,
    backwards: Option<bool>,
    version: Option<&'s str>,
}

impl<'s> Given<'s> {
    fn parse(specification: &'s RawDocument) -> Result<Given<'s>> {
        let mut given = Given::default();
        for element in specification.iter_elements() {
            let element = element?;
            let (name, value) = (element.key().as_str(), element.value()?);
            // As on MongoDB, null is as if it had not been said.
            if value == RawBsonRef::Null && FIELDS.contains(&name) {
                continue;
            }
            match name {
                "locale" => given.locale = Some(text(name, value)?),
                "caseLevel" => given.case_level = Some(flag(name, value)?),
                "caseFirst" => given.case_first = Some(one_of(name, value, &CASE_FIRST)?),
                "strength" => given.strength = Some(strength(value)?),
                "numericOrdering" => given.numeric_ordering = Some(flag(name, value)?),
                "alternate" => given.alternate = Some(one_of(name, value, &ALTERNATE)?),
                "maxVariable" => given.max_variable = Some(one_of(name, value, &MAX_VARIABLE)?),
                "normalization" => given.normalization = Some(flag(name, value)?),
                "backwards" => given.backwards = Some(flag(name, value)?),
                "version" => given.version = Some(text(name, value)?),
                other => {
                    let message = format!(
                        "a collation has no field '{other}'; its fields are {}",
                        FIELDS.join(", ")
                    );
                    return Err(Error::server(code::UNKNOWN_FIELD, message));
                }
            }
        }
        Ok(given)
    }
}

const FIELDS: [&str; 10] = [
    "locale",
    "caseLevel",
    "caseFirst",
    "strength",
    "numericOrdering",
    "alternate",
    "maxVariable",
    "normalization",
    "backwards",
    "version",
];

const CASE_FIRST: [(&str, CaseFirst); 3] = [
    ("off", CaseFirst::Off),
    ("upper", CaseFirst::Upper),
    ("lower", CaseFirst::Lower),
];

const ALTERNATE: [(&str, Alternate); 2] = [
    ("non-ignorable", Alternate::NonIgnorable),
    ("shifted", Alternate::Shifted),
];

const MAX_VARIABLE: [(&str, MaxVariable); 2] =
    [("punct", MaxVariable::Punct), ("space", MaxVariable::Space)];

/// Refuses an index that cannot have its collation.
pub(super) fn check(index: &Index) -> Result<()> {
    if index.collation.is_none() {
        return Ok(());
    }
    if matches!(index.keys.as_slice(), [(path, _)] if path == "_id") && index.hashed.is_none() {
        return Err(Error::bad_value("the index of _id cannot have a collation"));
    }
    if index.partial.as_deref().is_some_and(keyed::has_patterns) {
        let message = "a regular expression in the filter of a partial index with a collation is not supported";
        return Err(Error::not_supported(message));
    }
    Ok(())
}

/// Refuses the kinds and versions of indexes that have no collations, whichever it is.
pub(super) fn check_kind(specification: &RawDocument, index: &Index) -> Result<()> {
    let cannot = |message: String| Err(Error::server(code::CANNOT_CREATE_INDEX, message));
    if index.version() < 2 {
        return cannot("an index with a collation has the version 2; leave v out".into());
    }
    if index.collation.is_none() {
        return Ok(());
    }
    let key = value::get(specification, "key").and_then(|key| key.as_document());
    let kinds = key.into_iter().flat_map(value::fields);
    let mut kinds = kinds.filter_map(|(_, kind)| kind.as_str());
    match kinds.find(|kind| matches!(*kind, "2d" | "geoHaystack" | "text")) {
        Some(kind) => cannot(format!("a {kind} index cannot have a collation")),
        None => Ok(()),
    }
}

fn text<'v>(name: &str, value: RawBsonRef<'v>) -> Result<&'v str> {
    value.as_str().ok_or_else(|| mistyped(name, value))
}

fn flag(name: &str, value: RawBsonRef<'_>) -> Result<bool> {
    value.as_bool().ok_or_else(|| mistyped(name, value))
}

fn one_of<T: Copy>(name: &str, value: RawBsonRef<'_>, choices: &[(&str, T)]) -> Result<T> {
    let text = text(name, value)?;
    if let Some((_, choice)) = choices.iter().find(|(own, _)| *own == text) {
        return Ok(*choice);
    }
    let names: Vec<_> = choices.iter().map(|(own, _)| *own).collect();
    let message = format!(
        "'{text}' is no 'collation.{name}'; that is one of {}",
        names.join(", ")
    );
    Err(Error::bad_value(message))
}

fn strength(value: RawBsonRef<'_>) -> Result<u8> {
    let Some(number) = Number::from_bson(value) else {
        return Err(mistyped("strength", value));
    };
    // As on MongoDB, a fraction is left out, and NaN is 0.
    let whole = match number.is_nan() {
        true => Some(0),
        false => number.truncated(),
    };
    match whole {
        Some(0) => Err(Error::bad_value(
            "the strength of a collation is 1 to 5, not 0",
        )),
        Some(strength @ 1..=5) => Ok(strength.unsigned_abs().to_le_bytes()[0]),
        _ => {
            let message = "the strength of a collation is 1 to 5";
            Err(Error::server(code::VALUE_OUT_OF_RANGE, message))
        }
    }
}

fn mistyped(name: &str, value: RawBsonRef<'_>) -> Error {
    let type_name = value::type_name(value);
    let message = format!("'collation.{name}' cannot be of type {type_name}");
    Error::server(code::TYPE_MISMATCH, message)
}

#[cfg(all(test, feature = "collation"))]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn code_of(specification: RawDocumentBuf) -> Option<i32> {
        Collation::from_document(&specification).unwrap_err().code()
    }

    #[test]
    fn what_is_refused_has_its_number() {
        assert_eq!(code_of(rawdoc! { "strength": 2 }), Some(40414));
        assert_eq!(
            code_of(rawdoc! { "locale": bson::RawBson::Null }),
            Some(40414)
        );
        assert_eq!(code_of(rawdoc! { "locale": "en", "size": 2 }), Some(40415));
        assert_eq!(code_of(rawdoc! { "locale": 1 }), Some(14));
        assert_eq!(
            code_of(rawdoc! { "locale": "en", "numericOrdering": 1 }),
            Some(14)
        );
        for locale in [
            "",
            "EN",
            "en-US",
            "en_GB",
            "root",
            "no",
            "de_DE@collation=phonebook",
            "de@foo=bar",
            "en@",
        ] {
            assert_eq!(code_of(rawdoc! { "locale": locale }), Some(2), "{locale}");
        }
        for (strength, code) in [(0, 2), (-1, 51024), (6, 51024)] {
            assert_eq!(
                code_of(rawdoc! { "locale": "en", "strength": strength }),
                Some(code)
            );
        }
        assert_eq!(
            code_of(rawdoc! { "locale": "en", "strength": f64::NAN }),
            Some(2)
        );
        assert_eq!(
            code_of(rawdoc! { "locale": "en", "strength": i64::MAX }),
            Some(51024)
        );
        assert_eq!(
            code_of(rawdoc! { "locale": "en", "caseFirst": "x" }),
            Some(2)
        );
        assert_eq!(
            code_of(rawdoc! { "locale": "en", "caseFirst": "upper", "strength": 2 }),
            Some(2)
        );
        assert_eq!(code_of(rawdoc! { "locale": "da", "strength": 1 }), Some(2));
        assert_eq!(
            code_of(rawdoc! { "locale": "fr_CA", "strength": 1 }),
            Some(2)
        );
        assert_eq!(
            code_of(rawdoc! { "locale": "en", "version": "58.1" }),
            Some(161)
        );
    }

    #[test]
    fn what_the_engine_does_not_have_is_not_supported() {
        for specification in [
            rawdoc! { "locale": "haw" },
            rawdoc! { "locale": "en@collation=search" },
            rawdoc! { "locale": "zh_Hant@collation=big5han" },
            rawdoc! { "locale": "en", "backwards": true },
            rawdoc! { "locale": "fr_CA", "backwards": false },
        ] {
            let error = Collation::from_document(&specification).unwrap_err();
            assert!(error.is_not_supported(), "{specification:?}: {error}");
        }
    }

    #[test]
    fn a_locale_says_what_is_not_given() {
        let listed = |specification: RawDocumentBuf| {
            let collation = Collation::from_document(&specification).unwrap().unwrap();
            bson::Document::try_from(collation.to_document()).unwrap()
        };
        let mut expected = bson::doc! {
            "locale": "en", "caseLevel": false, "caseFirst": "off", "strength": 3, "numericOrdering": false,
            "alternate": "non-ignorable", "maxVariable": "punct", "normalization": false, "backwards": false,
            "version": "57.1",
        };
        assert_eq!(
            listed(rawdoc! { "locale": "en", "version": "57.1" }),
            expected
        );
        expected.insert("locale", "th");
        expected.insert("alternate", "shifted");
        expected.insert("normalization", true);
        assert_eq!(listed(rawdoc! { "locale": "th" }), expected);
        assert!(
            listed(rawdoc! { "locale": "fr_CA" })
                .get_bool("backwards")
                .unwrap()
        );
        assert_eq!(
            listed(rawdoc! { "locale": "mt" })
                .get_str("caseFirst")
                .unwrap(),
            "upper"
        );
        assert_eq!(
            listed(rawdoc! { "locale": "en", "strength": 2.9 })
                .get_i32("strength")
                .unwrap(),
            2
        );
        assert_eq!(
            Collation::from_document(&rawdoc! { "locale": "simple", "strength": 9 }).ok(),
            None
        );
        assert_eq!(
            Collation::from_document(&rawdoc! { "locale": "simple", "strength": 1 }).unwrap(),
            None
        );
    }
}
