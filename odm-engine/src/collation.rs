//! Collations: language-specific order of strings in an index or an operation.
//!
//! ```json
//! { "key": { "email": 1 }, "unique": true, "collation": { "locale": "en", "strength": 2 } }
//! { "find": "people", "filter": { "email": "ada@example.org" }, "collation": { "locale": "en", "strength": 2 } }
//! ```
//!
//! The keys of such an index contain a collation key in place of each string. Strings that are equal under the collation have
//! equal collation keys. Collation keys sort like their strings. An operation compares values by a [`ValueOrder`].

#[cfg_attr(not(feature = "collation"), path = "collation/no_collator.rs")]
mod collator;
mod locale;
mod order;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

pub(crate) use collator::Collator;
use locale::CollationLocale;
pub(crate) use order::ValueOrder;

use crate::document::append_field;
use crate::error::{Error, Result, code};
use crate::value::{self, Number};

/// The ICU version of the MongoDB servers that the engine is compared with. A collation is listed with this version and accepts
/// no other version.
const ICU_VERSION: &str = "57.1";

/// The locale without a collation.
const SIMPLE_LOCALE: &str = "simple";

/// The order of strings, as in MongoDB's `collation`.
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
/// The engine uses the library ICU4X, whose data is newer than a server's. A few characters, mostly rare ones, sort differently.
/// If a later version of the program brings different rules, the engine rebuilds the affected indexes when it opens a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collation {
    locale: &'static CollationLocale,
    case_level: bool,
    case_first: CaseFirst,
    strength: u8,
    numeric_ordering: bool,
    alternate: AlternateMode,
    max_variable: MaxVariable,
    normalization: bool,
}

/// Which case sorts first among otherwise equal strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaseFirst {
    Off,
    Upper,
    Lower,
}

/// Whether white space and punctuation are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AlternateMode {
    NonIgnorable,
    Shifted,
}

/// The characters that `Shifted` ignores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MaxVariable {
    Punct,
    Space,
}

impl Collation {
    /// Reads `{ locale, caseLevel, caseFirst, strength, numericOrdering, alternate, maxVariable, normalization, backwards,
    /// version }`.
    ///
    /// Only `locale` is required. The locale defines the defaults of the optional fields. Returns `None` for the locale `simple`,
    /// which compares byte by byte.
    ///
    /// # Errors
    /// Specifications that MongoDB refuses, with MongoDB's error codes. "Not supported" for languages and variants without rules in
    /// the engine, and for `backwards` where it differs from the locale's default. Without the feature `collation`, every
    /// collation is "not supported".
    pub fn from_document(specification: &RawDocument) -> Result<Option<Collation>> {
        let fields = CollationFields::parse(specification)?;
        let Some(name) = fields.locale else {
            let message = "a collation needs a locale, such as \"en\"";
            return Err(Error::with_server_code(code::MISSING_FIELD, message));
        };
        if name == SIMPLE_LOCALE {
            return Ok(None);
        }
        let rules = locale::find_locale(name)?;
        if fields.version.is_some_and(|version| version != ICU_VERSION) {
            let message = format!("the version of a collation is \"{ICU_VERSION}\"; leave it out");
            return Err(Error::with_server_code(
                code::INCOMPATIBLE_COLLATION_VERSION,
                message,
            ));
        }
        let backwards = fields.backwards.unwrap_or(rules.is_backwards());
        let strength = fields.strength.unwrap_or(3);
        let case_level = fields.case_level.unwrap_or(false);
        let default = match rules.is_upper_first() {
            true => CaseFirst::Upper,
            false => CaseFirst::Off,
        };
        let case_first = fields.case_first.unwrap_or(default);
        if case_first != CaseFirst::Off && !case_level && strength < 3 {
            let message = format!(
                "'caseFirst' of the locale {name} needs 'caseLevel' or a 'strength' of 3 or more; set {{ caseFirst: \"off\" }}"
            );
            return Err(Error::bad_value(message));
        }
        if backwards && strength == 1 {
            let message =
                format!("'backwards' of the locale {name} needs a 'strength' of 2 or more");
            return Err(Error::bad_value(message));
        }
        let Some(locale) = rules.supported() else {
            let message =
                format!("the engine does not have the collation rules of the locale {name}");
            return Err(Error::not_supported(message));
        };
        if backwards != locale.is_backwards() {
            let message = format!(
                "'backwards' must be {} for the locale {name}; the opposite is not supported",
                !backwards
            );
            return Err(Error::not_supported(message));
        }
        let alternate = match locale.is_shifted() {
            true => AlternateMode::Shifted,
            false => AlternateMode::NonIgnorable,
        };
        let collation = Collation {
            locale,
            case_level,
            case_first,
            strength,
            numeric_ordering: fields.numeric_ordering.unwrap_or(false),
            alternate: fields.alternate.unwrap_or(alternate),
            max_variable: fields.max_variable.unwrap_or(MaxVariable::Punct),
            normalization: fields.normalization.unwrap_or(locale.is_normalized()),
        };
        Collator::new(&collation)?;
        Ok(Some(collation))
    }

