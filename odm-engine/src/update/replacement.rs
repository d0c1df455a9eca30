//! Replacements: a new document under the old `_id`.

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf};

use crate::filter::Filter;
use crate::{Error, Result, value};

use super::{upsert_seed, with_id_first};

/// The document that replaces another.
#[derive(Debug)]
pub(super) struct Replacement(RawDocumentBuf);

impl Replacement {
    /// Copies the new document.
    pub(super) fn new(document: &RawDocument) -> Replacement {
        Replacement(document.to_owned())
    }

    /// Returns the new document. A missing `_id` is taken from the replaced document.
    ///
    /// # Errors
    /// A top-level field starts with `$` (code 52).
    pub(super) fn apply_to(&self, old: &RawDocument) -> Result<RawDocumentBuf> {
        if let Some((name, _)) = value::fields(&self.0).find(|(name, _)| name.starts_with('$')) {
            let message = format!(
                "a replacement cannot have the field '{name}': names that start with '$' are operators"
            );
            return Err(Error::with_server_code(52, message));
        }
        Ok(self.with_id_of(old))
    }

    /// Returns whether the replacement equals a document to the last byte.
    pub(super) fn has_same_bytes(&self, document: &RawDocument) -> bool {
        self.0.as_bytes() == document.as_bytes()
    }

    /// Returns the document that an upsert inserts. A missing `_id` is taken from the filter.
    ///
    /// As on MongoDB, fields may start with `$` here.
    pub(super) fn upserted_document(&self, filter: &Filter) -> Result<RawDocumentBuf> {
        let seed = upsert_seed::id_document(filter)?;
        let document = self.with_id_of(&seed);
        // An array that the filter also demands is rejected later with another code.
        if value::get(&self.0, "_id").is_none()
            || super::check_id_unchanged(&seed, &document).is_err()
        {
            super::ensure_no_array_id(&document)?;
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
    fn a_replacement_equals_the_document_only_with_its_id() {
        let document = rawdoc! { "_id": 1, "a": 1 };
        assert!(Replacement::new(&document).has_same_bytes(&document));
        assert!(!Replacement::new(&rawdoc! { "a": 1 }).has_same_bytes(&document));
    }

    #[test]
    fn the_id_stays() {
        let replacement = Replacement::new(&rawdoc! { "a": 1 });
        let document = replacement.apply_to(&rawdoc! { "_id": 7, "b": 2 }).unwrap();
        assert_eq!(document, rawdoc! { "_id": 7, "a": 1 });
        let filter = Filter::parse(&rawdoc! { "_id": 8, "c": 1 }).unwrap();
        assert_eq!(
            replacement.upserted_document(&filter).unwrap(),
            rawdoc! { "_id": 8, "a": 1 }
        );
    }

    #[test]
    fn operator_names_are_rejected_except_in_an_upsert() {
        let replacement = Replacement::new(&rawdoc! { "a": 1, "$set": { "b": 1 } });
        let error = replacement.apply_to(&rawdoc! { "_id": 1 }).unwrap_err();
        assert_eq!(error.code(), Some(52));
        let filter = Filter::parse(&rawdoc! { "_id": 1 }).unwrap();
        assert_eq!(
            replacement.upserted_document(&filter).unwrap(),
            rawdoc! { "_id": 1, "a": 1, "$set": { "b": 1 } }
        );
    }
}
