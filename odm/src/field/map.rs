//! Maps: documents whose keys are not known beforehand.

use std::{
    collections::{BTreeMap, HashMap},
    hash::BuildHasher,
    marker::PhantomData,
};

use bson::RawBson;

use super::{Checked, FromPath, Marker, Path, Place, Queryable, Variants, path::refuse_key, shape};
use crate::{
    Result,
    backend::operation::Direction,
    document::{Stored, kind},
    query::{Filter, IntoValue, Sort, test},
    rule,
    schema::{Closed, Copies, LinksInside, Schema},
};

/// A place that holds a map from text to `T`, which `V` is: a `BTreeMap` or a `HashMap`.
///
/// Its values are asked for by their keys. MongoDB cannot ask for a value under any key, and no index could serve that: what
/// is to be found by its value is an element of an array.
pub struct Map<M, T, V, R, S = shape::One> {
    path: Path,
    of: Marker<(M, T, V, R, S)>,
}

impl<M, T, V, R, S> FromPath for Map<M, T, V, R, S> {
    fn from_path(path: Path) -> Self {
        Self {
            path,
            of: PhantomData,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<M, T, V: Stored, R, S> Place for Map<M, T, V, R, S> {
    type Scope = M;
    type Value = V;
    type Role = R;
    type Shape = S;
    fn path(&self) -> Path {
        self.path.clone()
    }
}

impl<M: 'static, T: Stored, V: Stored, R: 'static, S: 'static> Map<M, T, V, R, S> {
    /// The value of a key.
    ///
    /// A key that is empty, has a dot or a null byte or begins with a dollar sign makes the operation that uses it an
    /// error of kind [`Invalid`](crate::ErrorKind::Invalid): it never becomes a path or an operator.
    pub fn key(&self, key: &str) -> T::Fields<M, R, S> {
        FromPath::from_path(self.path.key(key).optional(T::IS_ARRAY))
    }

    /// The map has the key.
    pub fn contains_key(&self, key: &str) -> Filter<M>
    where
        S: Queryable,
    {
        test(&self.path.key(key), "$exists", Ok(true.into()))
    }

    /// Equal to the value, in the order of keys too.
    pub fn eq(&self, value: impl IntoValue<V>) -> Filter<M>
    where
        S: Queryable,
    {
        let value = value.into_value();
        match self.is_read_from_nothing(&value) {
            true => test(&self.path, "$eq", value) | self.is_missing(),
            false => test(&self.path, "$eq", value),
        }
    }

    /// Whether a document without the map reads as one with this value.
    fn is_read_from_nothing(&self, value: &Result<RawBson>) -> bool {
        let is_empty = matches!(value, Ok(RawBson::Document(map)) if map.is_empty());
        is_empty && self.path.is_empty_if_missing()
    }

    fn is_missing(&self) -> Filter<M> {
        test(&self.path, "$exists", Ok(false.into()))
    }

    /// Not equal to the value, in the order of keys too, or missing.
    pub fn ne(&self, value: impl IntoValue<V>) -> Filter<M>
    where
        S: Queryable,
    {
        let value = value.into_value();
        match self.is_read_from_nothing(&value) {
            true => test(&self.path, "$ne", value) & !self.is_missing(),
            false => test(&self.path, "$ne", value),
        }
    }

    /// The document has the map, if only an empty one: `$exists`.
    pub fn exists(&self) -> Filter<M>
    where
        S: Queryable,
    {
        test(&self.path, "$exists", Ok(true.into()))
    }
}

/// What documents can be sorted by as a whole: no map.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "no order by a map",
    label = "has one value for each key",
    note = "sort by the value of a key, `p.scores().key(\"art\").asc()`"
)]
pub trait Sole {}

impl<M: 'static, T: Stored, V: Stored, R: 'static, S: 'static> Map<M, T, V, R, S> {
    /// Not there: see [`Sole`].
    #[doc(hidden)]
    pub fn asc(&self) -> Sort<M>
    where
        V: Sole,
    {
        Sort::new(self.path.clone(), Direction::Ascending, V::BRACKETS)
    }

    /// Not there: see [`Sole`].
    #[doc(hidden)]
    pub fn desc(&self) -> Sort<M>
    where
        V: Sole,
    {
        self.asc().reversed()
    }
}

/// Maps whose single keys an update can remove.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no map",
    label = "has no keys to remove",
    note = "`unset` removes an `Option` field, `pull` elements of an array"
)]
pub trait Keyed: Stored {}

impl<T: Stored> Stored for BTreeMap<String, T> {
    const LINKS: LinksInside = T::LINKS.out_of_reach();
    const RULES: rule::Rules = rule::Rules::of_values::<T>();
    type Kind = <T::Kind as kind::Element>::Mapped;
    type Fields<M: 'static, R: 'static, S: 'static> = Map<M, T, Self, R, S>;
    type ShapeWithDefault<S: 'static> = S;
    type New = Self;
    const COPIES: &'static Copies = Copies::in_a_map(T::COPIES);
    const REWRITES: bool = T::REWRITES;

    fn validate(&self, place: &Checked<'_>) -> Result<()> {
        validate(self.iter(), place)
    }

    fn variants(&self, found: &mut Variants) {
        for (key, value) in self {
            found.field(key, |found| value.variants(found));
        }
    }
}

#[diagnostic::do_not_recommend]
impl<T: Stored> Keyed for BTreeMap<String, T> {}

#[diagnostic::do_not_recommend]
impl<K: Keyed> Keyed for Option<K> {}

impl<S: Schema, T: Closed<S>> Closed<S> for BTreeMap<String, T> {}

impl<T: Stored, H: BuildHasher + Default + Send + Sync + 'static> Stored for HashMap<String, T, H> {
    const LINKS: LinksInside = T::LINKS.out_of_reach();
    const RULES: rule::Rules = rule::Rules::of_values::<T>();
    type Kind = <T::Kind as kind::Element>::Mapped;
    type Fields<M: 'static, R: 'static, S: 'static> = Map<M, T, Self, R, S>;
    type ShapeWithDefault<S: 'static> = S;
    type New = Self;
    const COPIES: &'static Copies = Copies::in_a_map(T::COPIES);
    const REWRITES: bool = T::REWRITES;

    fn validate(&self, place: &Checked<'_>) -> Result<()> {
        validate(self.iter(), place)
    }

    fn variants(&self, found: &mut Variants) {
        for (key, value) in self {
            found.field(key, |found| value.variants(found));
        }
    }
}

#[diagnostic::do_not_recommend]
impl<T: Stored, H: BuildHasher + Default + Send + Sync + 'static> Keyed for HashMap<String, T, H> {}

impl<S: Schema, T: Closed<S>, H> Closed<S> for HashMap<String, T, H> {}

fn validate<'a, T: Stored>(
    mut entries: impl Iterator<Item = (&'a String, &'a T)>,
    place: &Checked<'_>,
) -> Result<()> {
    entries.try_for_each(|(key, value)| {
        refuse_key(key).or_else(|error| place.refuse(error))?;
        value.validate(&place.key(key))
    })
}
