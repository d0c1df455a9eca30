//! Stored documents: conversion between BSON forms, and access by dotted paths.

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf};

use crate::{Result, error};

/// Parses a raw document, to read or change fields.
pub(crate) fn parse_document(raw: &RawDocument) -> Result<Document> {
    Document::try_from(raw).map_err(error::from_bson)
}

/// Converts a document into raw BSON.
pub(crate) fn to_raw_document(document: &Document) -> Result<RawDocumentBuf> {
    RawDocumentBuf::try_from(document).map_err(error::from_bson)
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

/// Returns whether an update writes to a place, into the place, or to an enclosing place.
pub(crate) fn update_touches(update: &RawDocument, place: &str) -> bool {
    update.iter().flatten().any(|(operator, fields)| {
        let fields = fields.as_document().into_iter().flatten().flatten();
        fields.into_iter().any(|(path, value)| {
            let renamed = value.as_str().filter(|_| operator == "$rename");
            paths_overlap(path.as_str(), place)
                || renamed.is_some_and(|target| paths_overlap(target, place))
        })
    })
}
