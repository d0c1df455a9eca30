//! Putting a value at a path of a document.

use bson::raw::CString;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::path::{Part, Path};
use crate::sort::check_field_path;
use crate::value::growth;
use crate::{Error, Result};

/// Reads the path of a field that a stage makes or looks at.
///
/// # Errors
/// It is none, with MongoDB's codes.
pub(super) fn field_path(path: &str) -> Result<Path> {
    if path.contains('\0') {
        return Err(Error::server(16411, "the path of a field has no null byte"));
    }
    check_field_path(path)?;
    Ok(Path::new(path))
}

/// The value at a path that leads through documents only.
pub(super) fn get<'d>(document: &'d RawDocument, path: &Path) -> Option<RawBsonRef<'d>> {
    let root = RawBsonRef::Document(document);
    let mut parts = path.parts().iter();
    parts.try_fold(root, |value, part| {
        crate::value::get(value.as_document()?, part.name())
    })
}

/// The document with another value at a path, or without one. What is on the way and no document becomes one.
///
/// # Errors
/// None for a path that [`field_path`] has read.
pub(super) fn with(
    document: &RawDocument,
    path: &Path,
    value: Option<RawBsonRef<'_>>,
) -> Result<RawDocumentBuf> {
    with_at(document, path.parts(), value)
}

fn with_at(
    document: &RawDocument,
    parts: &[Part],
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
        Ok(Some(with_at(old, rest, value)?.into()))
    };
    let mut output = RawDocumentBuf::new();
    let mut is_there = false;
    for element in document.iter_elements() {
        let element = element?;
        if element.key().as_str() != part.name() {
            output.append(element.key(), element.value()?);
            continue;
        }
        is_there = true;
        if let Some(value) = inner(Some(element.value()?))? {
            output.append(element.key(), value);
            growth::check_size(output.as_bytes().len())?;
        }
    }
    if !is_there && let Some(value) = inner(None)? {
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
    fn what_is_on_the_way_becomes_a_document() {
        let document = rawdoc! { "a": 1, "b": { "c": 2, "d": 3 } };
        let put = |path: &str, value| with(&document, &Path::new(path), value).unwrap();
        let seven = Some(RawBsonRef::Int32(7));
        assert_eq!(
            put("a.x", seven),
            rawdoc! { "a": { "x": 7 }, "b": { "c": 2, "d": 3 } }
        );
        assert_eq!(
            put("b.c", seven),
            rawdoc! { "a": 1, "b": { "c": 7, "d": 3 } }
        );
        assert_eq!(put("b.c", None), rawdoc! { "a": 1, "b": { "d": 3 } });
    }
}
