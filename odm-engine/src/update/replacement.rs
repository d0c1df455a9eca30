//! Replacements: a whole new document under the old `_id`.

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf};

use crate::filter::Filter;
use crate::{Error, Result, value};

use super::{seed, with_id_first};

/// The document to put in the place of another.
#[derive(Debug)]
pub(super) struct Replacement(RawDocumentBuf);

impl Replacement {
    /// Takes a document.
    pub(super) fn new(document: &RawDocument) -> Replacement {
        Replacement(document.to_owned())
    }

    /// The document with the `_id` of the one that it replaces, unless it has one.
    ///
    /// # Errors
    /// Fields that start with `$` (code 52).
    pub(super) fn apply(&self, old: &RawDocument) -> Result<RawDocumentBuf> {
        if let Some((name, _)) = value::fields(&self.0).find(|(name, _)| name.starts_with('$')) {
            let message =
                format!("a replacement cannot have the field '{name}'; '$' starts operators");
            return Err(Error::server(52, message));
        }
        Ok(self.with_id_of(old))
    }

    /// Whether this is a document as it stands.
    pub(super) fn is(&self, document: &RawDocument) -> bool {
        self.0.as_bytes() == document.as_bytes()
    }

    /// The document with the `_id` that the filter asks for, unless it has one.
    ///
    /// As on MongoDB, its fields may start with `$`.
    pub(super) fn upsert(&self, filter: &Filter) -> Result<RawDocumentBuf> {
        let seed = seed::id_only(filter)?;
        let document = self.with_id_of(&seed);
        // An array that the filter asks for as well is refused later.
        if value::get(&self.0, "_id").is_none()
            || super::check_id_unchanged(&seed, &document).is_err()
        {
            super::refuse_array_id(&document)?;
        }
        if value::get(&seed, "_id").is_some() {
            super::check_id_unchanged(&seed, &document)?;
        }
        Ok(document)
    }

    fn with_id_of(&self, old: &RawDocument) -> RawDocumentBuf {
        if value::get(&self.0, "_id").is_some() {
            return with_id_first(&self.0);
        }
        let mut document = RawDocumentBuf::new();
        if let Some(id) = value::get(old, "_id") {
            document.append(cstr!("_id"), id);
        }
        for element in self.0.iter_elements().map_while(|element| element.ok()) {
            if let Ok(value) = element.value() {
                document.append(element.key(), value);
            }
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn only_with_the_id_it_is_the_document() {
        let document = rawdoc! { "_id": 1, "a": 1 };
        assert!(Replacement::new(&document).is(&document));
        assert!(!Replacement::new(&rawdoc! { "a": 1 }).is(&document));
    }

    #[test]
    fn the_id_stays() {
        let replacement = Replacement::new(&rawdoc! { "a": 1 });
        let document = replacement.apply(&rawdoc! { "_id": 7, "b": 2 }).unwrap();
        assert_eq!(document, rawdoc! { "_id": 7, "a": 1 });
        let filter = Filter::parse(&rawdoc! { "_id": 8, "c": 1 }).unwrap();
        assert_eq!(
            replacement.upsert(&filter).unwrap(),
            rawdoc! { "_id": 8, "a": 1 }
        );
    }

    #[test]
    fn operators_have_no_place_in_it() {
        let replacement = Replacement::new(&rawdoc! { "a": 1, "$set": { "b": 1 } });
        let error = replacement.apply(&rawdoc! { "_id": 1 }).unwrap_err();
        assert_eq!(error.code(), Some(52));
        let filter = Filter::parse(&rawdoc! { "_id": 1 }).unwrap();
        assert_eq!(
            replacement.upsert(&filter).unwrap(),
            rawdoc! { "_id": 1, "a": 1, "$set": { "b": 1 } }
        );
    }
}
