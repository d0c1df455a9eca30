//! Options: operators on null or missing values.

use std::{marker::PhantomData, ops::Deref};

use serde::{Deserialize, Deserializer, Serializer};

use super::{CheckedPlace, FromPath, Path, Place, Queryable, VariantMap, shape};
use crate::{
    language::query::{Filter, IntoValue, field_test},
    model::{document::Stored, native, validation},
    schema::{EmbeddedLinks, LinkCollector, Schema, TargetsInSchema, TypeCopies},
};

/// An optional place: a field of the type `Option<T>`.
///
/// The fields and operators of `T` are available by deref.
pub struct OptionalPlace<M: 'static, T: Stored, R: 'static, S: 'static = shape::One> {
    path: Path,
    some: T::Fields<M, R, S>,
    of: PhantomData<fn() -> S>,
}

impl<M, T: Stored, R, S> FromPath for OptionalPlace<M, T, R, S> {
    fn from_path(path: Path) -> Self {
        Self {
            some: FromPath::from_path(path.clone().mark_nullable(T::IS_ARRAY)),
            path,
            of: PhantomData,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R, S> Place for OptionalPlace<M, T, R, S> {
    type Scope = M;
    type Value = Option<T>;
    type Role = R;
    type Shape = S;
    fn path(&self) -> Path {
        self.path.clone()
    }
}

impl<M, T: Stored, R, S> Deref for OptionalPlace<M, T, R, S> {
    type Target = T::Fields<M, R, S>;
    fn deref(&self) -> &Self::Target {
        &self.some
    }
}

impl<M, T: Stored, R, S> OptionalPlace<M, T, R, S> {
    /// Matches if the field equals the value; `None` matches null or missing.
    pub fn eq(&self, value: impl IntoValue<Option<T>>) -> Filter<M>
    where
        S: Queryable,
    {
        field_test(&self.path, "$eq", value.into_value())
    }

    /// Matches if the field differs from the value; `None` matches present values.
    pub fn ne(&self, value: impl IntoValue<Option<T>>) -> Filter<M>
    where
        S: Queryable,
    {
        field_test(&self.path, "$ne", value.into_value())
    }

    /// Matches null or missing, which reads as `None`.
    pub fn is_none(&self) -> Filter<M>
    where
        S: Queryable,
    {
        field_test(&self.path, "$eq", Ok(bson::RawBson::Null))
    }

    /// Matches a present value, which reads as `Some`.
    pub fn is_some(&self) -> Filter<M>
    where
        S: Queryable,
    {
        field_test(&self.path, "$ne", Ok(bson::RawBson::Null))
    }
}

impl<T: Stored> Stored for Option<T> {
    const LINKS: EmbeddedLinks = T::LINKS;
    const RULES: validation::Rules = T::RULES;
    type Kind = T::Kind;
    type Fields<M: 'static, R: 'static, S: 'static> = OptionalPlace<M, T, R, S>;
    type ShapeWithDefault<S: 'static> = S;
    type New = Option<T::New>;
    const COPIES: &'static TypeCopies = T::COPIES;
    const IS_ARRAY: bool = T::IS_ARRAY;
    const HAS_SERDE_DEFAULTS: bool = T::HAS_SERDE_DEFAULTS;
    const ROUNDS_VALUES: bool = T::ROUNDS_VALUES;
    const MAY_BE_NONE: bool = true;

    fn serialize_stored<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => serializer.serialize_some(&native::AsStored(value)),
            None => serializer.serialize_none(),
        }
    }

    fn deserialize_stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::<native::FromStored<T>>::deserialize(deserializer)?;
        Ok(value.map(|value| value.0))
    }

    fn validate(&self, place: &CheckedPlace<'_>) -> crate::Result<()> {
        self.as_ref().map_or(Ok(()), |value| value.validate(place))
    }

    fn count(&self) -> usize {
        self.as_ref().map_or(0, T::count)
    }

    fn links(links: &mut LinkCollector) {
        T::links(links);
    }

    fn variants(&self, variants: &mut VariantMap) {
        if let Some(value) = self {
            value.variants(variants);
        }
    }
}

impl<S: Schema, T: TargetsInSchema<S>> TargetsInSchema<S> for Option<T> {}
