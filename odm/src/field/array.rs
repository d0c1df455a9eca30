//! Arrays: their own operators first, then those of any of their elements.

use std::{marker::PhantomData, ops::Deref};

use bson::RawBson;
use serde::{Deserialize, Deserializer, Serializer};

use super::{
    Checked, FromPath, Path, Place, Queryable, Single, Variants, Writable, element, shape,
};
use crate::{
    document::{Stored, kind},
    native,
    query::{Expr, Filter, IntoFilter, IntoValue, Node, Root, test, values},
    rule,
    schema::{Closed, Copies, LinksInside, LinksWalk, Schema},
};

/// The inside of an array element of `M`: what `any` speaks about.
#[derive(Debug)]
pub struct Elem<M>(PhantomData<fn() -> M>);

/// A place that holds an array of `T`.
///
/// The elements' own fields and operators follow by deref and speak about any element: `p.tags().eq("rust")`,
/// `p.comments().who().eq("jane")`. Where one has the name of an operator here, [`each`](Self::each) comes before it. Of an
/// array inside an array they speak about any element of any of the inner ones.
pub struct Array<M: 'static, T: Stored, R: 'static, S: 'static = shape::One> {
    path: Path,
    each: T::Fields<M, R, shape::Many>,
    /// Whether a document without the array reads as one in which it is empty.
    is_empty_if_missing: bool,
    of: PhantomData<fn() -> S>,
}

