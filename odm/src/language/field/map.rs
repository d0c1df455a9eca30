//! Maps: documents with arbitrary keys.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    hash::{BuildHasher, Hash},
    marker::PhantomData,
};

use bson::RawBson;
use serde::{
    Deserializer, Serializer,
    de::{Error as _, MapAccess, Visitor},
    ser::{Error as _, SerializeMap},
};

use super::{
    CheckedPlace, FromPath, Marker, Path, Place, Queryable, VariantMap,
    map_key::{IntoMapKey, MapKey, ensure_key, parse_key},
    shape,
};
use crate::{
    Result,
    backend::operation::Direction,
    language::query::{Filter, IntoValue, Sort, field_test},
    model::{document::Stored, native, validation},
    schema::{EmbeddedLinks, Schema, TargetsInSchema, TypeCopies},
};

/// A place that holds a map to `T`; `V` is the map type, a `BTreeMap` or a `HashMap`, and [`MapKey`] lists the types of keys.
///
/// Filters and updates access values by key. MongoDB has no condition on a value under any key, and no index could serve such a
/// condition. Store values that must be searchable as elements of an array.
pub struct MapPlace<M, T, V, R, S = shape::One> {
    path: Path,
    of: Marker<(M, T, V, R, S)>,
}

impl<M, T, V, R, S> FromPath for MapPlace<M, T, V, R, S> {
    fn from_path(path: Path) -> Self {
        Self {
            path,
            of: PhantomData,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<M, T, V: Stored, R, S> Place for MapPlace<M, T, V, R, S> {
    type Scope = M;
    type Value = V;
    type Role = R;
    type Shape = S;
    fn path(&self) -> Path {
        self.path.clone()
    }
}

impl<M: 'static, T: Stored, V: Keyed, R: 'static, S: 'static> MapPlace<M, T, V, R, S> {
    /// Returns the value of a key.
    ///
    /// An operation with an empty key, or a key that contains a dot or a null byte or begins with a dollar sign, returns an error
    /// of kind [`Invalid`](crate::ErrorKind::Invalid). A key is never read as a path or an operator.
    pub fn key(&self, key: impl IntoMapKey<V::Key>) -> T::Fields<M, R, S> {
        FromPath::from_path(self.path.at_map_key(key).mark_nullable(T::IS_ARRAY))
    }

    /// Matches if the map has the key.
    pub fn contains_key(&self, key: impl IntoMapKey<V::Key>) -> Filter<M>
    where
        S: Queryable,
    {
        field_test(&self.path.at_map_key(key), "$exists", Ok(true.into()))
    }
}

impl<M: 'static, T: Stored, V: Stored, R: 'static, S: 'static> MapPlace<M, T, V, R, S> {
    /// Matches if the map equals the value, including the order of keys.
    pub fn eq(&self, value: impl IntoValue<V>) -> Filter<M>
    where
        S: Queryable,
    {
        let value = value.into_value();
        match self.equals_missing(&value) {
            true => field_test(&self.path, "$eq", value) | self.missing_filter(),
            false => field_test(&self.path, "$eq", value),
        }
    }

    /// Returns whether a document without the map reads as a document with this value.
    fn equals_missing(&self, value: &Result<RawBson>) -> bool {
        let is_empty = matches!(value, Ok(RawBson::Document(map)) if map.is_empty());
        is_empty && self.path.is_empty_if_missing()
    }

    fn missing_filter(&self) -> Filter<M> {
        field_test(&self.path, "$exists", Ok(false.into()))
    }

    /// Matches if the map differs from the value, including the order of keys, or is missing.
    pub fn ne(&self, value: impl IntoValue<V>) -> Filter<M>
    where
        S: Queryable,
    {
        let value = value.into_value();
        match self.equals_missing(&value) {
            true => field_test(&self.path, "$ne", value) & !self.missing_filter(),
            false => field_test(&self.path, "$ne", value),
        }
    }

    /// Matches if the document has the map, even an empty map: `$exists`.
    pub fn exists(&self) -> Filter<M>
    where
        S: Queryable,
    {
        field_test(&self.path, "$exists", Ok(true.into()))
    }
}

/// Types by which documents can be sorted as a whole: no map.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "cannot sort by a map",
    label = "has one value for each key",
    note = "sort by the value of a key, `p.scores().key(\"art\").asc()`"
)]
pub trait Sole {}

