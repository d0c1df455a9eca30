//! Conversion of strings into collation keys, by the rules of ICU4X.

use std::cmp::Ordering;
use std::hash::Hasher;

use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering};
use icu_collator::{Collator as IcuCollator, CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;
use twox_hash::XxHash3_64;

use super::{AlternateMode, CaseFirst, Collation};
use crate::error::{Error, Result};

/// The version of the key format. Increase the number if collation keys change in a way that [`Collator::rules`] cannot detect.
const KEY_FORMAT_VERSION: u64 = 1;

/// A converter from strings to collation keys.
pub(crate) struct Collator {
    rules: CollatorBorrowed<'static>,
}

impl Collator {
    /// Creates the collator of a collation.
    ///
    /// # Errors
    /// Not supported, if the library does not know the locale.
    pub(crate) fn new(collation: &Collation) -> Result<Collator> {
        let unknown = |error: &dyn std::fmt::Display| {
            let name = collation.locale.name;
            Error::not_supported(format!("no collation rules for the locale {name}: {error}"))
        };
        let tag = collation.locale.tag;
        let locale = Locale::try_from_str(tag).map_err(|error| unknown(&error))?;
        let mut preferences = CollatorPreferences::from(&locale);
        // Set every option, so that the result does not depend on defaults of the library.
        preferences.case_first = Some(match collation.case_first {
            CaseFirst::Off => CollationCaseFirst::False,
            CaseFirst::Upper => CollationCaseFirst::Upper,
            CaseFirst::Lower => CollationCaseFirst::Lower,
        });
        preferences.numeric_ordering = Some(match collation.numeric_ordering {
            true => CollationNumericOrdering::True,
            false => CollationNumericOrdering::False,
        });
        let mut options = CollatorOptions::default();
        options.strength = Some(match collation.strength {
            1 => Strength::Primary,
            2 => Strength::Secondary,
            3 => Strength::Tertiary,
            4 => Strength::Quaternary,
            _ => Strength::Identical,
        });
        options.alternate_handling = Some(match collation.alternate {
            AlternateMode::NonIgnorable => AlternateHandling::NonIgnorable,
            AlternateMode::Shifted => AlternateHandling::Shifted,
        });
        options.max_variable = Some(match collation.max_variable {
            super::MaxVariable::Punct => MaxVariable::Punctuation,
            super::MaxVariable::Space => MaxVariable::Space,
        });
        options.case_level = Some(match collation.case_level {
            true => CaseLevel::On,
            false => CaseLevel::Off,
        });
        let rules = IcuCollator::try_new(preferences, options).map_err(|error| unknown(&error))?;
        Ok(Collator { rules })
    }

    /// Returns the collation key of a string. Equal strings have equal keys, and keys sort like the strings.
    pub(crate) fn key(&self, text: &str) -> Vec<u8> {
        let mut key = Vec::with_capacity(text.len() + 8);
        let Ok(()) = self.rules.write_sort_key_to(text, &mut key);
        key
    }

    /// Compares two strings, as their collation keys compare.
    pub(crate) fn compare(&self, a: &str, b: &str) -> Ordering {
        self.rules.compare(a, b)
    }

    /// Returns a version number of the rules, which changes when strings get different keys.
    ///
    /// The library has no such number. This number is a hash over the keys of many characters and of pairs of letters, because a
    /// pair such as `ch` may sort as one letter. A change in Unicode or CLDR shifts the keys of later characters, so the hash
    /// changes.
    pub(crate) fn rules(&self) -> i64 {
        let mut hasher = XxHash3_64::with_seed(KEY_FORMAT_VERSION);
        let mut text = String::new();
        for (first, second) in
            ('a'..='z').flat_map(|first| ('a'..='z').map(move |second| (first, second)))
        {
            text.extend([first, second, ' ']);
        }
        let characters = (0..0x3000_u32).chain((0x3000..0x2_0000).step_by(16));
        for character in characters.filter_map(char::from_u32) {
            text.push(character);
            if text.len() >= 64 {
                hasher.write(&self.key(&text));
                text.clear();
            }
        }
        hasher.write(&self.key(&text));
        hasher.finish().cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;
    use crate::collation::locale;

    fn new_collator(specification: bson::RawDocumentBuf) -> Collator {
        let collation = Collation::from_document(&specification).unwrap();
        Collator::new(&collation.unwrap()).unwrap()
    }

    #[test]
    fn strength_decides_which_differences_are_compared() {
        let strength = |strength| new_collator(rawdoc! { "locale": "en", "strength": strength });
        let (letters, accents, case) = (strength(1), strength(2), strength(3));
        assert_eq!(letters.key("resume"), letters.key("Résumé"));
        assert_ne!(accents.key("resume"), accents.key("résumé"));
        assert_eq!(accents.key("résumé"), accents.key("RÉSUMÉ"));
        assert_ne!(case.key("a"), case.key("A"));
        assert!(case.key("a") < case.key("A") && case.key("A") < case.key("b"));
        // Composed and decomposed characters are equal.
        assert_eq!(case.key("\u{e9}"), case.key("e\u{301}"));
        assert_ne!(strength(5).key("a"), strength(5).key("a\u{ad}"));
        assert_eq!(strength(4).key("a"), strength(4).key("a\u{ad}"));
    }

    #[test]
    fn each_option_has_an_effect() {
        let en = |option: &str, value: bson::RawBson| {
            let mut specification = rawdoc! { "locale": "en" };
            crate::document::append_field(&mut specification, option, value);
            new_collator(specification)
        };
        let numeric = en("numericOrdering", true.into());
        assert!(numeric.key("a2") < numeric.key("a10"));
        assert!(en("numericOrdering", false.into()).key("a2") > numeric.key("a10"));
        let uppercase_first = en("caseFirst", "upper".into());
        assert!(uppercase_first.key("A") < uppercase_first.key("a"));
        let shifted = en("alternate", "shifted".into());
        assert_eq!(shifted.key("co-op"), shifted.key("coop"));
        let spaces = new_collator(
            rawdoc! { "locale": "en", "alternate": "shifted", "maxVariable": "space" },
        );
        assert_eq!(spaces.key("co op"), spaces.key("coop"));
        assert_ne!(spaces.key("co-op"), spaces.key("coop"));
        let cases = new_collator(rawdoc! { "locale": "en", "strength": 1, "caseLevel": true });
        assert_ne!(cases.key("a"), cases.key("A"));
        assert_eq!(cases.key("a"), cases.key("á"));
    }

    #[test]
    fn a_locale_has_its_own_rules() {
        let collator = |locale: &str| new_collator(rawdoc! { "locale": locale });
        let ordered = |locale: &str, words: &[&str]| {
            let rules = collator(locale);
            words
                .windows(2)
                .all(|pair| rules.key(pair[0]) < rules.key(pair[1]))
        };
        assert!(ordered("de", &["a", "ä", "ad", "af", "z"]));
        assert!(ordered("de@collation=phonebook", &["ad", "ä", "af", "z"]));
        assert!(ordered("sv", &["a", "z", "å", "ä", "ö"]));
        assert!(ordered("cs", &["c", "d", "h", "ch", "i"]));
        assert!(ordered("es@collation=traditional", &["cz", "ch", "d"]));
        assert!(ordered("fr", &["cote", "coté", "côte", "côté"]));
        assert!(ordered("fr_CA", &["cote", "côte", "coté", "côté"]));
        // In Turkish, i and I are two letters.
        let turkish = new_collator(rawdoc! { "locale": "tr", "strength": 2 });
        assert_ne!(turkish.key("i"), turkish.key("I"));
        assert_eq!(turkish.key("ı"), turkish.key("I"));
    }

    #[test]
    fn the_library_has_the_rules_of_every_variant() {
        for variant in locale::variants() {
            let base = variant.split('@').next().unwrap();
            let rules = |locale: &str| new_collator(rawdoc! { "locale": locale }).rules();
            assert_ne!(rules(variant), rules(base), "{variant}");
        }
    }

    #[test]
    fn rules_have_a_number_that_stays() {
        let strength =
            |strength| new_collator(rawdoc! { "locale": "en", "strength": strength }).rules();
        assert_eq!(strength(2), strength(2));
        assert_ne!(strength(2), strength(3));
    }
}
