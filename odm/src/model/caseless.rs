//! Caseless texts: the form of a text for indexes with `ignore_case`.
//!
//! A document stores the caseless form beside each text with such an index, in the metadata. The index contains the caseless form.
//! A collation of the database is no alternative. A collation applies to all conditions of a query and to no regular expression. The
//! caseless form has the same meaning on every backend.

use bson::{Bson, Document, RawDocumentBuf};

use crate::{
    Result,
    metadata::{self, CASELESS},
    model::stored::{edit_fields, set_at},
    schema::Model,
};

/// Returns the caseless form of a text: equal for all texts that differ only in case.
///
/// Two texts that a regular expression with the option `i` regards as equal have the same caseless form. The reverse is not true:
/// `ß` and `ss` have the same caseless form too, as in the full case folding of Unicode.
pub(crate) fn without_case(text: &str) -> String {
    let mut caseless = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // The capital letter of the dotless ı is I, but ı and i are different letters.
            'ı' => caseless.push(c),
            _ => caseless.extend(
                c.to_lowercase()
                    .flat_map(char::to_uppercase)
                    .flat_map(char::to_lowercase),
            ),
        }
    }
    caseless
}

/// Returns the caseless form of a stored value. `None` for a value that is not a text.
pub(crate) fn value_without_case(value: Option<&Bson>) -> Option<String> {
    value.and_then(Bson::as_str).map(without_case)
}

/// Adds the caseless texts to a document before an insert.
pub(crate) fn add_caseless_texts(model: &Model, document: &mut RawDocumentBuf) -> Result<()> {
    if model.caseless.is_empty() {
        return Ok(());
    }
    let caseless = caseless_texts(model, |field| document.get_str(field).ok());
    edit_fields(document, &[metadata::FIELD], |fields| {
        set_at(fields, CASELESS, caseless);
        Ok(())
    })
}

/// Replaces the caseless texts of a document that is about to be stored again.
pub(crate) fn replace_caseless_texts(model: &Model, document: &mut Document) {
    if !model.caseless.is_empty() {
        let caseless = caseless_texts(model, |field| document.get_str(field).ok());
        set_at(document, CASELESS, caseless);
    }
}

fn caseless_texts<'d>(model: &Model, text: impl Fn(&str) -> Option<&'d str>) -> Document {
    let fields = model.caseless.iter();
    let texts = fields.filter_map(|field| Some((*field, without_case(text(field)?))));
    texts
        .map(|(field, caseless)| (field.to_owned(), caseless.into()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index of caseless texts must find each text that the regular expression matches.
    #[test]
    fn letters_of_equal_case_in_patterns_have_one_caseless_form() {
        let has_case = |c: &char| {
            let text = c.to_string();
            c.to_lowercase().to_string() != text || c.to_uppercase().to_string() != text
        };
        let letters: String = (char::MIN..=char::MAX).filter(has_case).collect();
        assert!(letters.chars().count() > 2_000);
        for c in letters.chars() {
            let pattern = format!("(?i){}", regex::escape(&c.to_string()));
            let pattern = regex::Regex::new(&pattern).unwrap();
            for same in pattern.find_iter(&letters) {
                let (a, b) = (without_case(&c.to_string()), without_case(same.as_str()));
                assert_eq!(a, b, "{c} and {}", same.as_str());
            }
        }
    }

    #[test]
    fn texts_that_differ_in_case_have_one_caseless_form() {
        for (a, b) in [
            ("Jane@Example.ORG", "jane@example.org"),
            ("ÄRGER", "ärger"),
            ("ΟΔΟΣ", "οδος"),
            ("οδος", "οδοσ"),
            ("Straße", "STRASSE"),
            ("ẞ", "ß"),
            ("\u{212A}", "k"),
            ("ſ", "S"),
        ] {
            assert_eq!(without_case(a), without_case(b), "{a} and {b}");
        }
        for (a, b) in [("ı", "i"), ("é", "e"), ("a", "b"), ("a ", "a")] {
            assert_ne!(without_case(a), without_case(b), "{a} and {b}");
        }
        // Folding is stable, and folds each character by itself.
        for c in (char::MIN..=char::MAX).filter(|c| c.is_alphabetic()) {
            let caseless = without_case(&c.to_string());
            assert_eq!(without_case(&caseless), caseless, "{c}");
            assert_eq!(without_case(&format!("x{c}y")), format!("x{caseless}y"));
        }
    }
}
