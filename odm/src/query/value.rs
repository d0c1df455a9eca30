//! Values, and what may stand for them.

use std::{borrow::Cow, sync::Arc};

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocumentBuf};
use serde::Serialize;

use crate::{
    Error, ErrorKind, Result,
    document::{Document, Overflow, Ref, Stored, with_tag},
    error,
    field::Checked,
    native,
    rule::check_document,
};

/// What may be written where a `T` is stored: a `T`, a reference to one, and what obviously means one, such as a `&str`
/// for a `String` or a document for a `Ref` to it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no value for a field of type `{T}`",
    label = "expected a `{T}`",
    note = "give a `{T}` or a reference to one; a text may be a `&str`, a `Ref` the document that it refers to, or `Ref::new(id)`; another field is compared with by `value()`: `p.votes().value().gt(p.likes())`"
)]
pub trait IntoValue<T> {
    /// The value as it is stored.
    ///
    /// # Errors
    ///
    /// [`Encode`](crate::ErrorKind::Encode) for a value that BSON cannot hold, and what
    /// [`Stored::validate`] finds.
    fn into_value(self) -> Result<RawBson>;
}

#[diagnostic::do_not_recommend]
impl<T: Stored> IntoValue<T> for T {
    fn into_value(self) -> Result<RawBson> {
        encode(&self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Stored> IntoValue<T> for &T {
    fn into_value(self) -> Result<RawBson> {
        encode(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Stored> IntoValue<Option<T>> for T {
    fn into_value(self) -> Result<RawBson> {
        encode(&self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Stored> IntoValue<Option<T>> for &T {
    fn into_value(self) -> Result<RawBson> {
        encode(self)
    }
}

macro_rules! texts {
    ($($text:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl IntoValue<String> for $text {
            fn into_value(self) -> Result<RawBson> {
                Ok(RawBson::String(self.to_string()))
            }
        }
        #[diagnostic::do_not_recommend]
        impl IntoValue<Option<String>> for $text {
            fn into_value(self) -> Result<RawBson> {
                Ok(RawBson::String(self.to_string()))
            }
        }
    )*};
}
texts!(&str, &&str, &&String, Cow<'_, str>, &Cow<'_, str>);

#[diagnostic::do_not_recommend]
impl<T: Stored> IntoValue<Vec<T>> for &[T]
where
    Vec<T>: Stored,
{
    fn into_value(self) -> Result<RawBson> {
        values::<T, _>(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Stored, const N: usize> IntoValue<Vec<T>> for [T; N]
where
    Vec<T>: Stored,
{
    fn into_value(self) -> Result<RawBson> {
        values::<T, _>(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Stored, const N: usize> IntoValue<Vec<T>> for &[T; N]
where
    Vec<T>: Stored,
{
    fn into_value(self) -> Result<RawBson> {
        values::<T, _>(self)
    }
}

#[diagnostic::do_not_recommend]
impl<const N: usize> IntoValue<Vec<String>> for [&str; N] {
    fn into_value(self) -> Result<RawBson> {
        values::<String, _>(self)
    }
}

macro_rules! overflowing {
    ($([$($generic:tt)*] $values:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: Stored, $($generic)*> IntoValue<Overflow<T>> for $values
        where
            Overflow<T>: Stored,
        {
            fn into_value(self) -> Result<RawBson> {
                values::<T, _>(self)
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
                encode(self.id())
            }
        }
        #[diagnostic::do_not_recommend]
        impl<T: Document> IntoValue<Option<Ref<T>>> for &$document {
            fn into_value(self) -> Result<RawBson> {
                encode(self.id())
            }
        }
    )*};
}
references!(T, Arc<T>);

/// A value as it is stored inside a document.
///
/// It is encoded as the field of a document: types such as `IpAddr` have another form where they stand alone, and a
/// filter by that would never match.
pub(crate) fn encode<T: Stored>(value: &T) -> Result<RawBson> {
    #[derive(Serialize)]
    struct Inside<'a, T: Stored> {
        value: native::Stored<'a, T>,
    }
    value.validate(&Checked::WHOLE)?;
    let value = native::Stored(value);
    let bytes = bson::serialize_to_vec(&Inside { value }).map_err(error::encode)?;
    let document = RawDocumentBuf::from_bytes(bytes).map_err(error::encode)?;
    match document.get("value").map_err(error::encode)? {
        Some(value) => Ok(RawBson::from(value)),
        None => Err(Error::new(
            ErrorKind::Encode,
            "a value that serde skips cannot stand alone",
        )),
    }
}

/// A whole document as it is stored: its `_id` first.
pub(crate) fn encode_document<T: Document>(document: &T) -> Result<RawDocumentBuf> {
    let check = || {
        document.check_bounds()?;
        check_document(document)
    };
    tracing::debug_span!(target: "odm", "encode", model = T::MODEL.name).in_scope(check)?;
    encode_unchecked(document)
}

/// Checks the paths of a document that a save writes. The other values are stored already.
pub(crate) fn check_written<T: Document>(document: &T, written: &[String]) -> Result<()> {
    let check = || {
        document.check_bounds_of(&Checked::written(written))?;
        check_document(document)
    };
    tracing::debug_span!(target: "odm", "encode", model = T::MODEL.name).in_scope(check)
}

/// The same of one that is new: nothing of it is elsewhere.
pub(crate) fn encode_new_document<T: Document>(document: &T) -> Result<RawDocumentBuf> {
    document.refuse_partial()?;
    encode_document(document)
}

/// A whole document as the model writes it, though it may not be fit to be stored.
pub(crate) fn encode_unchecked<T: Document>(document: &T) -> Result<RawDocumentBuf> {
    let bytes = bson::serialize_to_vec(document).map_err(error::encode)?;
    let raw = RawDocumentBuf::from_bytes(bytes).map_err(error::encode)?;
    id_first(with_tag::<T>(raw)?)
}

fn id_first(raw: RawDocumentBuf) -> Result<RawDocumentBuf> {
    if let Some(Ok((name, _))) = raw.iter().next()
        && name == "_id"
    {
        return Ok(raw);
    }
    let mut ordered = RawDocumentBuf::new();
    let Some(id) = raw.get("_id").map_err(error::encode)? else {
        return Err(Error::new(ErrorKind::Encode, "the document has no `_id`"));
    };
    super::render::append(&mut ordered, "_id", RawBson::from(id))?;
    for field in raw.iter() {
        let (name, value) = field.map_err(error::encode)?;
        if name != "_id" {
            super::render::append(&mut ordered, name.as_str(), RawBson::from(value))?;
        }
    }
    Ok(ordered)
}

/// Whether two values are stored as the same bytes; NaN is the same as itself.
pub(crate) fn same(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> bool {
    let bytes = |value: RawBsonRef<'_>| std::iter::once(value).collect::<RawArrayBuf>();
    a.element_type() == b.element_type() && bytes(a).as_bytes() == bytes(b).as_bytes()
}

/// Several values, as an array.
pub(crate) fn values<T, I>(of: I) -> Result<RawBson>
where
    I: IntoIterator<Item: IntoValue<T>>,
{
    let mut array = RawArrayBuf::new();
    for value in of {
        array.push(value.into_value()?);
    }
    Ok(RawBson::Array(array))
}