    /// Returns all fields, as MongoDB lists them.
    pub fn to_document(&self) -> RawDocumentBuf {
        let case_first = match self.case_first {
            CaseFirst::Off => "off",
            CaseFirst::Upper => "upper",
            CaseFirst::Lower => "lower",
        };
        let alternate = match self.alternate {
            AlternateMode::NonIgnorable => "non-ignorable",
            AlternateMode::Shifted => "shifted",
        };
        let max_variable = match self.max_variable {
            MaxVariable::Punct => "punct",
            MaxVariable::Space => "space",
        };
        let mut document = RawDocumentBuf::new();
        append_field(&mut document, "locale", self.locale.name);
        append_field(&mut document, "caseLevel", self.case_level);
        append_field(&mut document, "caseFirst", case_first);
        append_field(&mut document, "strength", i32::from(self.strength));
        append_field(&mut document, "numericOrdering", self.numeric_ordering);
        append_field(&mut document, "alternate", alternate);
        append_field(&mut document, "maxVariable", max_variable);
        append_field(&mut document, "normalization", self.normalization);
        append_field(&mut document, "backwards", self.locale.is_backwards());
        append_field(&mut document, "version", ICU_VERSION);
        document
    }
}

/// The fields of a specification, before defaults.
#[derive(Default)]
struct CollationFields<'s> {
    locale: Option<&'s str>,
    case_level: Option<bool>,
    case_first: Option<CaseFirst>,
    strength: Option<u8>,
    numeric_ordering: Option<bool>,
    alternate: Option<AlternateMode>,
    max_variable: Option<MaxVariable>,
    normalization: Option<bool>,
    backwards: Option<bool>,
    version: Option<&'s str>,
}

impl<'s> CollationFields<'s> {
    fn parse(specification: &'s RawDocument) -> Result<CollationFields<'s>> {
        let mut fields = CollationFields::default();
        for element in specification.iter_elements() {
            let element = element?;
            let (name, value) = (element.key().as_str(), element.value()?);
            // As on MongoDB, null counts as missing.
            if value == RawBsonRef::Null && COLLATION_FIELDS.contains(&name) {
                continue;
            }
            match name {
                "locale" => fields.locale = Some(expect_text(name, value)?),
                "caseLevel" => fields.case_level = Some(expect_flag(name, value)?),
                "caseFirst" => fields.case_first = Some(expect_choice(name, value, &CASE_FIRST)?),
                "strength" => fields.strength = Some(parse_strength(value)?),
                "numericOrdering" => fields.numeric_ordering = Some(expect_flag(name, value)?),
                "alternate" => fields.alternate = Some(expect_choice(name, value, &ALTERNATE)?),
                "maxVariable" => {
                    fields.max_variable = Some(expect_choice(name, value, &MAX_VARIABLE)?)
                }
                "normalization" => fields.normalization = Some(expect_flag(name, value)?),
                "backwards" => fields.backwards = Some(expect_flag(name, value)?),
                "version" => fields.version = Some(expect_text(name, value)?),
                other => {
                    let message = format!(
                        "a collation has no field '{other}'; its fields are {}",
                        COLLATION_FIELDS.join(", ")
                    );
                    return Err(Error::with_server_code(code::UNKNOWN_FIELD, message));
                }
            }
        }
        Ok(fields)
    }
}

const COLLATION_FIELDS: [&str; 10] = [
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

const ALTERNATE: [(&str, AlternateMode); 2] = [
    ("non-ignorable", AlternateMode::NonIgnorable),
    ("shifted", AlternateMode::Shifted),
];

const MAX_VARIABLE: [(&str, MaxVariable); 2] =
    [("punct", MaxVariable::Punct), ("space", MaxVariable::Space)];

fn expect_text<'v>(name: &str, value: RawBsonRef<'v>) -> Result<&'v str> {
    value.as_str().ok_or_else(|| type_mismatch(name, value))
}

