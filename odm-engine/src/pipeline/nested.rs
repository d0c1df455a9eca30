//! Access to values at nested paths of documents.

use bson::raw::CString;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::path::{Path, PathPart};
use crate::sort::check_field_path;
use crate::value::growth;
use crate::{Error, Result};

/// Parses a field path of a stage.
///
/// # Errors
/// An invalid path, with MongoDB's codes.
pub(super) fn field_path(path: &str) -> Result<Path> {
    if path.contains('\0') {
        return Err(Error::with_server_code(
            16411,
            "the path of a field cannot contain a null byte",
        ));
    }
    check_field_path(path)?;
    Ok(Path::new(path))
}

/// Returns the value at a path, without descending into arrays.
pub(super) fn value_at<'d>(document: &'d RawDocument, path: &Path) -> Option<RawBsonRef<'d>> {
    let root = RawBsonRef::Document(document);
    let mut parts = path.parts().iter();
    parts.try_fold(root, |value, part| {
        crate::value::get(value.as_document()?, part.name())
    })
}

/// Returns the document with a new value at a path, or without the value. Values on the path that are not documents are replaced
/// by documents.
///
/// # Errors
/// The new document is too large.
pub(super) fn with_value(
    document: &RawDocument,
    path: &Path,
    value: Option<RawBsonRef<'_>>,
) -> Result<RawDocumentBuf> {
    with_value_at(document, path.parts(), value)
}

fn with_value_at(
    document: &RawDocument,
    parts: &[PathPart],
    value: Option<RawBsonRef<'_>>,
) -> Result<RawDocumentBuf> {
    let Some((part, rest)) = parts.split_first() else {
        return Ok(document.to_owned());
    };
    let inner = |old: Option<RawBsonRef<'_>>| -> Result<Option<RawBson>> {
        if rest.is_empty() {
            return Ok(value.map(RawBson::from));
        }
        let empty = RawDocumentBuf::new();
        let old = old.and_then(|old| old.as_document()).unwrap_or(&empty);
        Ok(Some(with_value_at(old, rest, value)?.into()))
    };
    let mut output = RawDocumentBuf::new();
    let mut is_found = false;
    for element in document.iter_elements() {
        let element = element?;
        if element.key().as_str() != part.name() {
            output.append(element.key(), element.value()?);
            continue;
        }
        is_found = true;
        if let Some(value) = inner(Some(element.value()?))? {
            output.append(element.key(), value);
            growth::check_size(output.as_bytes().len())?;
        }
    }
    if !is_found && let Some(value) = inner(None)? {
        output.append(CString::try_from(part.name())?, value);
        growth::check_size(output.as_bytes().len())?;
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn values_on_the_path_become_documents() {
        let document = rawdoc! { "a": 1, "b": { "c": 2, "d": 3 } };
        let replaced = |path: &str, value| with_value(&document, &Path::new(path), value).unwrap();
        let seven = Some(RawBsonRef::Int32(7));
        assert_eq!(
            replaced("a.x", seven),
            rawdoc! { "a": { "x": 7 }, "b": { "c": 2, "d": 3 } }
        );
        assert_eq!(
            replaced("b.c", seven),
            rawdoc! { "a": 1, "b": { "c": 7, "d": 3 } }
        );
        assert_eq!(replaced("b.c", None), rawdoc! { "a": 1, "b": { "d": 3 } });
    }
}
