//! Options: null or missing, or what is inside.

use std::{marker::PhantomData, ops::Deref};

use serde::{Deserialize, Deserializer, Serializer};

use super::{Checked, FromPath, Path, Place, Queryable, Variants, shape};
use crate::{
    document::Stored,
    native,
    query::{Filter, IntoValue, test},
    rule,
    schema::{Closed, Copies, LinksInside, LinksWalk, Schema},
};

/// A place that may hold a `T`.
///
/// The fields and operators of `T` follow by deref.
pub struct Maybe<M: 'static, T: Stored, R: 'static, S: 'static = shape::One> {
    path: Path,
    some: T::Fields<M, R, S>,
    of: PhantomData<fn() -> S>,
}

impl<M, T: Stored, R, S> FromPath for Maybe<M, T, R, S> {
    fn from_path(path: Path) -> Self {
        Self {
            some: FromPath::from_path(path.clone().optional(T::IS_ARRAY)),
            path,
            of: PhantomData,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R, S> Place for Maybe<M, T, R, S> {
    type Scope = M;
    type Value = Option<T>;
    type Role = R;
    type Shape = S;
    fn path(&self) -> Path {
        self.path.clone()
    }
}

impl<M, T: Stored, R, S> Deref for Maybe<M, T, R, S> {
    type Target = T::Fields<M, R, S>;
    fn deref(&self) -> &Self::Target {
        &self.some
    }
}

impl<M, T: Stored, R, S> Maybe<M, T, R, S> {
    /// Equal to the value; `None` asks for null or missing.
    pub fn eq(&self, value: impl IntoValue<Option<T>>) -> Filter<M>
    where
        S: Queryable,
    {
        test(&self.path, "$eq", value.into_value())
    }

    /// Not equal to the value; `None` asks for neither null nor missing.
    pub fn ne(&self, value: impl IntoValue<Option<T>>) -> Filter<M>
    where
        S: Queryable,
    {
        test(&self.path, "$ne", value.into_value())
    }

    /// Null or missing: what is read as `None`.
    pub fn is_none(&self) -> Filter<M>
    where
        S: Queryable,
    {
        test(&self.path, "$eq", Ok(bson::RawBson::Null))
    }

    /// Neither null nor missing: what is read as `Some`.
    pub fn is_some(&self) -> Filter<M>
    where
        S: Queryable,
    {
        test(&self.path, "$ne", Ok(bson::RawBson::Null))
    }
}

impl<T: Stored> Stored for Option<T> {
    const LINKS: LinksInside = T::LINKS;
    const RULES: rule::Rules = T::RULES;
    type Kind = T::Kind;
    type Fields<M: 'static, R: 'static, S: 'static> = Maybe<M, T, R, S>;
    type ShapeWithDefault<S: 'static> = S;
    type New = Option<T::New>;
    const COPIES: &'static Copies = T::COPIES;
    const IS_ARRAY: bool = T::IS_ARRAY;
    const REWRITES: bool = T::REWRITES;
    const ROUNDS: bool = T::ROUNDS;
    const MAY_BE_NONE: bool = true;

    fn serialize_stored<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => serializer.serialize_some(&native::Stored(value)),
            None => serializer.serialize_none(),
        }
    }

    fn deserialize_stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::<native::Owned<T>>::deserialize(deserializer)?;
        Ok(value.map(|value| value.0))
    }

    fn validate(&self, place: &Checked<'_>) -> crate::Result<()> {
        self.as_ref().map_or(Ok(()), |value| value.validate(place))
    }

    fn count(&self) -> usize {
        self.as_ref().map_or(0, T::count)
    }

    fn links(found: &mut LinksWalk) {
        T::links(found);
    }

    fn variants(&self, found: &mut Variants) {
        if let Some(value) = self {
            value.variants(found);
        }
    }
}

impl<S: Schema, T: Closed<S>> Closed<S> for Option<T> {}
