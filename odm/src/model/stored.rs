//! Stored documents: conversion between BSON forms, and access by dotted paths.

mod fields;

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf};

use fields::{DocumentBytes, Fields};

use crate::{Result, error};

/// Parses a raw document, to read or change fields.
pub(crate) fn parse_document(raw: &RawDocument) -> Result<Document> {
    Document::try_from(raw).map_err(error::from_bson)
}

/// Parses the top-level fields with these names. A document without a field has no entry for the field.
pub(crate) fn parse_fields(raw: &RawDocument, names: &[impl AsRef<str>]) -> Result<Document> {
    let mut selected = DocumentBytes::default();
    for field in Fields::of(raw) {
        let field = field?;
        if has_name(names, field.name) {
            selected.push(field);
        }
    }
    parse_document(&selected.into_document()?)
}

/// Changes the top-level fields with these names, as [`replace_fields`].
pub(crate) fn edit_fields(
    raw: &mut RawDocumentBuf,
    names: &[impl AsRef<str>],
    edit: impl FnOnce(&mut Document) -> Result<()>,
) -> Result<()> {
    let mut fields = parse_fields(raw, names)?;
    edit(&mut fields)?;
    replace_fields(raw, names, &fields)
}

/// Replaces the top-level fields with these names. Other fields are copied as bytes. A new field becomes the last field, and a
/// field without a new value is removed.
///
/// `fields` must not contain a field with another name.
pub(crate) fn replace_fields(
    raw: &mut RawDocumentBuf,
    names: &[impl AsRef<str>],
    fields: &Document,
) -> Result<()> {
    debug_assert!(fields.keys().all(|name| has_name(names, name.as_bytes())));
    let fields = to_raw_document(fields)?;
    let mut new: Vec<_> = Fields::of(&fields).collect::<Result<_>>()?;
    let mut edited = DocumentBytes::default();
    for field in Fields::of(raw) {
        let field = field?;
        if !has_name(names, field.name) {
            edited.push(field);
        } else if let Some(at) = new.iter().position(|new| new.name == field.name) {
            edited.push(new.remove(at));
        }
    }
    for field in new {
        edited.push(field);
    }
    *raw = edited.into_document()?;
    Ok(())
}

fn has_name(names: &[impl AsRef<str>], name: &[u8]) -> bool {
    names.iter().any(|other| other.as_ref().as_bytes() == name)
}

/// Returns the name of the top-level field of a path.
pub(crate) fn root_of(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

/// Converts a document into raw BSON.
pub(crate) fn to_raw_document(document: &Document) -> Result<RawDocumentBuf> {
    RawDocumentBuf::try_from(document).map_err(error::from_bson)
}

/// Formats a document for people.
pub(crate) fn format_document(document: &RawDocument) -> String {
    match Document::try_from(document) {
        Ok(document) => document.to_string(),
        Err(_) => format!("{document:?}"),
    }
}

/// Converts a value into raw BSON.
pub(crate) fn to_raw_value(value: &Bson) -> Result<RawBson> {
    RawBson::try_from(value.clone()).map_err(error::from_bson)
}

/// Returns the value at a dotted path.
pub(crate) fn value_at<'d>(document: &'d Document, dotted: &str) -> Option<&'d Bson> {
    match dotted.split_once('.') {
        None => document.get(dotted),
        Some((first, rest)) => value_at(document.get_document(first).ok()?, rest),
    }
}

/// Sets the value at a dotted path. Creates missing documents on the way.
pub(crate) fn set_at(document: &mut Document, dotted: &str, value: impl Into<Bson>) {
    let Some((first, rest)) = dotted.split_once('.') else {
        document.insert(dotted, value);
        return;
    };
    let inner = document.entry(first.to_owned());
    if let Bson::Document(inner) = inner.or_insert_with(|| Bson::Document(Document::new())) {
        set_at(inner, rest, value);
    }
}

/// Returns the field names of a path, without the parts that select array elements.
pub(crate) fn field_names_of(path: &str) -> String {
    let names = path.split('.').filter(|part| !is_position(part));
    names.collect::<Vec<_>>().join(".")
}

/// Returns whether a part of a path selects array elements.
pub(crate) fn is_position(part: &str) -> bool {
    part.starts_with('$') || part.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether two paths name the same place, or nested places.
pub(crate) fn paths_overlap(a: &str, b: &str) -> bool {
    let (a, b) = (field_names_of(a), field_names_of(b));
    a.split('.').zip(b.split('.')).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn raw(document: &Document) -> RawDocumentBuf {
        to_raw_document(document).unwrap()
    }

    #[test]
    fn some_fields_are_parsed() {
        let stored = raw(&doc! { "_id": 1, "a": { "b": 2 }, "c": 3 });
        let fields = parse_fields(&stored, &["a", "_id", "x"]).unwrap();
        assert_eq!(fields, doc! { "_id": 1, "a": { "b": 2 } });
    }

    #[test]
    fn an_edit_keeps_the_other_fields_and_the_order() {
        let mut stored = raw(&doc! { "_id": 1, "a": 1, "b": "text", "c": [1], "d": 4 });
        edit_fields(&mut stored, &["d", "b", "new", "a"], |fields| {
            assert_eq!(*fields, doc! { "a": 1, "b": "text", "d": 4 });
            fields.remove("b");
            fields.insert("new", true);
            set_at(fields, "d.e", 5);
            fields.insert("a", 2_i64);
            Ok(())
        })
        .unwrap();
        // `set_at` leaves a value that is not a document as it is.
        let expected = doc! { "_id": 1, "a": 2_i64, "c": [1], "d": 4, "new": true };
        assert_eq!(stored, raw(&expected));
    }

    #[test]
    fn malformed_documents_are_errors() {
        let malformed = RawDocument::from_bytes(&[10, 0, 0, 0, 0x99, b'a', 0, 1, 2, 0]).unwrap();
        assert!(parse_fields(malformed, &["a"]).is_err());
        assert!(edit_fields(&mut malformed.to_owned(), &["a"], |_| Ok(())).is_err());
    }
}
