//! From stored bytes to values, and what to say when they do not fit.

use std::{marker::PhantomData, sync::Arc};

use bson::{Bson, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};

use crate::{
    Error, ErrorKind, Result,
    document::{Document, Stored},
    error, native,
    projection::Projection,
    schema::{Model, upgrade},
};

/// A value of a stored document of the model, as serde reads it: the model itself or a projection of it.
///
/// [`Document::from_stored`] is how a model is read.
pub(crate) fn decode<T: DeserializeOwned>(raw: &RawDocument, model: &Model) -> Result<T> {
    let raw = upgrade::current(model, raw)?;
    let value = bson::deserialize_from_slice(raw.as_bytes());
    value.map_err(|error| explain::<T>(&raw, model, &error))
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

/// A document that was encoded here: it is of today's version, though it is not marked so before it is inserted.
pub(crate) fn encoded<T: Document>(raw: &RawDocument) -> Result<T> {
    if T::MODEL.upgrade.is_none() {
        return T::from_stored(raw);
    }
    let mut marked = raw.to_owned();
    upgrade::mark(&T::MODEL, &mut marked)?;
    T::from_stored(&marked)
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
        if let Ok(Some(Ok(rewritten))) = value.as_ref().map(P::rewritten) {
            *raw = rewritten;
        }
        values.push(value);
    }
    (values, Arc::new(raws))
}

/// A single value, encoded as in a document.
pub(crate) fn value<T: Stored>(raw: &RawBson) -> Result<T> {
    #[derive(Deserialize)]
    #[serde(bound = "T: Stored")]
    struct Inside<T> {
        value: native::Owned<T>,
    }
    let document = crate::query::document("value", raw.clone())?;
    bson::deserialize_from_slice::<Inside<T>>(document.as_bytes())
        .map(|inside| inside.value.0)
        .map_err(|error| {
            Error::new(
                ErrorKind::Decode,
                format!("a stored value does not fit its type: {}", text(&error)),
            )
        })
}

/// A row of a pipeline.
pub(crate) fn row<R: DeserializeOwned>(raw: &RawDocument) -> Result<R> {
    bson::deserialize_from_slice(raw.as_bytes()).map_err(|error| {
        let row = std::any::type_name::<R>();
        Error::new(
            ErrorKind::Decode,
            format!(
                "a row of the pipeline does not fit `{row}`: {}",
                text(&error)
            ),
        )
        .with_source(error)
    })
}

/// The `_id` of a stored document.
pub(crate) fn id(raw: &RawDocument) -> Option<RawBsonRef<'_>> {
    raw.get("_id").ok().flatten()
}

/// Decodes once more, now keeping track of the path.
fn explain<T: DeserializeOwned>(
    raw: &RawDocument,
    model: &Model,
    error: &bson::error::Error,
) -> Error {
    let mut path = None;
    let mut message = text(error);
    if let Ok(tracked) = bson::deserialize_from_slice::<Tracked<T>>(raw.as_bytes())
        && let Some((place, reason)) = tracked.failure
    {
        path = Some(place).filter(|path| path != ".");
        message = reason;
    }
    let mut explained = Error::new(
        ErrorKind::Decode,
        format!("a stored document does not fit its model: {message}"),
    )
    .with_model(model.name)
    .with_collection(model.collection)
    .with_source(error.clone());
    if let Some(id) = id(raw).and_then(|id| Bson::try_from(id).ok()) {
        explained = explained.with_id(id);
    }
    match path {
        Some(path) => explained.with_path(path.replace('[', ".").replace(']', "")),
        None => explained,
    }
}

/// A value that is read only to learn where that fails, and why. It is read from the stored bytes like any other, as some types
/// read another form from a deserializer for people.
struct Tracked<T> {
    failure: Option<(String, String)>,
    of: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Tracked<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read: Result<T, _> = serde_path_to_error::deserialize(deserializer);
        let failure = |error: serde_path_to_error::Error<D::Error>| {
            (error.path().to_string(), error.inner().to_string())
        };
        Ok(Self {
            failure: read.err().map(failure),
            of: PhantomData,
        })
    }
}

fn text(error: &bson::error::Error) -> String {
    error.message.clone().unwrap_or_else(|| error.to_string())
}
