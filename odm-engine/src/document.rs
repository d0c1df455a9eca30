//! Checks and normalizes documents before storage: bytes, `_id` and size.

use std::borrow::Cow;

use bson::oid::ObjectId;
use bson::raw::{BindRawBsonRef, CStr};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::error::{Error, Result, code};
use crate::value;

/// The maximum size of a document in bytes.
pub(crate) const MAX_DOCUMENT_BYTES: usize = 16 << 20;

/// The bytes by which MongoDB's internal messages, which embed the document, may exceed the
/// document limit.
const MAX_EXCESS_BYTES: usize = 16 << 10;

/// Prepares a document for storage: checks the bytes and the size, and puts the `_id` first. A
/// missing `_id` is generated.
///
/// # Errors
/// Malformed or too deeply nested bytes, a document that is too large, or an `_id` of a type that
/// MongoDB does not allow.
pub(crate) fn prepare_for_storage(document: &RawDocument) -> Result<Cow<'_, RawDocument>> {
    check_size(document, code::BAD_VALUE)?;
    value::check_document(document)?;
    if value::begins_with_scalar_id(document) {
        return Ok(Cow::Borrowed(document));
    }
    let is_id = |(name, _): &(&str, RawBsonRef<'_>)| *name == "_id";
    for (_, id) in value::fields(document).filter(is_id) {
        ensure_valid_id(id)?;
    }
    ensure_single_id(document)?;
    let first = document.iter_elements().next().transpose()?;
    let is_first = first.is_some_and(|element| element.key().as_str() == "_id");
    let prepared = match document.get("_id")? {
        Some(id) => {
            if is_first {
                return Ok(Cow::Borrowed(document));
            }
            with_id_first(id, document)?
        }
        None => with_id_first(RawBsonRef::ObjectId(ObjectId::new()), document)?,
    };
    check_size(&prepared, code::BAD_VALUE)?;
    Ok(Cow::Owned(prepared))
}

/// Returns the `_id` of a stored document.
pub(crate) fn document_id(document: &RawDocument) -> Result<RawBsonRef<'_>> {
    document
        .get("_id")?
        .ok_or_else(|| Error::damaged("a document has no _id"))
}

/// Checks that a document has at most [`MAX_DOCUMENT_BYTES`].
///
/// `slightly` is the error code for a document that exceeds the limit by less than
/// [`MAX_EXCESS_BYTES`]: MongoDB's code then depends on the operation.
pub(crate) fn check_size(document: &RawDocument, slightly: i32) -> Result<()> {
    let size = document.as_bytes().len();
    if size <= MAX_DOCUMENT_BYTES {
        return Ok(());
    }
    let code = if size >= MAX_DOCUMENT_BYTES + MAX_EXCESS_BYTES {
        code::DOCUMENT_TOO_LARGE
    } else {
        slightly
    };
    let message = format!("the document is too large: {size} bytes (max {MAX_DOCUMENT_BYTES})");
    Err(Error::with_server_code(code, message))
}

/// Appends a field to a document. The caller guarantees that the name contains no null byte.
pub(crate) fn append_field(document: &mut RawDocumentBuf, name: &str, value: impl BindRawBsonRef) {
    if let Ok(name) = <&CStr>::try_from(name) {
        document.append(name, value);
    }
}

/// Checks that a document has at most one field `_id`. Other names may repeat.
///
/// # Errors
/// The document has two fields `_id` (code 2).
pub(crate) fn ensure_single_id(document: &RawDocument) -> Result<()> {
    let is_id = |(name, _): &(&str, RawBsonRef<'_>)| *name == "_id";
    if value::fields(document).filter(is_id).nth(1).is_some() {
        return Err(Error::bad_value(
            "can't have multiple _id fields in one document",
        ));
    }
    Ok(())
}

fn ensure_valid_id(id: RawBsonRef<'_>) -> Result<()> {
    if let RawBsonRef::Array(_) | RawBsonRef::Undefined | RawBsonRef::RegularExpression(_) = id {
        let name = value::type_name(id);
        let message = format!("The '_id' value cannot be of type {name}");
        return Err(Error::with_server_code(code::INVALID_ID_FIELD, message));
    }
    id.as_document().map_or(Ok(()), ensure_no_dollar_names)
}

fn ensure_no_dollar_names(document: &RawDocument) -> Result<()> {
    for element in document.iter_elements() {
        let element = element?;
        let name = element.key().as_str();
        if name.starts_with('$') {
            let message = format!(
                "_id fields may not contain '$'-prefixed fields: {name} is not valid for storage"
            );
            return Err(Error::with_server_code(code::ID_NOT_STORABLE, message));
        }
        element
            .value()?
            .as_document()
            .map_or(Ok(()), ensure_no_dollar_names)?;
    }
    Ok(())
}

fn with_id_first(id: RawBsonRef<'_>, document: &RawDocument) -> Result<RawDocumentBuf> {
    let mut ordered = RawDocumentBuf::new();
    append_field(&mut ordered, "_id", id);
    for element in document.iter_elements() {
        let element = element?;
        if element.key().as_str() != "_id" {
            ordered.append(element.key(), element.value()?);
        }
    }
    Ok(ordered)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn an_id_is_made_or_moved_to_the_front() {
        let document = prepare_for_storage(&rawdoc! { "a": 1 })
            .unwrap()
            .into_owned();
        assert!(matches!(
            document_id(&document).unwrap(),
            RawBsonRef::ObjectId(_)
        ));
        assert_eq!(document.iter().next().unwrap().unwrap().0, "_id");
        let document = prepare_for_storage(&rawdoc! { "a": 1, "_id": 2, "b": 3 })
            .unwrap()
            .into_owned();
        assert_eq!(document, rawdoc! { "_id": 2, "a": 1, "b": 3 });
    }

    #[test]
    fn some_values_cannot_be_ids() {
        let rejection =
            |document: RawDocumentBuf| prepare_for_storage(&document).unwrap_err().code();
        assert_eq!(
            rejection(rawdoc! { "_id": [1] }),
            Some(code::INVALID_ID_FIELD)
        );
        assert_eq!(
            rejection(rawdoc! { "_id": bson::RawBson::Undefined }),
            Some(code::INVALID_ID_FIELD)
        );
        assert_eq!(
            rejection(rawdoc! { "_id": { "$a": 1 } }),
            Some(code::ID_NOT_STORABLE)
        );
    }

    #[test]
    fn a_second_id_is_refused_and_other_names_may_repeat() {
        let mut duplicate = rawdoc! { "a": 1, "_id": 1, "b": 1 };
        duplicate.append(bson::raw::cstr!("b"), 2);
        assert!(prepare_for_storage(&duplicate).is_ok());
        duplicate.append(bson::raw::cstr!("_id"), 2);
        assert_eq!(
            prepare_for_storage(&duplicate).unwrap_err().code(),
            Some(code::BAD_VALUE)
        );
    }

    #[test]
    fn malformed_bytes_are_refused() {
        let mut bytes = rawdoc! { "a": "text" }.into_bytes();
        bytes[7] = 200;
        let document = RawDocumentBuf::from_bytes(bytes).unwrap();
        assert!(prepare_for_storage(&document).is_err());
    }
}
