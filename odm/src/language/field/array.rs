//! Arrays: operators on the whole array, then operators on any element.

use std::{marker::PhantomData, ops::Deref};

use bson::RawBson;
use serde::{Deserialize, Deserializer, Serializer};

use super::{
    CheckedPlace, FromPath, Path, Place, Queryable, Single, VariantMap, Writable, element_filter,
    shape,
};
use crate::{
    language::query::{
        Expr, Filter, FilterNode, IntoFilter, IntoValue, Root, encode_values, field_test,
    },
    model::{
        document::{Stored, kind},
        native, validation,
    },
    schema::{EmbeddedLinks, LinkCollector, Schema, TargetsInSchema, TypeCopies},
};

/// The scope of an array element of `M`, in the closure of `any`.
#[derive(Debug)]
pub struct Elem<M>(PhantomData<fn() -> M>);

/// A place that holds an array of `T`.
///
/// The fields and operators of the elements are available by deref and match any element: `p.tags().eq("rust")`,
/// `p.comments().who().eq("jane")`. If an element field has the name of an array operator, use [`each`](Self::each). In an array
/// of arrays they match any element of any inner array.
pub struct ArrayPlace<M: 'static, T: Stored, R: 'static, S: 'static = shape::One> {
    path: Path,
    each: T::Fields<M, R, shape::Many>,
    /// Whether a document without the array reads as a document with an empty array.
    is_empty_if_missing: bool,
    of: PhantomData<fn() -> S>,
}

impl<M, T: Stored, R, S> FromPath for ArrayPlace<M, T, R, S> {
    fn from_path(path: Path) -> Self {
        let is_empty_if_missing = path.is_empty_if_missing();
        let path = path.holding_array();
        Self {
            is_empty_if_missing,
            each: FromPath::from_path(path.any_element()),
            path,
            of: PhantomData,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R, S> Place for ArrayPlace<M, T, R, S> {
    type Scope = M;
    type Value = Vec<T>;
    type Role = R;
    type Shape = S;
    fn path(&self) -> Path {
        self.path.clone()
    }
}

impl<M, T: Stored, R, S> Deref for ArrayPlace<M, T, R, S> {
    type Target = T::Fields<M, R, shape::Many>;
    fn deref(&self) -> &Self::Target {
        &self.each
    }
}

impl<M, T: Stored, R, S> ArrayPlace<M, T, R, S> {
    /// Matches if one element meets all conditions: `$elemMatch`.
    pub fn any<F>(
        &self,
        condition: impl FnOnce(T::Fields<Elem<M>, R, shape::One>) -> F,
    ) -> Filter<M>
    where
        F: IntoFilter<Elem<M>>,
        S: Queryable,
    {
        element_filter(&self.path, condition(FromPath::from_path(Path::ROOT)))
    }

    /// Matches if any element equals the value.
    pub fn contains(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        S: Queryable,
    {
        field_test(&self.path.any_element(), "$eq", value.into_value())
    }

    /// Matches if no element equals the value.
    pub fn excludes(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        S: Queryable,
    {
        field_test(&self.path.any_element(), "$ne", value.into_value())
    }

    /// Matches if every value equals some element: `$all`.
    pub fn contains_all<I>(&self, items: I) -> Filter<M>
    where
        I: IntoIterator<Item: IntoValue<T>>,
        S: Queryable,
    {
        field_test(&self.path.any_element(), "$all", encode_values(items))
    }

    /// Matches if the array has exactly these elements in this order.
    pub fn equals(&self, value: impl IntoValue<Vec<T>>) -> Filter<M>
    where
        S: Queryable,
    {
        let value = value.into_value();
        let is_empty = matches!(&value, Ok(RawBson::Array(items)) if items.is_empty());
        self.or_missing(is_empty, field_test(&self.path, "$eq", value))
    }

    /// Adds missing arrays to the condition if a missing array reads as empty.
    fn or_missing(&self, is_empty: bool, condition: Filter<M>) -> Filter<M> {
        match is_empty && self.is_empty_if_missing {
            true => condition | field_test(&self.path, "$exists", Ok(false.into())),
            false => condition,
        }
    }

    /// Matches if the array has exactly this many elements: `$size`.
    pub fn has_len(&self, len: u32) -> Filter<M>
    where
        S: Queryable,
    {
        let has_len = field_test(&self.path, "$size", Ok(i64::from(len).into()));
        self.or_missing(len == 0, has_len)
    }

    /// Matches if the document has the array, even an empty array: `$exists`.
    pub fn exists(&self) -> Filter<M>
    where
        S: Queryable,
    {
        field_test(&self.path, "$exists", Ok(true.into()))
    }

    /// Returns the number of elements, for a comparison with another field: `$size`.
    ///
    /// A missing or null array has 0 elements. [`has_len`](Self::has_len) compares with a number.
    pub fn len(&self) -> Expr<M, i64>
    where
        M: Root,
        S: Single,
    {
        Expr::array_len(&self.path)
    }

    /// Returns the element at an index, starting with 0.
    pub fn at(&self, index: usize) -> T::Fields<M, R, S> {
        FromPath::from_path(self.path.element_at(index))
    }

    /// Selects every element, for an update: `$[]`.
    pub fn all(&self) -> T::Fields<M, R, shape::Every>
    where
        S: Writable,
    {
        FromPath::from_path(self.path.every_element())
    }

    /// Selects the elements that meet the condition, for an update: `$[name]`, with an array filter.
    ///
    /// A document without such an element stays unchanged, but counts as matched. `None` as the condition selects
    /// [every](Self::all) element.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Embedded)]
    /// # struct Comment { who: String, votes: i64 }
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "posts")]
    /// # struct Post { #[serde(rename = "_id")] id: i64, #[embed(max = 100)] comments: Vec<Comment> }
    /// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
    /// # async fn example(db: odm::Database<Blog>) -> odm::Result<()> {
    /// db.update::<Post>(7).inc(|p| p.comments().matching(|c| c.who().eq("jane")).votes(), 1).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn matching<F>(
        &self,
        condition: impl FnOnce(T::Fields<Elem<M>, R, shape::One>) -> F,
    ) -> T::Fields<M, R, shape::Every>
    where
        F: IntoFilter<Elem<M>>,
        S: Writable,
    {
        let condition = condition(FromPath::from_path(Path::ROOT)).into_filter();
        FromPath::from_path(match condition.map(Filter::into_node) {
            Some(condition) => self.path.matching_elements(condition),
            None => self.path.every_element(),
        })
    }

    /// Selects the first element that meets the condition, for an update: `$`.
    ///
    /// The condition becomes part of the update's filter. A document without such an element is not changed, and
    /// [`is_applied`](crate::action::Updated::is_applied) returns false. An update of many documents changes the first such element of
    /// each matching document.
    ///
    /// One update can use one such element, any number of times. The update must not have other conditions on array elements,
    /// because MongoDB does not define which element `$` would select; such an update is an error of kind
    /// [`Invalid`](crate::ErrorKind::Invalid), and no request is sent. Put further requirements into the condition of the
    /// element. If the update grows an array with a `max` inside the element, every element that meets the condition must have
    /// room.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Embedded)]
    /// # struct Comment { who: String, votes: i64, hidden: bool }
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "posts")]
    /// # struct Post { #[serde(rename = "_id")] id: i64, #[embed(max = 100)] comments: Vec<Comment> }
    /// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
    /// # async fn example(db: odm::Database<Blog>) -> odm::Result<()> {
    /// let hidden = db
    ///     .update::<Post>(7)
    ///     .set(|p| p.comments().first_matching(|c| c.votes().lt(0) & c.hidden().eq(false)).hidden(), true)
    ///     .await?
    ///     .is_applied();
    /// # let _ = hidden;
    /// # Ok(())
    /// # }
    /// ```
    pub fn first_matching<F>(
        &self,
        condition: impl FnOnce(T::Fields<Elem<M>, R, shape::One>) -> F,
    ) -> T::Fields<M, R, shape::First>
    where
        F: IntoFilter<Elem<M>>,
        S: Single,
    {
        let condition = condition(FromPath::from_path(Path::ROOT)).into_filter();
        let condition = condition.map_or(FilterNode::All, Filter::into_node);
        FromPath::from_path(self.path.first_matching_element(condition))
    }

