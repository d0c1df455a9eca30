//! Documents on their way in: their bytes, their `_id`, their size.

use bson::oid::ObjectId;
use bson::raw::{BindRawBsonRef, CStr};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::error::{Error, Result, code};
use crate::value;

/// The largest document, in bytes.
pub(crate) const MAX_BYTES: usize = 16 << 20;

/// By how many bytes MongoDB lets its own messages, which have the document in them, exceed the limit.
const MAX_EXCESS: usize = 16 << 10;

/// The document as it is stored: valid, not too large, with an `_id` that comes first.
///
/// # Errors
/// Malformed or too deeply nested bytes, too large a document, an `_id` that cannot be one.
pub(crate) fn prepare(document: RawDocumentBuf) -> Result<RawDocumentBuf> {
    check_size(&document, code::BAD_VALUE)?;
    value::check(&document)?;
    let is_id = |(name, _): &(&str, RawBsonRef<'_>)| *name == "_id";
    for (_, id) in value::fields(&document).filter(is_id) {
        check_id(id)?;
    }
    refuse_second_id(&document)?;
    let first = document.iter_elements().next().transpose()?;
    let is_first = first.is_some_and(|element| element.key().as_str() == "_id");
    let prepared = match document.get("_id")? {
        Some(id) => {
            if is_first {
                return Ok(document);
            }
            with_id_first(id, &document)?
        }
        None => with_id_first(RawBsonRef::ObjectId(ObjectId::new()), &document)?,
    };
    check_size(&prepared, code::BAD_VALUE)?;
    Ok(prepared)
}

/// The `_id` of a stored document.
pub(crate) fn id(document: &RawDocument) -> Result<RawBsonRef<'_>> {
    document
        .get("_id")?
        .ok_or_else(|| Error::damaged("a document has no _id"))
}

/// Refuses a document that is larger than [`MAX_BYTES`]; with `slightly` if not by much, as MongoDB
/// has a number for each operation then.
pub(crate) fn check_size(document: &RawDocument, slightly: i32) -> Result<()> {
    let size = document.as_bytes().len();
    if size <= MAX_BYTES {
        return Ok(());
    }
    let code = if size >= MAX_BYTES + MAX_EXCESS {
        code::DOCUMENT_TOO_LARGE
    } else {
        slightly
    };
    let message = format!("the document has {size} bytes, and {MAX_BYTES} are the most it can");
    Err(Error::server(code, message))
}

/// Appends a field whose name is known to be without a zero byte.
pub(crate) fn append(document: &mut RawDocumentBuf, name: &str, value: impl BindRawBsonRef) {
    if let Ok(name) = <&CStr>::try_from(name) {
        document.append(name, value);
    }
}

/// Refuses a document with two fields `_id`. Other names may repeat.
///
/// # Errors
/// There are two (code 2).
pub(crate) fn refuse_second_id(document: &RawDocument) -> Result<()> {
    let is_id = |(name, _): &(&str, RawBsonRef<'_>)| *name == "_id";
    if value::fields(document).filter(is_id).nth(1).is_some() {
        return Err(Error::bad_value(
            "can't have multiple _id fields in one document",
        ));
    }
    Ok(())
}

fn check_id(id: RawBsonRef<'_>) -> Result<()> {
    if let RawBsonRef::Array(_) | RawBsonRef::Undefined | RawBsonRef::RegularExpression(_) = id {
        let name = value::type_name(id);
        let message = format!("The '_id' value cannot be of type {name}");
        return Err(Error::server(code::INVALID_ID_FIELD, message));
    }
    id.as_document().map_or(Ok(()), refuse_dollars)
}

fn refuse_dollars(document: &RawDocument) -> Result<()> {
    for element in document.iter_elements() {
        let element = element?;
        let name = element.key().as_str();
        if name.starts_with('$') {
            let message = format!(
                "_id fields may not contain '$'-prefixed fields: {name} is not valid for storage"
            );
            return Err(Error::server(code::ID_NOT_STORABLE, message));
        }
        element
            .value()?
            .as_document()
            .map_or(Ok(()), refuse_dollars)?;
    }
    Ok(())
}

fn with_id_first(id: RawBsonRef<'_>, document: &RawDocument) -> Result<RawDocumentBuf> {
    let mut ordered = RawDocumentBuf::new();
    append(&mut ordered, "_id", id);
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
        let made = prepare(rawdoc! { "a": 1 }).unwrap();
        assert!(matches!(id(&made).unwrap(), RawBsonRef::ObjectId(_)));
        assert_eq!(made.iter().next().unwrap().unwrap().0, "_id");
        let moved = prepare(rawdoc! { "a": 1, "_id": 2, "b": 3 }).unwrap();
        assert_eq!(moved, rawdoc! { "_id": 2, "a": 1, "b": 3 });
    }

    #[test]
    fn some_values_cannot_be_ids() {
        let refused = |document| prepare(document).unwrap_err().code();
        assert_eq!(
            refused(rawdoc! { "_id": [1] }),
            Some(code::INVALID_ID_FIELD)
        );
        assert_eq!(
            refused(rawdoc! { "_id": bson::RawBson::Undefined }),
            Some(code::INVALID_ID_FIELD)
        );
        assert_eq!(
            refused(rawdoc! { "_id": { "$a": 1 } }),
            Some(code::ID_NOT_STORABLE)
        );
    }

    #[test]
    fn a_second_id_is_refused_and_other_names_may_repeat() {
        let mut twice = rawdoc! { "a": 1, "_id": 1, "b": 1 };
        twice.append(bson::raw::cstr!("b"), 2);
        assert!(prepare(twice.clone()).is_ok());
        twice.append(bson::raw::cstr!("_id"), 2);
        assert_eq!(prepare(twice).unwrap_err().code(), Some(code::BAD_VALUE));
    }

    #[test]
    fn malformed_bytes_are_refused() {
        let mut bytes = rawdoc! { "a": "text" }.into_bytes();
        bytes[7] = 200;
        let document = RawDocumentBuf::from_bytes(bytes).unwrap();
        assert!(prepare(document).is_err());
    }
}