fn expect_flag(name: &str, value: RawBsonRef<'_>) -> Result<bool> {
    value.as_bool().ok_or_else(|| type_mismatch(name, value))
}

fn expect_choice<T: Copy>(name: &str, value: RawBsonRef<'_>, choices: &[(&str, T)]) -> Result<T> {
    let text = expect_text(name, value)?;
    if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == text) {
        return Ok(*choice);
    }
    let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
    let message = format!(
        "'{text}' is not a valid 'collation.{name}'; valid values are {}",
        names.join(", ")
    );
    Err(Error::bad_value(message))
}

fn parse_strength(value: RawBsonRef<'_>) -> Result<u8> {
    let Some(number) = Number::from_bson(value) else {
        return Err(type_mismatch("strength", value));
    };
    // As on MongoDB, a fraction is truncated, and NaN is 0.
    let integer = match number.is_nan() {
        true => Some(0),
        false => number.truncated_long(),
    };
    match integer {
        Some(0) => Err(Error::bad_value(
            "the strength of a collation is 1 to 5, not 0",
        )),
        Some(strength @ 1..=5) => Ok(strength.unsigned_abs().to_le_bytes()[0]),
        _ => {
            let message = "the strength of a collation is 1 to 5";
            Err(Error::with_server_code(code::VALUE_OUT_OF_RANGE, message))
        }
    }
}

fn type_mismatch(name: &str, value: RawBsonRef<'_>) -> Error {
    let type_name = value::type_name(value);
    let message = format!("'collation.{name}' cannot be of type {type_name}");
    Error::with_server_code(code::TYPE_MISMATCH, message)
}

#[cfg(all(test, feature = "collation"))]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn code_of(specification: RawDocumentBuf) -> Option<i32> {
        Collation::from_document(&specification).unwrap_err().code()
    }

    #[test]
    fn refused_collations_have_mongodb_codes() {
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
    fn unknown_rules_are_not_supported() {
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
    fn a_locale_defines_the_defaults() {
        let round_trip = |specification: RawDocumentBuf| {
            let collation = Collation::from_document(&specification).unwrap().unwrap();
            bson::Document::try_from(collation.to_document()).unwrap()
        };
        let mut expected = bson::doc! {
            "locale": "en", "caseLevel": false, "caseFirst": "off", "strength": 3, "numericOrdering": false,
            "alternate": "non-ignorable", "maxVariable": "punct", "normalization": false, "backwards": false,
            "version": "57.1",
        };
        assert_eq!(
            round_trip(rawdoc! { "locale": "en", "version": "57.1" }),
            expected
        );
        expected.insert("locale", "th");
        expected.insert("alternate", "shifted");
        expected.insert("normalization", true);
        assert_eq!(round_trip(rawdoc! { "locale": "th" }), expected);
        assert!(
            round_trip(rawdoc! { "locale": "fr_CA" })
                .get_bool("backwards")
                .unwrap()
        );
        assert_eq!(
            round_trip(rawdoc! { "locale": "mt" })
                .get_str("caseFirst")
                .unwrap(),
            "upper"
        );
        assert_eq!(
            round_trip(rawdoc! { "locale": "en", "strength": 2.9 })
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
