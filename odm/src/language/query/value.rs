//! Values in filters and updates, and their encoding.

use std::{borrow::Cow, sync::Arc};

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocumentBuf};
use serde::Serialize;

use crate::{
    Error, ErrorKind, Result, error,
    language::field::CheckedPlace,
    model::{
        document::{Document, Overflow, Ref, Stored, with_tag},
        native,
        validation::check_document,
    },
};

/// A value for a place that stores a `T`: a `T`, a reference to a `T`, or a value with an obvious conversion, such as a `&str`
/// for a `String` or a document for a `Ref`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value for a field of type `{T}`",
    label = "expected a `{T}`",
    note = "pass a `{T}` or a reference to one; for a text also a `&str`, for a list of texts a `&[&str]`, for a `Ref` also the \
         document that it refers to, or `Ref::new(id)`; for an optional text, the text without `Some`; to compare with another field, use `value()`: `p.votes().value().gt(p.likes())`"
)]
pub trait IntoValue<T> {
    /// Returns the stored form of the value.
    ///
    /// # Errors
    ///
    /// [`Encode`](crate::ErrorKind::Encode) for a value that BSON cannot hold, and the errors of [`Stored::validate`].
    fn into_value(self) -> Result<RawBson>;
}

#[diagnostic::do_not_recommend]
impl<T: Stored> IntoValue<T> for T {
    fn into_value(self) -> Result<RawBson> {
        encode_value(&self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Stored> IntoValue<T> for &T {
    fn into_value(self) -> Result<RawBson> {
        encode_value(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Stored> IntoValue<Option<T>> for T {
    fn into_value(self) -> Result<RawBson> {
        encode_value(&self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Stored> IntoValue<Option<T>> for &T {
    fn into_value(self) -> Result<RawBson> {
        encode_value(self)
    }
}

macro_rules! texts {
    ($($field:ty: $($text:ty),*;)*) => {$($(
        #[diagnostic::do_not_recommend]
        impl IntoValue<$field> for $text {
            fn into_value(self) -> Result<RawBson> {
                Ok(RawBson::String(self.to_string()))
            }
        }
        #[diagnostic::do_not_recommend]
        impl IntoValue<Option<$field>> for $text {
            fn into_value(self) -> Result<RawBson> {
                Ok(RawBson::String(self.to_string()))
            }
        }
    )*)*};
}
texts! {
    String: &str, &&str, &&String, Cow<'_, str>, &Cow<'_, str>, Box<str>, &Box<str>, Arc<str>, &Arc<str>;
    Box<str>: &str, &&str, String, &String, &&String, Cow<'_, str>, &Cow<'_, str>;
    Arc<str>: &str, &&str, String, &String, &&String, Cow<'_, str>, &Cow<'_, str>;
}

#[diagnostic::do_not_recommend]
impl<T: Stored> IntoValue<Vec<T>> for &[T]
where
    Vec<T>: Stored,
{
    fn into_value(self) -> Result<RawBson> {
        encode_values::<T, _>(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Stored, const N: usize> IntoValue<Vec<T>> for [T; N]
where
    Vec<T>: Stored,
{
    fn into_value(self) -> Result<RawBson> {
        encode_values::<T, _>(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Stored, const N: usize> IntoValue<Vec<T>> for &[T; N]
where
    Vec<T>: Stored,
{
    fn into_value(self) -> Result<RawBson> {
        encode_values::<T, _>(self)
    }
}

macro_rules! text_arrays {
    ($([$($generic:tt)*] $texts:ty => $field:ty;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<$($generic)*> IntoValue<$field> for $texts {
            fn into_value(self) -> Result<RawBson> {
                encode_values::<String, _>(self)
            }
        }
    )*};
}
text_arrays! {
    [const N: usize] [&str; N] => Vec<String>;
    [const N: usize] &[&str; N] => Vec<String>;
    [] &[&str] => Vec<String>;
    [const N: usize] [&str; N] => [String; N];
}

macro_rules! overflowing {
    ($([$($generic:tt)*] $values:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: Stored, $($generic)*> IntoValue<Overflow<T>> for $values
        where
            Overflow<T>: Stored,
        {
            fn into_value(self) -> Result<RawBson> {
                encode_values::<T, _>(self)
            }
        }
    )*};
}
overflowing!([] Vec<T>, [] &Vec<T>, [] &[T], [const N: usize] [T; N], [const N: usize] &[T; N]);

macro_rules! references {
    ($($document:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: Document> IntoValue<Ref<T>> for &$document {
            fn into_value(self) -> Result<RawBson> {
                encode_value(self.id())
            }
        }
        #[diagnostic::do_not_recommend]
        impl<T: Document> IntoValue<Option<Ref<T>>> for &$document {
            fn into_value(self) -> Result<RawBson> {
                encode_value(self.id())
            }
        }
    )*};
}
references!(T, Arc<T>);

/// Encodes a value as stored inside a document.
///
/// The value is encoded as a field of a document, because types such as `IpAddr` have a different stand-alone form. A filter with
/// the stand-alone form would never match.
pub(crate) fn encode_value<T: Stored>(value: &T) -> Result<RawBson> {
    #[derive(Serialize)]
    struct EncodedField<'a, T: Stored> {
        value: native::AsStored<'a, T>,
    }
    value.validate(&CheckedPlace::WHOLE)?;
    let value = native::AsStored(value);
    let bytes = bson::serialize_to_vec(&EncodedField { value }).map_err(error::from_bson)?;
    let document = RawDocumentBuf::from_bytes(bytes).map_err(error::from_bson)?;
    match document.get("value").map_err(error::from_bson)? {
        Some(value) => Ok(RawBson::from(value)),
        None => Err(Error::new(
            ErrorKind::Encode,
            "serde skips this value, so it cannot be encoded alone: use `unset` to remove a field",
        )),
    }
}

/// Validates and encodes a whole document, with the `_id` first.
pub(crate) fn encode_document<T: Document>(document: &T) -> Result<RawDocumentBuf> {
    let check = || {
        document.check_bounds()?;
        check_document(document)
    };
    tracing::debug_span!(target: "odm", "encode", model = T::MODEL.name).in_scope(check)?;
    encode_unchecked(document)
}

/// Validates the paths that a save writes. All other values are stored already.
pub(crate) fn check_changed_paths<T: Document>(document: &T, written: &[String]) -> Result<()> {
    let check = || {
        document.check_bounds_of(&CheckedPlace::with_written_paths(written))?;
        check_document(document)
    };
    tracing::debug_span!(target: "odm", "encode", model = T::MODEL.name).in_scope(check)
}

/// Validates and encodes a new document. Rejects partially read overflow arrays, because an insert would lose the spilled
/// elements.
pub(crate) fn encode_new_document<T: Document>(document: &T) -> Result<RawDocumentBuf> {
    document.ensure_complete()?;
    encode_document(document)
}

/// Encodes a whole document without validation.
pub(crate) fn encode_unchecked<T: Document>(document: &T) -> Result<RawDocumentBuf> {
    let bytes = bson::serialize_to_vec(document).map_err(error::from_bson)?;
    let raw = RawDocumentBuf::from_bytes(bytes).map_err(error::from_bson)?;
    id_first(with_tag::<T>(raw)?)
}

fn id_first(raw: RawDocumentBuf) -> Result<RawDocumentBuf> {
    if let Some(Ok((name, _))) = raw.iter().next()
        && name == "_id"
    {
        return Ok(raw);
    }
    let mut ordered = RawDocumentBuf::new();
    let Some(id) = raw.get("_id").map_err(error::from_bson)? else {
        return Err(Error::new(
            ErrorKind::Encode,
            "the document has no `_id`: serde must store a field as `_id`, which `skip_serializing_if` must not leave out",
        ));
    };
    super::render::append_field(&mut ordered, "_id", RawBson::from(id))?;
    for field in raw.iter() {
        let (name, value) = field.map_err(error::from_bson)?;
        if name != "_id" {
            super::render::append_field(&mut ordered, name.as_str(), RawBson::from(value))?;
        }
    }
    Ok(ordered)
}

/// Returns whether two values have equal stored bytes. NaN equals NaN.
pub(crate) fn same_bytes(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> bool {
    let bytes = |value: RawBsonRef<'_>| std::iter::once(value).collect::<RawArrayBuf>();
    a.element_type() == b.element_type() && bytes(a).as_bytes() == bytes(b).as_bytes()
}

/// Encodes several values as an array.
pub(crate) fn encode_values<T, I>(items: I) -> Result<RawBson>
where
    I: IntoIterator<Item: IntoValue<T>>,
{
    let mut array = RawArrayBuf::new();
    for value in items {
        array.push(value.into_value()?);
    }
    Ok(RawBson::Array(array))
}
