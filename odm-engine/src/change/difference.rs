//! What a pipeline has made of a document, in the words of MongoDB's `updateDescription`.
//!
//! A pipeline does not say which places it changes, so the documents before and after it are compared.

use bson::{RawArray, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use crate::document::append;
use crate::value;

/// Describes the difference. None where only the order of fields is another one, and where the description takes more room
/// than the document: then MongoDB's event is that of a replacement.
pub(super) fn difference(before: &RawDocument, after: &RawDocument) -> Option<RawDocumentBuf> {
    let mut difference = Difference::default();
    difference.documents("", before, after);
    if difference.is_empty {
        return None;
    }
    let mut description = RawDocumentBuf::new();
    append(&mut description, "updatedFields", difference.updated);
    append(&mut description, "removedFields", difference.removed);
    append(&mut description, "truncatedArrays", difference.truncated);
    (description.as_bytes().len() <= after.as_bytes().len() + EMPTY_DESCRIPTION)
        .then_some(description)
}

/// The bytes of a description of nothing, which MongoDB does not write.
const EMPTY_DESCRIPTION: usize = 70;

struct Difference {
    updated: RawDocumentBuf,
    removed: RawArrayBuf,
    truncated: RawArrayBuf,
    is_empty: bool,
}

impl Default for Difference {
    fn default() -> Difference {
        Difference {
            updated: RawDocumentBuf::new(),
            removed: RawArrayBuf::new(),
            truncated: RawArrayBuf::new(),
            is_empty: true,
        }
    }
}

impl Difference {
    fn documents(&mut self, path: &str, before: &RawDocument, after: &RawDocument) {
        for (name, _) in before.iter().flatten() {
            if value::get(after, name.as_str()).is_none() {
                self.removed.push(inside(path, name.as_str()));
                self.is_empty = false;
            }
        }
        for (name, new) in after.iter().flatten() {
            let place = inside(path, name.as_str());
            match value::get(before, name.as_str()) {
                Some(old) => self.values(&place, old, new),
                None => self.set(&place, new),
            }
        }
    }

    fn arrays(&mut self, path: &str, before: &RawArray, after: &RawArray) {
        let mut old = value::items(before);
        let mut len = 0_i32;
        for new in value::items(after) {
            let place = inside(path, &len.to_string());
            match old.next() {
                Some(old) => self.values(&place, old, new),
                None => self.set(&place, new),
            }
            len += 1;
        }
        if old.next().is_some() {
            self.truncated
                .push(rawdoc! { "field": path, "newSize": len });
            self.is_empty = false;
        }
    }

    fn values(&mut self, place: &str, old: RawBsonRef<'_>, new: RawBsonRef<'_>) {
        match (old, new) {
            (RawBsonRef::Document(old), RawBsonRef::Document(new)) => {
                self.documents(place, old, new);
            }
            (RawBsonRef::Array(old), RawBsonRef::Array(new)) => self.arrays(place, old, new),
            // Numbers that are equal may be stored in two ways.
            (RawBsonRef::Double(old), RawBsonRef::Double(new))
                if old.to_bits() == new.to_bits() => {}
            (RawBsonRef::Double(_), RawBsonRef::Double(_)) => self.set(place, new),
            (old, new) if old == new => {}
            _ => self.set(place, new),
        }
    }

    fn set(&mut self, place: &str, new: RawBsonRef<'_>) {
        append(&mut self.updated, place, new);
        self.is_empty = false;
    }
}

fn inside(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_described_where_they_differ() {
        let before = rawdoc! { "_id": 1, "a": { "b": 1, "c": 2 }, "e": [1, { "f": 2 }, 3], "g": [1], "gone": 1, "z": 0.0 };
        let after = rawdoc! { "_id": 1, "a": { "b": 5, "c": 2 }, "e": [1, { "f": 3 }], "g": [1, 2], "new": { "x": 1 }, "z": -0.0 };
        let description = difference(&before, &after);
        let expected = rawdoc! {
            "updatedFields": { "a.b": 5, "e.1.f": 3, "g.1": 2, "new": { "x": 1 }, "z": -0.0 },
            "removedFields": ["gone"],
            "truncatedArrays": [{ "field": "e", "newSize": 2 }],
        };
        assert_eq!(description, Some(expected));
    }

    #[test]
    fn what_is_another_document_is_a_replacement() {
        let text = "x".repeat(100);
        let before = rawdoc! { "_id": 1, "a": text.as_str(), "b": text.as_str() };
        let order = rawdoc! { "_id": 1, "b": text.as_str(), "a": text.as_str() };
        assert_eq!(difference(&before, &order), None);
        let many: Vec<_> = (0..50).map(|n| format!("field {n}")).collect();
        let mut before = rawdoc! { "_id": 1 };
        many.iter().for_each(|name| append(&mut before, name, 1));
        assert_eq!(difference(&before, &rawdoc! { "_id": 1 }), None);
    }
}
