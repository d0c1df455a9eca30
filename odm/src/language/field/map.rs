//! Maps: documents with arbitrary keys.

use std::{
    collections::{BTreeMap, HashMap},
    hash::BuildHasher,
    marker::PhantomData,
};

use bson::RawBson;

use super::{
    CheckedPlace, FromPath, Marker, Path, Place, Queryable, VariantMap, path::ensure_map_key, shape,
};
use crate::{
    Result,
    backend::operation::Direction,
    language::query::{Filter, IntoValue, Sort, field_test},
    model::{
        document::{Stored, kind},
        validation,
    },
    schema::{EmbeddedLinks, Schema, TargetsInSchema, TypeCopies},
};

/// A place that holds a map from text to `T`; `V` is the map type, a `BTreeMap` or a `HashMap`.
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

impl<M: 'static, T: Stored, V: Stored, R: 'static, S: 'static> MapPlace<M, T, V, R, S> {
    /// Returns the value of a key.
    ///
    /// An operation with an empty key, or a key that contains a dot or a null byte or begins with a dollar sign, returns an error
    /// of kind [`Invalid`](crate::ErrorKind::Invalid). A key is never read as a path or an operator.
    pub fn key(&self, key: &str) -> T::Fields<M, R, S> {
        FromPath::from_path(self.path.map_key(key).mark_nullable(T::IS_ARRAY))
    }

    /// Matches if the map has the key.
    pub fn contains_key(&self, key: &str) -> Filter<M>
    where
        S: Queryable,
    {
        field_test(&self.path.map_key(key), "$exists", Ok(true.into()))
    }

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
pub trait Keyed: Stored {}

impl<T: Stored> Stored for BTreeMap<String, T> {
    const LINKS: EmbeddedLinks = T::LINKS.as_unreachable();
    const RULES: validation::Rules = validation::Rules::of_values::<T>();
    type Kind = <T::Kind as kind::Element>::Mapped;
    type Fields<M: 'static, R: 'static, S: 'static> = MapPlace<M, T, Self, R, S>;
    type ShapeWithDefault<S: 'static> = S;
    type New = Self;
    const COPIES: &'static TypeCopies = TypeCopies::in_map(T::COPIES);
    const HAS_SERDE_DEFAULTS: bool = T::HAS_SERDE_DEFAULTS;

    fn validate(&self, place: &CheckedPlace<'_>) -> Result<()> {
        validate_entries(self.iter(), place)
    }

    fn variants(&self, variants: &mut VariantMap) {
        for (key, value) in self {
            variants.field(key, |variants| value.variants(variants));
        }
    }
}

#[diagnostic::do_not_recommend]
impl<T: Stored> Keyed for BTreeMap<String, T> {}

#[diagnostic::do_not_recommend]
impl<K: Keyed> Keyed for Option<K> {}

impl<S: Schema, T: TargetsInSchema<S>> TargetsInSchema<S> for BTreeMap<String, T> {}

impl<T: Stored, H: BuildHasher + Default + Send + Sync + 'static> Stored for HashMap<String, T, H> {
    const LINKS: EmbeddedLinks = T::LINKS.as_unreachable();
    const RULES: validation::Rules = validation::Rules::of_values::<T>();
    type Kind = <T::Kind as kind::Element>::Mapped;
    type Fields<M: 'static, R: 'static, S: 'static> = MapPlace<M, T, Self, R, S>;
    type ShapeWithDefault<S: 'static> = S;
    type New = Self;
    const COPIES: &'static TypeCopies = TypeCopies::in_map(T::COPIES);
    const HAS_SERDE_DEFAULTS: bool = T::HAS_SERDE_DEFAULTS;

    fn validate(&self, place: &CheckedPlace<'_>) -> Result<()> {
        validate_entries(self.iter(), place)
    }

    fn variants(&self, variants: &mut VariantMap) {
        for (key, value) in self {
            variants.field(key, |variants| value.variants(variants));
        }
    }
}

#[diagnostic::do_not_recommend]
impl<T: Stored, H: BuildHasher + Default + Send + Sync + 'static> Keyed for HashMap<String, T, H> {}

impl<S: Schema, T: TargetsInSchema<S>, H> TargetsInSchema<S> for HashMap<String, T, H> {}

fn validate_entries<'a, T: Stored>(
    mut entries: impl Iterator<Item = (&'a String, &'a T)>,
    place: &CheckedPlace<'_>,
) -> Result<()> {
    entries.try_for_each(|(key, value)| {
        ensure_map_key(key).or_else(|error| place.fail_if_written(error))?;
        value.validate(&place.map_value(key))
    })
}
