//! MongoDB's `updateDescription`: which fields an update has set and removed.
//!
//! It follows the operators, as MongoDB's does: `$set` of a whole subdocument is that subdocument, although only one
//! field of it may be another.

use std::collections::BTreeSet;

use bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};

use super::Place;
use crate::document::append;
use crate::value;

/// Describes the update that made `after` of `before` by changing `places`.
pub(super) fn describe(
    before: &RawDocument,
    after: &RawDocument,
    places: &[Place],
) -> RawDocumentBuf {
    let (mut updated, mut removed) = (RawDocumentBuf::new(), RawArrayBuf::new());
    let mut seen = BTreeSet::new();
    for place in places {
        let (path, is_new) = until_new(before, &place.path);
        if !seen.insert(path) {
            continue;
        }
        let Some(value) = lookup(after, path) else {
            removed.push(path);
            continue;
        };
        match (value, lookup(before, path)) {
            (RawBsonRef::Array(after), Some(RawBsonRef::Array(before)))
                if place.appended && !is_new =>
            {
                let known = value::items(before).count();
                for (index, item) in value::items(after).enumerate().skip(known) {
                    append(&mut updated, &format!("{path}.{index}"), item);
                }
            }
            _ => append(&mut updated, path, value),
        }
    }
    let mut description = RawDocumentBuf::new();
    append(&mut description, "updatedFields", updated);
    append(&mut description, "removedFields", removed);
    // Only pipelines cut arrays.
    append(&mut description, "truncatedArrays", RawArrayBuf::new());
    description
}

/// The path up to the first component that the document does not have, and whether there is one.
fn until_new<'p>(document: &RawDocument, path: &'p str) -> (&'p str, bool) {
    let mut value = RawBsonRef::Document(document);
    let mut end = 0;
    for name in path.split('.') {
        end += name.len();
        match child(value, name) {
            Some(inner) => value = inner,
            None => return (path.get(..end).unwrap_or(path), true),
        }
        end += 1;
    }
    (path, false)
}

fn lookup<'d>(document: &'d RawDocument, path: &str) -> Option<RawBsonRef<'d>> {
    let start = RawBsonRef::Document(document);
    path.split('.').try_fold(start, child)
}

fn child<'d>(value: RawBsonRef<'d>, name: &str) -> Option<RawBsonRef<'d>> {
    match value {
        RawBsonRef::Document(document) => value::get(document, name),
        RawBsonRef::Array(array) => value::items(array).nth(name.parse().ok()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn described(before: RawDocumentBuf, after: RawDocumentBuf, paths: &[&str]) -> RawDocumentBuf {
        let places = paths.iter().map(|path| Place {
            path: (*path).to_owned(),
            appended: false,
        });
        describe(&before, &after, &places.collect::<Vec<_>>())
    }

    #[test]
    fn what_is_created_is_described_where_it_begins_and_once() {
        let after = rawdoc! { "a": { "b": { "c": 1 }, "d": 2 }, "e": [0, { "f": 3 }] };
        let description = described(rawdoc! { "e": [0] }, after, &["a.b.c", "a.d", "e.1.f"]);
        let expected = rawdoc! {
            "updatedFields": { "a": { "b": { "c": 1 }, "d": 2 }, "e.1": { "f": 3 } },
            "removedFields": [],
            "truncatedArrays": [],
        };
        assert_eq!(description, expected);
    }

    #[test]
    fn what_is_gone_is_removed() {
        let description = described(
            rawdoc! { "a": { "b": 1, "c": 2 }, "d": 1 },
            rawdoc! { "a": { "c": 2 } },
            &["a.b", "d"],
        );
        let expected = rawdoc! {
            "updatedFields": {},
            "removedFields": ["a.b", "d"],
            "truncatedArrays": [],
        };
        assert_eq!(description, expected);
    }

    #[test]
    fn appended_elements_stand_for_themselves() {
        let place = Place {
            path: "a".to_owned(),
            appended: true,
        };
        let after = rawdoc! { "a": [1, 2, 3] };
        let description = describe(&rawdoc! { "a": [1] }, &after, &[place]);
        let updated = description.get_document("updatedFields").unwrap();
        assert_eq!(updated, &*rawdoc! { "a.1": 2, "a.2": 3 });
    }
}
