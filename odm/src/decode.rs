//! From stored bytes to values, and what to say when they do not fit.

mod read;

use std::sync::Arc;

use bson::{Bson, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use read::{Misfit, Value};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    Error, ErrorKind, Result,
    document::{Document, Stored},
    error, native,
    projection::Projection,
    schema::{Model, upgrade},
    stored::{close, open, set},
};

/// A value of a stored document of the model, as serde reads it: the model itself or a projection of it.
///
/// [`Document::from_stored`] is how a model is read.
pub(crate) fn decode<T: DeserializeOwned>(raw: &RawDocument, model: &Model) -> Result<T> {
    let raw = upgrade::current(model, raw)?;
    T::deserialize(Value::of(&raw)).map_err(|misfit| explain(&raw, model, &misfit))
}

/// A stored document of a model, as serde reads it; called by derived code.
///
/// # Errors
///
/// [`Decode`](ErrorKind::Decode), with the path.
pub fn as_one<T: Document>(raw: &RawDocument) -> Result<T> {
    decode(raw, &T::MODEL)
}

/// What a projection reads of a stored document, as serde reads it; called by derived code.
///
/// # Errors
///
/// [`Decode`](ErrorKind::Decode), with the path.
pub fn as_projection<P: Projection>(raw: &RawDocument, model: &Model) -> Result<P> {
    decode(raw, model)
}

/// A stored document that is of no variant of its enum, as its tag `field` says; called by derived code.
///
/// # Errors
///
/// [`Decode`](ErrorKind::Decode), always.
pub fn of_no_variant<E: Document>(raw: &RawDocument, field: &str) -> Result<E> {
    // serde knows the names of the variants; it also takes their numbers, by which no variant's model is found.
    let error = match decode::<E>(raw, &E::MODEL) {
        Err(error) => error,
        Ok(_) => error::of_model::<E>(Error::new(
            ErrorKind::Decode,
            "a stored document does not fit its model: the field that says of which variant it is holds no text",
        )),
    };
    Err(match error.path() {
        None => error.with_path(field),
        Some(_) => error,
    })
}

/// A document that is to be inserted: it is of today's version and has all of its elements, though it does not say so yet.
pub(crate) fn encoded<T: Document>(raw: &RawDocument) -> Result<T> {
    let model = &T::MODEL;
    let mut arrays = model.overflows.iter();
    let is_ordered = arrays.any(|field| field.order.is_some());
    if model.upgrade.is_none() && !is_ordered {
        return T::from_stored(raw);
    }
    let mut marked = open(raw)?;
    say_version(model, &mut marked);
    if is_ordered {
        set(&mut marked, NEW, true);
    }
    T::from_stored(&close(&marked)?)
}

/// Said of a document that has all of its elements, while it is decoded; it is never stored.
pub(crate) const NEW: &str = "_odm.new";

/// Whether it is said.
pub(crate) fn is_new(raw: &RawDocument) -> bool {
    let own = raw.get_document("_odm").ok();
    own.is_some_and(|own| own.get("new").is_ok_and(|new| new.is_some()))
}

/// The values of documents of a model, and the documents as its joins may read them.
pub(crate) fn decode_all<P: Projection<Of: Document>>(
    mut raws: Vec<RawDocumentBuf>,
) -> (Vec<Result<P>>, Arc<Vec<RawDocumentBuf>>) {
    let model = &<P::Of as Document>::MODEL;
    let mut values = Vec::with_capacity(raws.len());
    for raw in &mut raws {
        match upgrade::upgraded(model, raw) {
            Ok(None) => {}
            Ok(Some(upgraded)) => *raw = upgraded,
            Err(error) => {
                values.push(Err(error));
                continue;
            }
        }
        let value = P::from_document(raw, model);
        // A document that cannot be encoded again is read as it is.
        if let Ok(Some(Ok(rewritten))) = value.as_ref().map(P::rewritten)
            && let Ok(rewritten) = with_outside(model, rewritten, raw)
        {
            *raw = rewritten;
        }
        values.push(value);
    }
    (values, Arc::new(raws))
}

/// A document as the model writes it, with what the stored one has of arrays that overflow: where the other elements are, and those in an
/// order that are not shown.
pub(crate) fn with_outside(
    model: &Model,
    written: RawDocumentBuf,
    stored: &RawDocument,
) -> Result<RawDocumentBuf> {
    if model.overflows.is_empty() && model.upgrade.is_none() {
        return Ok(written);
    }
    let (mut document, stored) = (open(&written)?, open(stored)?);
    for field in model.overflows.iter().filter(|field| field.order.is_some()) {
        let shown = document.get_array_mut(field.stored);
        if let (Ok(shown), Ok(all)) = (shown, stored.get_array(field.stored)) {
            shown.extend(all.iter().skip(field.after).cloned());
        }
    }
    if let Some(own) = stored.get("_odm") {
        document.insert("_odm", own.clone());
    }
    say_version(model, &mut document);
    close(&document)
}

/// Marks a document that is of today's version.
fn say_version(model: &Model, document: &mut bson::Document) {
    if model.upgrade.is_some() {
        set(document, upgrade::MARK, i64::from(model.schema_version));
    }
}

/// A single value, encoded as in a document.
pub(crate) fn value<T: Stored>(raw: &RawBson) -> Result<T> {
    #[derive(Deserialize)]
    #[serde(bound = "T: Stored")]
    struct Inside<T> {
        value: native::Owned<T>,
    }
    let document = crate::query::document("value", raw.clone())?;
    let inside = Inside::<T>::deserialize(Value::of(&document));
    inside.map(|inside| inside.value.0).map_err(|misfit| {
        let text = text(misfit.error());
        let message = format!("a stored value does not fit its type: {text}");
        Error::new(ErrorKind::Decode, message)
    })
}

/// A row of a pipeline.
pub(crate) fn row<R: DeserializeOwned>(raw: &RawDocument) -> Result<R> {
    R::deserialize(Value::of(raw)).map_err(|misfit| {
        let (row, text) = (std::any::type_name::<R>(), text(misfit.error()));
        let message = format!("a row of the pipeline does not fit `{row}`: {text}");
        Error::new(ErrorKind::Decode, message).with_source(misfit.error().clone())
    })
}

/// The `_id` of a stored document.
pub(crate) fn id(raw: &RawDocument) -> Option<RawBsonRef<'_>> {
    raw.get("_id").ok().flatten()
}

/// Says which document does not fit its model, and where.
fn explain(raw: &RawDocument, model: &Model, misfit: &Misfit) -> Error {
    let error = misfit.error();
    let message = format!("a stored document does not fit its model: {}", text(error));
    let explained = error::of(model)(Error::new(ErrorKind::Decode, message));
    let mut explained = explained.with_source(error.clone());
    if let Some(id) = id(raw).and_then(|id| Bson::try_from(id).ok()) {
        explained = explained.with_id(id);
    }
    match misfit.path() {
        Some(path) => explained.with_path(path),
        None => explained,
    }
}

fn text(error: &bson::error::Error) -> String {
    error.message.clone().unwrap_or_else(|| error.to_string())
}