impl<M, T: Stored, R, S> FromPath for Array<M, T, R, S> {
    fn from_path(path: Path) -> Self {
        let is_empty_if_missing = path.is_empty_if_missing();
        let path = path.array();
        Self {
            is_empty_if_missing,
            each: FromPath::from_path(path.each()),
            path,
            of: PhantomData,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R, S> Place for Array<M, T, R, S> {
    type Scope = M;
    type Value = Vec<T>;
    type Role = R;
    type Shape = S;
    fn path(&self) -> Path {
        self.path.clone()
    }
}

impl<M, T: Stored, R, S> Deref for Array<M, T, R, S> {
    type Target = T::Fields<M, R, shape::Many>;
    fn deref(&self) -> &Self::Target {
        &self.each
    }
}

impl<M, T: Stored, R, S> Array<M, T, R, S> {
    /// One and the same element meets all conditions: `$elemMatch`.
    pub fn any<F>(
        &self,
        condition: impl FnOnce(T::Fields<Elem<M>, R, shape::One>) -> F,
    ) -> Filter<M>
    where
        F: IntoFilter<Elem<M>>,
        S: Queryable,
    {
        element(&self.path, condition(FromPath::from_path(Path::ROOT)))
    }

    /// One of the elements equals the value.
    pub fn contains(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        S: Queryable,
    {
        test(&self.path.each(), "$eq", value.into_value())
    }

    /// None of the elements equals the value.
    pub fn excludes(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        S: Queryable,
    {
        test(&self.path.each(), "$ne", value.into_value())
    }

    /// Each of the values equals one of the elements: `$all`.
    pub fn contains_all<I>(&self, of: I) -> Filter<M>
    where
        I: IntoIterator<Item: IntoValue<T>>,
        S: Queryable,
    {
        test(&self.path.each(), "$all", values(of))
    }

    /// The array has these elements in this order and no others.
    pub fn equals(&self, value: impl IntoValue<Vec<T>>) -> Filter<M>
    where
        S: Queryable,
    {
        let value = value.into_value();
        let is_empty = matches!(&value, Ok(RawBson::Array(of)) if of.is_empty());
        self.or_missing(is_empty, test(&self.path, "$eq", value))
    }

    /// The condition, or that the array is missing and reads as an empty one.
    fn or_missing(&self, is_empty: bool, condition: Filter<M>) -> Filter<M> {
        match is_empty && self.is_empty_if_missing {
            true => condition | test(&self.path, "$exists", Ok(false.into())),
            false => condition,
        }
    }

    /// The array has exactly this many elements: `$size`.
    pub fn has_len(&self, len: u32) -> Filter<M>
    where
        S: Queryable,
    {
        let has_len = test(&self.path, "$size", Ok(i64::from(len).into()));
        self.or_missing(len == 0, has_len)
    }

    /// The document has the array, if only an empty one: `$exists`.
    pub fn exists(&self) -> Filter<M>
    where
        S: Queryable,
    {
        test(&self.path, "$exists", Ok(true.into()))
    }

    /// How many elements the array has, for a comparison with another field: `$size`.
    ///
    /// An array that is missing or null has none. [`has_len`](Self::has_len) compares with a number.
    pub fn len(&self) -> Expr<M, i64>
    where
        M: Root,
        S: Single,
    {
        Expr::len(&self.path)
    }

    /// The element at an index, counted from 0.
    pub fn at(&self, index: usize) -> T::Fields<M, R, S> {
        FromPath::from_path(self.path.at(index))
    }

    /// Every element, for an update: `$[]`.
    pub fn all(&self) -> T::Fields<M, R, shape::Every>
    where
        S: Writable,
    {
        FromPath::from_path(self.path.every())
    }

    /// The elements that meet the condition, for an update: `$[name]`, with an array filter.
    ///
    /// A document without such an element stays as it is, though the update counts it as matched. `None` as the
    /// condition means [every](Self::all) element.
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
            Some(condition) => self.path.matching(condition),
            None => self.path.every(),
        })
    }

    /// The first element that meets the condition, for an update: `$`.
    ///
    /// The condition becomes one of the update: a document without such an element is not changed, and
    /// [`applied`](crate::action::Updated::applied) tells so; an update of many documents changes the first such
    /// element of each that has one.
    ///
    /// One update can name one such element, as often as it likes, and has no other condition that an element of an array
    /// meets, because MongoDB does not say which of the two `$` would be: that is an error of kind
    /// [`Invalid`](crate::ErrorKind::Invalid), and nothing is sent. Say more about the element in its own condition. Where
    /// an array with a `max` inside the element grows, there must be room in every element that meets the condition.
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
    ///     .applied();
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
        let condition = condition.map_or(Node::All, Filter::into_node);
        FromPath::from_path(self.path.first(condition))
    }

    /// Any element's own fields, where an operator of the array has the same name.
    pub fn each(&self) -> &T::Fields<M, R, shape::Many> {
        &self.each
    }
}

impl<T: Stored> Stored for Vec<T> {
    const LINKS: LinksInside = T::LINKS.in_array();
    const RULES: rule::Rules = rule::Rules::of_elements::<T>();
    type Kind = <T::Kind as kind::Element>::Many;
    type Fields<M: 'static, R: 'static, S: 'static> = Array<M, T, R, S>;
    type ShapeWithDefault<S: 'static> = S;
    type New = Vec<T::New>;
    const COPIES: &'static Copies = T::COPIES;
    const IS_ARRAY: bool = true;
    const REWRITES: bool = T::REWRITES;
    const ROUNDS: bool = T::ROUNDS;

    fn serialize_stored<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(native::Stored))
    }

    fn deserialize_stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = Vec::<native::Owned<T>>::deserialize(deserializer)?;
        Ok(values.into_iter().map(|value| value.0).collect())
    }

    fn validate(&self, place: &Checked<'_>) -> crate::Result<()> {
        let path = place.path();
        self.iter()
            .enumerate()
            .try_for_each(|(i, value)| value.validate(place).map_err(|e| at_index(e, path, i)))
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn links(found: &mut LinksWalk) {
        found.elements(T::links);
    }

    fn variants(&self, found: &mut Variants) {
        for (i, value) in self.iter().enumerate() {
            found.element(i, |found| value.variants(found));
        }
    }
}

impl<S: Schema, T: Closed<S>> Closed<S> for Vec<T> {}

/// The path is made longer only where there is something to report.
fn at_index(error: crate::Error, path: &Path, index: usize) -> crate::Error {
    let below = error.path().unwrap_or_default();
    let own = path.to_string();
    let rest = below.strip_prefix(own.as_str()).unwrap_or(below).to_owned();
    error.with_path(format!("{own}.{index}{rest}"))
}
