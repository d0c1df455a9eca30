//! Decoding of stored documents, with errors that name the document and the path.

mod deserializer;
mod elements;

use std::sync::Arc;

use bson::{Bson, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use serde::{Deserialize, de::DeserializeOwned};

use deserializer::{DecodeError, StoredValue};

use crate::{
    Error, ErrorKind, Result, error,
    language::query::append_field,
    metadata::{COMPLETE, FIELD},
    model::{
        document::{Document, Stored},
        native,
        projection::Projection,
        stored::{parse_document, set_at, to_raw_document, to_raw_value},
    },
    schema::{Model, upgrade},
};

/// Decodes a stored document of the model with serde, as the model or as a projection.
///
/// Models are decoded by [`Document::from_stored`].
pub(crate) fn decode<T: DeserializeOwned>(raw: &RawDocument, model: &Model) -> Result<T> {
    let raw = upgrade::upgrade_for_read(model, raw)?;
    let decode = |raw: &RawDocument| {
        T::deserialize(StoredValue::from_document(raw))
            .map_err(|misfit| decode_error(raw, model, &misfit))
    };
    match decode(&raw) {
        Err(error) => match with_missing_fields(&raw, model)? {
            Some(complete) => decode(&complete),
            None => Err(error),
        },
        decoded => decoded,
    }
}

/// Returns the document with the values of a parent without children, for rollups that were declared after the document was
/// written, with 0 for sequence numbers, and without ancestors in a tree. `None` if no such field is missing.
fn with_missing_fields(raw: &RawDocument, model: &Model) -> Result<Option<RawDocumentBuf>> {
    let is_missing = |stored: &&str| matches!(raw.get(*stored), Ok(None));
    let rollups = model.rollups.iter();
    let mut rollups = rollups
        .filter(|rollup| is_missing(&rollup.stored))
        .peekable();
    let sequences = model.sequences.iter().map(|sequence| sequence.stored);
    let mut numbers = sequences.filter(is_missing).peekable();
    let ancestors = model.tree.map(|tree| tree.ancestors).filter(is_missing);
    if rollups.peek().is_none() && numbers.peek().is_none() && ancestors.is_none() {
        return Ok(None);
    }
    let mut complete = raw.to_owned();
    for rollup in rollups {
        append_field(
            &mut complete,
            rollup.stored,
            to_raw_value(&rollup.empty_value())?,
        )?;
    }
    for number in numbers {
        append_field(&mut complete, number, 0_i64)?;
    }
    if let Some(ancestors) = ancestors {
        append_field(&mut complete, ancestors, RawArrayBuf::new())?;
    }
    Ok(Some(complete))
}

/// Decodes a stored document of a model with serde. Called by derived code.
///
/// # Errors
///
/// [`Decode`](ErrorKind::Decode), with the path.
pub fn decode_model<T: Document>(raw: &RawDocument) -> Result<T> {
    decode(raw, &T::MODEL)
}

/// Decodes a projection of a stored document with serde. Called by derived code.
///
/// # Errors
///
/// [`Decode`](ErrorKind::Decode), with the path.
pub fn decode_projection<P: Projection>(raw: &RawDocument, model: &Model) -> Result<P> {
    decode(raw, model)
}

/// Returns the error for a stored document with an unknown tag in `field`. Called by derived code.
///
/// # Errors
///
/// [`Decode`](ErrorKind::Decode), always.
pub fn unknown_variant<E: Document>(raw: &RawDocument, field: &str) -> Result<E> {
    // serde's error lists the variants. serde also accepts variant numbers, which match no stored tag.
    let error = match decode::<E>(raw, &E::MODEL) {
        Err(error) => error,
        Ok(_) => error::of_model::<E>(Error::new(
            ErrorKind::Decode,
            "a stored document does not fit its model: the tag of the enum is not a string",
        )),
    };
    Err(match error.path() {
        None => error.with_path(field),
        Some(_) => error,
    })
}

/// Decodes a document that is about to be inserted. The document has the current version and all elements, which the stored form
/// does not show yet.
pub(crate) fn decode_new<T: Document>(raw: &RawDocument) -> Result<T> {
    let model = &T::MODEL;
    let mut arrays = model.overflows.iter();
    let is_ordered = arrays.any(|field| field.order.is_some());
    if model.upgrade.is_none() && !is_ordered {
        return T::from_stored(raw);
    }
    let mut marked = parse_document(raw)?;
    upgrade::set_version(model, &mut marked);
    if is_ordered {
        set_at(&mut marked, COMPLETE, true);
    }
    T::from_stored(&to_raw_document(&marked)?)
}

/// Decodes documents of a model. Also returns the documents for joins, which read references from the stored form.
pub(crate) fn decode_all<P: Projection<Of: Document>>(
    mut raws: Vec<RawDocumentBuf>,
) -> (Vec<Result<P>>, Arc<Vec<RawDocumentBuf>>) {
    let model = &<P::Of as Document>::MODEL;
    let mut values = Vec::with_capacity(raws.len());
    for raw in &mut raws {
        match upgrade::upgrade_document(model, raw) {
            Ok(None) => {}
            Ok(Some(upgraded)) => *raw = upgraded,
            Err(error) => {
                values.push(Err(error));
                continue;
            }
        }
        let value = P::from_document(raw, model);
        // If encoding fails, joins read the stored document.
        if let Ok(Some(Ok(rewritten))) = value.as_ref().map(P::rewritten_document)
            && let Ok(rewritten) = with_manifests(model, rewritten, raw)
        {
            *raw = rewritten;
        }
        values.push(value);
    }
    (values, Arc::new(raws))
}

/// Adds the manifests and the hidden elements of overflow arrays from the stored document to an encoded document. Sorted arrays
/// hide some resident elements.
pub(crate) fn with_manifests(
    model: &Model,
    encoded: RawDocumentBuf,
    stored: &RawDocument,
) -> Result<RawDocumentBuf> {
    if model.overflows.is_empty() && model.upgrade.is_none() {
        return Ok(encoded);
    }
    let (mut document, stored) = (parse_document(&encoded)?, parse_document(stored)?);
    for field in model.overflows.iter().filter(|field| field.order.is_some()) {
        let elements = document.get_array_mut(field.stored);
        if let (Ok(elements), Ok(stored)) = (elements, stored.get_array(field.stored)) {
            elements.extend(stored.iter().skip(field.max_resident).cloned());
        }
    }
    if let Some(metadata) = stored.get(FIELD) {
        document.insert(FIELD, metadata.clone());
    }
    upgrade::set_version(model, &mut document);
    to_raw_document(&document)
}

/// Decodes a single value, encoded as in a document.
pub(crate) fn decode_value<T: Stored>(raw: &RawBson) -> Result<T> {
    #[derive(Deserialize)]
    #[serde(bound = "T: Stored")]
    struct DecodedField<T> {
        value: native::FromStored<T>,
    }
    let document = crate::language::query::single_field_document("value", raw.clone())?;
    let decoded = DecodedField::<T>::deserialize(StoredValue::from_document(&document));
    decoded.map(|field| field.value.0).map_err(|misfit| {
        let text = error_text(misfit.error());
        let message = format!("a stored value does not fit its type: {text}");
        Error::new(ErrorKind::Decode, message)
    })
}

/// Decodes a row of a pipeline.
pub(crate) fn decode_row<R: DeserializeOwned>(raw: &RawDocument) -> Result<R> {
    R::deserialize(StoredValue::from_document(raw)).map_err(|misfit| {
        let (row, text) = (std::any::type_name::<R>(), error_text(misfit.error()));
        let message = format!("a row of the pipeline does not fit `{row}`: {text}");
        Error::new(ErrorKind::Decode, message).with_source(misfit.error().clone())
    })
}

/// Returns the `_id` of a stored document.
pub(crate) fn stored_id(raw: &RawDocument) -> Option<RawBsonRef<'_>> {
    raw.get("_id").ok().flatten()
}

/// Returns the `_id` of a stored document, as an owned value.
pub(crate) fn owned_id(raw: &RawDocument) -> Option<RawBson> {
    stored_id(raw).map(RawBson::from)
}

/// Returns the error for a document that does not fit its model, with id and path.
fn decode_error(raw: &RawDocument, model: &Model, misfit: &DecodeError) -> Error {
    let error = misfit.error();
    let message = format!(
        "a stored document does not fit its model: {}",
        error_text(error)
    );
    let decode_error = error::naming_model(model)(Error::new(ErrorKind::Decode, message));
    let mut decode_error = decode_error.with_source(error.clone());
    if let Some(id) = stored_id(raw).and_then(|id| Bson::try_from(id).ok()) {
        decode_error = decode_error.with_id(id);
    }
    match misfit.path() {
        Some(path) => decode_error.with_path(path),
        None => decode_error,
    }
}

fn error_text(error: &bson::error::Error) -> String {
    error.message.clone().unwrap_or_else(|| error.to_string())
}
