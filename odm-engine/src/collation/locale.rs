//! The locales of MongoDB's collations, with their defaults.
//!
//! Both the accepted names and the defaults were read from a MongoDB server.

use crate::error::{Error, Result};

/// A locale whose rules the engine has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CollationLocale {
    /// The name in MongoDB: `de_AT`, `de@collation=phonebook`.
    pub(super) name: &'static str,
    /// The name in the library: `de-AT`, `de-u-co-phonebk`.
    pub(super) tag: &'static str,
}

/// A locale that MongoDB accepts.
pub(super) enum KnownLocale {
    Supported(&'static CollationLocale),
    /// A locale whose rules the engine lacks.
    Unsupported(String),
}

impl KnownLocale {
    pub(super) fn supported(&self) -> Option<&'static CollationLocale> {
        match self {
            KnownLocale::Supported(locale) => Some(locale),
            KnownLocale::Unsupported(_) => None,
        }
    }

    pub(super) fn is_backwards(&self) -> bool {
        is_backwards(self.name())
    }

    pub(super) fn is_upper_first(&self) -> bool {
        matches!(self.name(), "da" | "mt")
    }

    fn name(&self) -> &str {
        match self {
            KnownLocale::Supported(locale) => locale.name,
            KnownLocale::Unsupported(name) => name,
        }
    }
}

impl CollationLocale {
    /// Whether accents are compared from the end of a string.
    pub(super) fn is_backwards(&self) -> bool {
        is_backwards(self.name)
    }

    /// Whether punctuation is ignored.
    pub(super) fn is_shifted(&self) -> bool {
        self.name == "th"
    }

    /// Whether a server normalizes strings. The engine always normalizes.
    pub(super) fn is_normalized(&self) -> bool {
        let base = self.name.split('@').next().unwrap_or_default();
        NORMALIZED_LOCALES.contains(&base)
    }
}

/// Finds a locale by name.
///
/// # Errors
/// MongoDB does not accept the name.
pub(super) fn find_locale(name: &str) -> Result<KnownLocale> {
    if let Some(locale) = SUPPORTED_LOCALES.iter().find(|locale| locale.name == name) {
        return Ok(KnownLocale::Supported(locale));
    }
    let (base, variant) = match name.split_once("@collation=") {
        Some((base, variant)) => (base, Some(variant)),
        None => (name, None),
    };
    let is_base = LOCALES_WITHOUT_RULES.contains(&base)
        || SUPPORTED_LOCALES.iter().any(|locale| locale.name == base);
    let is_known = match variant {
        None => LOCALES_WITHOUT_RULES.contains(&base),
        Some("emoji" | "eor" | "search") => is_base,
        Some("big5han" | "gb2312han" | "standard") if matches!(base, "zh" | "zh_Hant") => true,
        Some("phonetic") => base == "ln",
        Some("searchjl") => base == "ko",
        Some("standard") => base == "sv",
        Some(_) => false,
    };
    if is_known {
        return Ok(KnownLocale::Unsupported(name.to_owned()));
    }
    Err(Error::bad_value(format!("'{name}' is not a locale")))
}

/// The names of the supported variants.
#[cfg(all(test, feature = "collation"))]
pub(super) fn variants() -> impl Iterator<Item = &'static str> {
    let names = SUPPORTED_LOCALES.iter().map(|locale| locale.name);
    names.filter(|name| name.contains('@'))
}

fn is_backwards(name: &str) -> bool {
    name == "fr_CA"
}

/// The locales for which a server normalizes strings, with their variants.
const NORMALIZED_LOCALES: [&str; 23] = [
    "as", "bn", "el", "fa", "fa_AF", "gu", "he", "hi", "ig", "km", "kn", "kok", "mr", "my", "or",
    "pa", "ps", "si", "ta", "te", "th", "vi", "yo",
];

/// The locales that the library knows by name only, and sorts by the default rules.
const LOCALES_WITHOUT_RULES: [&str; 7] = ["haw", "kl", "lkt", "ln", "se", "smn", "yi"];

macro_rules! locales {
    ($($name:literal $(= $tag:literal)?),* $(,)?) => {
        [$(locales!(@ $name $($tag)?)),*]
    };
    (@ $name:literal) => { CollationLocale { name: $name, tag: $name } };
    (@ $name:literal $tag:literal) => { CollationLocale { name: $name, tag: $tag } };
}

/// The locales that the library has rules for, or that use the default rules.
static SUPPORTED_LOCALES: [CollationLocale; 118] = locales![
    "af",
    "am",
    "ar",
    "ar@collation=compat" = "ar-u-co-compat",
    "as",
    "az",
    "be",
    "bg",
    "bn",
    "bn@collation=traditional" = "bn-u-co-trad",
    "bo",
    "bs",
    "bs_Cyrl" = "bs-Cyrl",
    "ca",
    "chr",
    "cs",
    "cy",
    "da",
    "de",
    "de@collation=phonebook" = "de-u-co-phonebk",
    "de_AT" = "de-AT",
    "de_AT@collation=phonebook" = "de-AT-u-co-phonebk",
    "dsb",
    "dz",
    "ee",
    "el",
    "en",
    "en_US" = "en-US",
    "en_US_POSIX" = "en-US-posix",
    "eo",
    "es",
    "es@collation=traditional" = "es-u-co-trad",
    "et",
    "fa",
    "fa_AF" = "fa-AF",
    "fi",
    "fi@collation=traditional" = "fi-u-co-trad",
    "fil",
    "fo",
    "fr",
    "fr_CA" = "fr-CA",
    "ga",
    "gl",
    "gu",
    "ha",
    "he",
    "hi",
    "hr",
    "hsb",
    "hu",
    "hy",
    "id",
    "ig",
    "is",
    "it",
    "ja",
    "ja@collation=unihan" = "ja-u-co-unihan",
    "ka",
    "kk",
    "km",
    "kn",
    "kn@collation=traditional" = "kn-u-co-trad",
    "ko",
    "ko@collation=unihan" = "ko-u-co-unihan",
    "kok",
    "ky",
    "lb",
    "lo",
    "lt",
    "lv",
    "mk",
    "ml",
    "mn",
    "mr",
    "ms",
    "mt",
    "my",
    "nb",
    "ne",
    "nl",
    "nn",
    "om",
    "or",
    "pa",
    "pl",
    "ps",
    "pt",
    "ro",
    "ru",
    "si",
    "si@collation=dictionary" = "si-u-co-dict",
    "sk",
    "sl",
    "sq",
    "sr",
    "sr_Latn" = "sr-Latn",
    "sv",
    "sw",
    "ta",
    "te",
    "th",
    "to",
    "tr",
    "ug",
    "uk",
    "ur",
    "vi",
    "vi@collation=traditional" = "vi-u-co-trad",
    "wae",
    "yo",
    "zh",
    "zh@collation=unihan" = "zh-u-co-unihan",
    "zh@collation=zhuyin" = "zh-u-co-zhuyin",
    "zh_Hant" = "zh-Hant",
    "zh_Hant@collation=pinyin" = "zh-Hant-u-co-pinyin",
    "zh_Hant@collation=unihan" = "zh-Hant-u-co-unihan",
    "zh_Hant@collation=zhuyin" = "zh-Hant-u-co-zhuyin",
    "zu",
];
