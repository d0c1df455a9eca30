//! Documents as they are stored: opened to look into and to change, at dotted paths.

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf};

use crate::{Result, error};

/// A document, to be changed.
pub(crate) fn open(raw: &RawDocument) -> Result<Document> {
    Document::try_from(raw).map_err(error::encode)
}

/// The document as it is written.
pub(crate) fn close(document: &Document) -> Result<RawDocumentBuf> {
    RawDocumentBuf::try_from(document).map_err(error::encode)
}

/// A value as it is written.
pub(crate) fn raw(value: &Bson) -> Result<RawBson> {
    RawBson::try_from(value.clone()).map_err(error::encode)
}

/// The value at a dotted path.
pub(crate) fn get<'d>(document: &'d Document, dotted: &str) -> Option<&'d Bson> {
    match dotted.split_once('.') {
        None => document.get(dotted),
        Some((first, rest)) => get(document.get_document(first).ok()?, rest),
    }
}

/// Puts a value at a dotted path.
pub(crate) fn set(document: &mut Document, dotted: &str, value: impl Into<Bson>) {
    let Some((first, rest)) = dotted.split_once('.') else {
        document.insert(dotted, value);
        return;
    };
    let inside = document.entry(first.to_owned());
    if let Bson::Document(inside) = inside.or_insert_with(|| Bson::Document(Document::new())) {
        set(inside, rest, value);
    }
}

/// The names in a path, without what says which elements of an array are meant.
pub(crate) fn names(path: &str) -> String {
    let names = path.split('.').filter(|part| !is_position(part));
    names.collect::<Vec<_>>().join(".")
}

/// Whether a part of a path says which elements of an array are meant.
pub(crate) fn is_position(part: &str) -> bool {
    part.starts_with('$') || part.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether one place is inside of the other.
pub(crate) fn overlap(a: &str, b: &str) -> bool {
    let (a, b) = (names(a), names(b));
    a.split('.').zip(b.split('.')).all(|(a, b)| a == b)
}

/// Whether an update writes to a place, or into it, or to what it is in.
pub(crate) fn touches(update: &RawDocument, place: &str) -> bool {
    update.iter().flatten().any(|(operator, fields)| {
        let fields = fields.as_document().into_iter().flatten().flatten();
        fields.into_iter().any(|(path, value)| {
            let renamed = value.as_str().filter(|_| operator == "$rename");
            overlap(path.as_str(), place) || renamed.is_some_and(|to| overlap(to, place))
        })
    })
}
