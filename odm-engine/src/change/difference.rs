//! MongoDB's `updateDescription` for an update by a pipeline.
//!
//! A pipeline does not report the paths that it changes, so this module compares the documents before and after.

use bson::{RawArray, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use crate::document::append_field;
use crate::value;

/// Describes the difference between two documents.
///
/// Returns `None` if only the order of fields differs, or if the description would be larger than the document. MongoDB reports a
/// replacement in these cases.
pub(super) fn describe_difference(
    before: &RawDocument,
    after: &RawDocument,
) -> Option<RawDocumentBuf> {
    let mut difference = DifferenceBuilder::default();
    difference.compare_documents("", before, after);
    if difference.is_empty {
        return None;
    }
    let mut description = RawDocumentBuf::new();
    append_field(&mut description, "updatedFields", difference.updated);
    append_field(&mut description, "removedFields", difference.removed);
    append_field(&mut description, "truncatedArrays", difference.truncated);
    (description.as_bytes().len() <= after.as_bytes().len() + EMPTY_DESCRIPTION_BYTES)
        .then_some(description)
}

/// The size of an empty description in bytes. MongoDB's own diff has no such overhead, so the size limit leaves it out.
const EMPTY_DESCRIPTION_BYTES: usize = 70;

struct DifferenceBuilder {
    updated: RawDocumentBuf,
    removed: RawArrayBuf,
    truncated: RawArrayBuf,
    is_empty: bool,
}

impl Default for DifferenceBuilder {
    fn default() -> DifferenceBuilder {
        DifferenceBuilder {
            updated: RawDocumentBuf::new(),
            removed: RawArrayBuf::new(),
            truncated: RawArrayBuf::new(),
            is_empty: true,
        }
    }
}

impl DifferenceBuilder {
    fn compare_documents(&mut self, path: &str, before: &RawDocument, after: &RawDocument) {
        for (name, _) in before.iter().flatten() {
            if value::get(after, name.as_str()).is_none() {
                self.removed.push(join_path(path, name.as_str()));
                self.is_empty = false;
            }
        }
        for (name, new) in after.iter().flatten() {
            let place = join_path(path, name.as_str());
            match value::get(before, name.as_str()) {
                Some(old) => self.compare_values(&place, old, new),
                None => self.set_field(&place, new),
            }
        }
    }

    fn compare_arrays(&mut self, path: &str, before: &RawArray, after: &RawArray) {
        let mut old = value::items(before);
        let mut len = 0_i32;
        for new in value::items(after) {
            let place = join_path(path, &len.to_string());
            match old.next() {
                Some(old) => self.compare_values(&place, old, new),
                None => self.set_field(&place, new),
            }
            len += 1;
        }
        if old.next().is_some() {
            self.truncated
                .push(rawdoc! { "field": path, "newSize": len });
            self.is_empty = false;
        }
    }

    fn compare_values(&mut self, place: &str, old: RawBsonRef<'_>, new: RawBsonRef<'_>) {
        match (old, new) {
            (RawBsonRef::Document(old), RawBsonRef::Document(new)) => {
                self.compare_documents(place, old, new);
            }
            (RawBsonRef::Array(old), RawBsonRef::Array(new)) => {
                self.compare_arrays(place, old, new)
            }
            // Compare bits: `0.0` and `-0.0` are equal numbers, but stored differently.
            (RawBsonRef::Double(old), RawBsonRef::Double(new))
                if old.to_bits() == new.to_bits() => {}
            (RawBsonRef::Double(_), RawBsonRef::Double(_)) => self.set_field(place, new),
            (old, new) if old == new => {}
            _ => self.set_field(place, new),
        }
    }

    fn set_field(&mut self, place: &str, new: RawBsonRef<'_>) {
        append_field(&mut self.updated, place, new);
        self.is_empty = false;
    }
}

fn join_path(path: &str, name: &str) -> String {
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
        let description = describe_difference(&before, &after);
        let expected = rawdoc! {
            "updatedFields": { "a.b": 5, "e.1.f": 3, "g.1": 2, "new": { "x": 1 }, "z": -0.0 },
            "removedFields": ["gone"],
            "truncatedArrays": [{ "field": "e", "newSize": 2 }],
        };
        assert_eq!(description, Some(expected));
    }

    #[test]
    fn a_large_difference_is_a_replacement() {
        let text = "x".repeat(100);
        let before = rawdoc! { "_id": 1, "a": text.as_str(), "b": text.as_str() };
        let order = rawdoc! { "_id": 1, "b": text.as_str(), "a": text.as_str() };
        assert_eq!(describe_difference(&before, &order), None);
        let names: Vec<_> = (0..50).map(|n| format!("field {n}")).collect();
        let mut before = rawdoc! { "_id": 1 };
        names
            .iter()
            .for_each(|name| append_field(&mut before, name, 1));
        assert_eq!(describe_difference(&before, &rawdoc! { "_id": 1 }), None);
    }
}