impl<M: 'static, T: Stored, V: Stored, R: 'static, S: 'static> MapPlace<M, T, V, R, S> {
    /// Does not compile: see [`Sole`].
    #[doc(hidden)]
    pub fn asc(&self) -> Sort<M>
    where
        V: Sole,
    {
        Sort::new(self.path.clone(), Direction::Ascending, V::BRACKETS)
    }

    /// Does not compile: see [`Sole`].
    #[doc(hidden)]
    pub fn desc(&self) -> Sort<M>
    where
        V: Sole,
    {
        self.asc().reversed()
    }
}

/// Maps with keys that an update can remove.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a map",
    label = "has no keys to remove",
    note = "`unset` removes an `Option` field, `pull` removes elements of an array"
)]
pub trait Keyed: Stored {
    /// The type of the keys.
    type Key: MapKey;
}

#[diagnostic::do_not_recommend]
impl<K: Keyed> Keyed for Option<K> {
    type Key = K::Key;
}

macro_rules! maps {
    ($([$($parameter:ident: $($bound:path),+);*] $map:ty;)*) => {$(
        impl<T: Stored, $($parameter: $($bound +)+ 'static),*> Stored for $map {
            const LINKS: EmbeddedLinks = T::LINKS.as_unreachable();
            const RULES: validation::Rules = validation::Rules::of_values::<T>();
            type Kind = K::Mapped<T::Kind>;
            type Fields<M: 'static, R: 'static, S: 'static> = MapPlace<M, T, Self, R, S>;
            type ShapeWithDefault<S: 'static> = S;
            type New = Self;
            const COPIES: &'static TypeCopies = TypeCopies::in_map(T::COPIES);
            const HAS_SERDE_DEFAULTS: bool = T::HAS_SERDE_DEFAULTS;
            const ROUNDS_VALUES: bool = T::ROUNDS_VALUES;

            fn serialize_stored<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(Some(self.len()))?;
                for (key, value) in self {
                    let key = key.to_key().map_err(S::Error::custom)?;
                    map.serialize_entry(&*key, &native::AsStored(value))?;
                }
                map.end()
            }

            fn deserialize_stored<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                deserializer.deserialize_map(EntryVisitor(PhantomData))
            }

            fn validate(&self, place: &CheckedPlace<'_>) -> crate::Result<()> {
                self.iter().try_for_each(|(key, value)| match ensure_key(key) {
                    Ok(key) => value.validate(&place.map_value(&key)),
                    Err(error) => place.fail_if_written(error),
                })
            }

            fn variants(&self, variants: &mut VariantMap) {
                for (key, value) in self {
                    if let Ok(key) = key.to_key() {
                        variants.field(&key, |variants| value.variants(variants));
                    }
                }
            }
        }

        #[diagnostic::do_not_recommend]
        impl<T: Stored, $($parameter: $($bound +)+ 'static),*> Keyed for $map {
            type Key = K;
        }
    )*};
}
maps! {
    [K: MapKey, Ord] BTreeMap<K, T>;
    [K: MapKey, Eq, Hash; H: BuildHasher, Default, Send, Sync] HashMap<K, T, H>;
}

impl<S: Schema, K, T: TargetsInSchema<S>> TargetsInSchema<S> for BTreeMap<K, T> {}

impl<S: Schema, K, T: TargetsInSchema<S>, H> TargetsInSchema<S> for HashMap<K, T, H> {}

/// Reads the entries of a map with keys as texts.
struct EntryVisitor<K, T, C>(Marker<(K, T, C)>);

impl<'de, K: MapKey, T: Stored, C: FromIterator<(K, T)>> Visitor<'de> for EntryVisitor<K, T, C> {
    type Value = C;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<C, A::Error> {
        let entries = std::iter::from_fn(|| {
            let entry = access.next_entry::<String, native::FromStored<T>>();
            let (text, value) = match entry.transpose()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error)),
            };
            let key = parse_key(&text).ok_or_else(|| {
                let key = std::any::type_name::<K>();
                A::Error::custom(format!("the key {text:?} of the map is not a `{key}`"))
            });
            Some(key.map(|key| (key, value.0)))
        });
        entries.collect()
    }
}
