//! MongoDB's `updateDescription`: the fields that an update set and removed.
//!
//! The description follows the operators, like MongoDB's: after a `$set` of a subdocument it lists the whole subdocument, even if
//! only one field differs.

use std::collections::BTreeSet;

use bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};

use super::UpdatedPath;
use crate::document::append_field;
use crate::value;

/// Describes the update that turned `before` into `after` by changing `places`.
pub(super) fn describe_update(
    before: &RawDocument,
    after: &RawDocument,
    places: &[UpdatedPath],
) -> RawDocumentBuf {
    let (mut updated, mut removed) = (RawDocumentBuf::new(), RawArrayBuf::new());
    let mut seen = BTreeSet::new();
    for place in places {
        let (path, is_new) = path_until_new(before, &place.path);
        if !seen.insert(path) {
            continue;
        }
        let Some(value) = find_value(after, path) else {
            removed.push(path);
            continue;
        };
        match (value, find_value(before, path)) {
            (RawBsonRef::Array(after), Some(RawBsonRef::Array(before)))
                if place.appended && !is_new =>
            {
                let known = value::items(before).count();
                for (index, item) in value::items(after).enumerate().skip(known) {
                    append_field(&mut updated, &format!("{path}.{index}"), item);
                }
            }
            _ => append_field(&mut updated, path, value),
        }
    }
    let mut description = RawDocumentBuf::new();
    append_field(&mut description, "updatedFields", updated);
    append_field(&mut description, "removedFields", removed);
    // Only pipelines truncate arrays.
    append_field(&mut description, "truncatedArrays", RawArrayBuf::new());
    description
}

/// Returns the path up to the first component that the document lacks, and whether a component is missing.
fn path_until_new<'p>(document: &RawDocument, path: &'p str) -> (&'p str, bool) {
    let mut value = RawBsonRef::Document(document);
    let mut end = 0;
    for name in path.split('.') {
        end += name.len();
        match child_value(value, name) {
            Some(inner) => value = inner,
            None => return (path.get(..end).unwrap_or(path), true),
        }
        end += 1;
    }
    (path, false)
}

fn find_value<'d>(document: &'d RawDocument, path: &str) -> Option<RawBsonRef<'d>> {
    let start = RawBsonRef::Document(document);
    path.split('.').try_fold(start, child_value)
}

fn child_value<'d>(value: RawBsonRef<'d>, name: &str) -> Option<RawBsonRef<'d>> {
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

    fn describe_paths(
        before: RawDocumentBuf,
        after: RawDocumentBuf,
        paths: &[&str],
    ) -> RawDocumentBuf {
        let places = paths.iter().map(|path| UpdatedPath {
            path: (*path).to_owned(),
            appended: false,
        });
        describe_update(&before, &after, &places.collect::<Vec<_>>())
    }

    #[test]
    fn a_created_subdocument_is_described_once_at_its_first_new_path() {
        let after = rawdoc! { "a": { "b": { "c": 1 }, "d": 2 }, "e": [0, { "f": 3 }] };
        let description = describe_paths(rawdoc! { "e": [0] }, after, &["a.b.c", "a.d", "e.1.f"]);
        let expected = rawdoc! {
            "updatedFields": { "a": { "b": { "c": 1 }, "d": 2 }, "e.1": { "f": 3 } },
            "removedFields": [],
            "truncatedArrays": [],
        };
        assert_eq!(description, expected);
    }

    #[test]
    fn a_missing_path_is_a_removed_field() {
        let description = describe_paths(
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
        let place = UpdatedPath {
            path: "a".to_owned(),
            appended: true,
        };
        let after = rawdoc! { "a": [1, 2, 3] };
        let description = describe_update(&rawdoc! { "a": [1] }, &after, &[place]);
        let updated = description.get_document("updatedFields").unwrap();
        assert_eq!(updated, &*rawdoc! { "a.1": 2, "a.2": 3 });
    }
}