    /// Returns the fields of any element, for names that an array operator has too. As the key of
    /// [`group_by`](crate::action::Find::group_by), each element is in a group.
    pub fn each(&self) -> T::Fields<M, R, shape::Many> {
        FromPath::from_path(self.path.any_element())
    }
}

impl<T: Stored> Stored for Vec<T> {
    const LINKS: EmbeddedLinks = T::LINKS.in_array();
    const RULES: validation::Rules = validation::Rules::of_elements::<T>();
    type Kind = <T::Kind as kind::Element>::Many;
    type Fields<M: 'static, R: 'static, S: 'static> = ArrayPlace<M, T, R, S>;
    type ShapeWithDefault<S: 'static> = S;
    type New = Vec<T::New>;
    const COPIES: &'static TypeCopies = T::COPIES;
    const IS_ARRAY: bool = true;
    const HAS_SERDE_DEFAULTS: bool = T::HAS_SERDE_DEFAULTS;
    const ROUNDS_VALUES: bool = T::ROUNDS_VALUES;

    fn serialize_stored<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(native::AsStored))
    }

    fn deserialize_stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = Vec::<native::FromStored<T>>::deserialize(deserializer)?;
        Ok(values.into_iter().map(|value| value.0).collect())
    }

    fn validate(&self, place: &CheckedPlace<'_>) -> crate::Result<()> {
        let path = place.path();
        self.iter()
            .enumerate()
            .try_for_each(|(i, value)| value.validate(place).map_err(|e| with_index(e, path, i)))
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn links(links: &mut LinkCollector) {
        links.visit_elements(T::links);
    }

    fn variants(&self, variants: &mut VariantMap) {
        for (i, value) in self.iter().enumerate() {
            variants.element(i, |variants| value.variants(variants));
        }
    }
}

impl<S: Schema, T: TargetsInSchema<S>> TargetsInSchema<S> for Vec<T> {}

/// Adds an index to the path of an error. The path is built only for errors, to keep validation cheap.
fn with_index(error: crate::Error, path: &Path, index: usize) -> crate::Error {
    let subpath = error.path().unwrap_or_default();
    let array_path = path.to_string();
    let rest = subpath
        .strip_prefix(array_path.as_str())
        .unwrap_or(subpath)
        .to_owned();
    error.with_path(format!("{array_path}.{index}{rest}"))
}
