//! Keys of maps, and their stored text.

use std::{borrow::Cow, sync::Arc};

use bson::{RawBson, Uuid, oid::ObjectId};
use serde::de::{IntoDeserializer, value::Error as KeyError};

use super::{Path, path::ensure_map_key};
use crate::{
    Error, ErrorKind, Result,
    language::query::encode_value,
    model::document::{Document, Ref, Stored, kind},
};

/// Types of the keys of a map: texts, integers, ids, references, and enums or newtypes of these that derive
/// [`Embedded`](crate::Embedded).
///
/// BSON has only texts as keys. serde stores texts and enums without data as such; a map with any other key needs
/// `#[serde(with = "odm::native")]`.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use odm::prelude::*;
///
/// #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Embedded)]
/// enum Size { Small, Large }
///
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "shirts")]
/// struct Shirt {
///     #[serde(rename = "_id")]
///     id: i64,
///     #[embed]
///     stock: BTreeMap<Size, i64>,
///     #[embed]
///     #[serde(with = "odm::native")]
///     sold: BTreeMap<u16, i64>,
/// }
/// # #[derive(Schema)] #[schema(models(Shirt))] struct Shop;
///
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// # let db = odm::Database::<Shop>::open("memory:").await?;
/// let stock = BTreeMap::from([(Size::Small, 3), (Size::Large, 0)]);
/// db.insert(Shirt { id: 1, stock, sold: BTreeMap::new() }).await?;
///
/// // Stored as `{ stock: { Small: 2, Large: 0 }, sold: { "2027": 1 } }`.
/// db.update::<Shirt>(1).inc(|s| s.stock().key(Size::Small), -1).inc(|s| s.sold().key(2027), 1).await?;
/// assert!(db.find::<Shirt>().filter(|s| s.sold().key(2027).gte(1)).exists().await?);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be the key of a map",
    label = "has no text that could be a key",
    note = "a key is a text, an integer, an `ObjectId`, a `Uuid`, a `Ref`, or an enum without data or a newtype that derives \
         `Embedded`; store other maps as an array of structs"
)]
pub trait MapKey: Stored {
    /// The layout of a map with values of the layout `E`.
    type Mapped<E: kind::Element>: kind::Element;

    /// Returns the stored text of the key.
    ///
    /// # Errors
    ///
    /// [`Encode`](ErrorKind::Encode) for a key that serde does not serialize as a text.
    fn to_key(&self) -> Result<Cow<'_, str>> {
        match encode_value(self)? {
            RawBson::String(text) => Ok(text.into()),
            other => Err(Error::new(
                ErrorKind::Encode,
                format!(
                    "the key of a map must be a text, and serde serializes this key as {other:?}"
                ),
            )),
        }
    }

    /// Parses the stored text. The caller compares the text of the result, so that each key has a single text.
    fn from_key(text: &str) -> Option<Self> {
        let deserializer: serde::de::value::StrDeserializer<'_, KeyError> =
            text.into_deserializer();
        Self::deserialize(deserializer).ok()
    }
}

/// Returns the key with this stored text, or `None` for a text that the key type does not write.
pub(super) fn parse_key<K: MapKey>(text: &str) -> Option<K> {
    let key = K::from_key(text)?;
    let is_canonical = key.to_key().is_ok_and(|written| written == text);
    is_canonical.then_some(key)
}

macro_rules! text_keys {
    ($($key:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl MapKey for $key {
            type Mapped<E: kind::Element> = E::Mapped;
            fn to_key(&self) -> Result<Cow<'_, str>> {
                Ok(Cow::Borrowed(self))
            }
            fn from_key(text: &str) -> Option<Self> {
                Some(text.into())
            }
        }

        into_keys!($key: &str, &&str, &&String, Cow<'_, str>, &Cow<'_, str>);
    )*};
}

macro_rules! into_keys {
    ($key:ty: $($text:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl IntoMapKey<$key> for $text {
            fn into_map_key(self) -> Result<String> {
                Ok(self.to_string())
            }
        }
    )*};
}
text_keys!(String, Box<str>, Arc<str>);
into_keys!(String: &Box<str>, &Arc<str>);
into_keys!(Box<str>: String, &String);
into_keys!(Arc<str>: String, &String);

macro_rules! number_keys {
    ($($key:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl MapKey for $key {
            type Mapped<E: kind::Element> = kind::NativeMap;
            fn to_key(&self) -> Result<Cow<'_, str>> {
                Ok(self.to_string().into())
            }
            fn from_key(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
    )*};
}
number_keys!(i8 i16 i32 i64 u8 u16 u32 u64);

macro_rules! id_keys {
    ($($key:ty: $parse:expr;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl MapKey for $key {
            type Mapped<E: kind::Element> = kind::NativeMap;
            fn to_key(&self) -> Result<Cow<'_, str>> {
                Ok(self.to_string().into())
            }
            fn from_key(text: &str) -> Option<Self> {
                $parse(text).ok()
            }
        }
    )*};
}
id_keys! {
    ObjectId: ObjectId::parse_str;
    Uuid: Uuid::parse_str;
}
#[cfg(feature = "uuid")]
id_keys!(uuid::Uuid: uuid::Uuid::parse_str;);

/// The key is the text of the id. A reference in a key has no delete rule, no inverse and no join.
#[diagnostic::do_not_recommend]
impl<T: Document<Id: MapKey>> MapKey for Ref<T> {
    type Mapped<E: kind::Element> = <T::Id as MapKey>::Mapped<E>;
    fn to_key(&self) -> Result<Cow<'_, str>> {
        self.id().to_key()
    }
    fn from_key(text: &str) -> Option<Self> {
        T::Id::from_key(text).map(Self::of_id)
    }
}

/// A value for the key of a map with keys of the type `K`: the key, a reference to the key, or a value with an obvious
/// conversion, such as a `&str` for a `String` or a document for a `Ref`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key of a map with `{K}` keys",
    label = "expected a `{K}`",
    note = "pass a `{K}` or a reference to one; for a text also a `&str`, for a `Ref` also the document that it refers to"
)]
pub trait IntoMapKey<K> {
    /// Returns the stored text of the key.
    ///
    /// # Errors
    ///
    /// The errors of [`MapKey::to_key`].
    fn into_map_key(self) -> Result<String>;
}

#[diagnostic::do_not_recommend]
impl<K: MapKey> IntoMapKey<K> for K {
    fn into_map_key(self) -> Result<String> {
        self.to_key().map(Cow::into_owned)
    }
}

#[diagnostic::do_not_recommend]
impl<K: MapKey> IntoMapKey<K> for &K {
    fn into_map_key(self) -> Result<String> {
        self.to_key().map(Cow::into_owned)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Document<Id: MapKey>> IntoMapKey<Ref<T>> for &T {
    fn into_map_key(self) -> Result<String> {
        self.id().to_key().map(Cow::into_owned)
    }
}

impl Path {
    /// Returns the path of a key of the map at this path. A key that cannot be stored is the error of the path.
    pub(crate) fn at_map_key<K>(&self, key: impl IntoMapKey<K>) -> Self {
        match key.into_map_key() {
            Ok(key) => self.map_key(&key),
            Err(error) => self.with_error(error.with_path(self.to_string())),
        }
    }
}

/// Validates the keys of a map as parts of a path.
pub(super) fn ensure_key<K: MapKey>(key: &K) -> Result<Cow<'_, str>> {
    let key = key.to_key()?;
    ensure_map_key(&key)?;
    Ok(key)
}
