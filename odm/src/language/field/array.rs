//! Arrays: operators on the whole array, then operators on any element.

use std::{
    collections::{BTreeSet, HashSet},
    hash::{BuildHasher, Hash},
    marker::PhantomData,
    ops::Deref,
};

use bson::RawBson;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};

use super::{
    CheckedPlace, FromPath, Path, Place, Queryable, Single, VariantMap, Writable, element_filter,
    shape,
};
use crate::{
    Error, ErrorKind,
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

/// A place that holds an array of `T`: a `Vec`, a set or a `[T; N]`, which is the type `V`.
///
/// The fields and operators of the elements are available by deref and match any element: `p.tags().eq("rust")`,
/// `p.comments().who().eq("jane")`. If an element field has the name of an array operator, use [`each`](Self::each). In an array
/// of arrays they match any element of any inner array.
pub struct ArrayPlace<M: 'static, T: Stored, R: 'static, S: 'static = shape::One, V = Vec<T>> {
    path: Path,
    each: T::Fields<M, R, shape::Many>,
    /// Whether a document without the array reads as a document with an empty array.
    is_empty_if_missing: bool,
    of: PhantomData<fn() -> (S, V)>,
}

impl<M, T: Stored, R, S, V> FromPath for ArrayPlace<M, T, R, S, V> {
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
impl<M, T: Stored, R, S, V: Stored> Place for ArrayPlace<M, T, R, S, V> {
    type Scope = M;
    type Value = V;
    type Role = R;
    type Shape = S;
    fn path(&self) -> Path {
        self.path.clone()
    }
}

impl<M, T: Stored, R, S, V> Deref for ArrayPlace<M, T, R, S, V> {
    type Target = T::Fields<M, R, shape::Many>;
    fn deref(&self) -> &Self::Target {
        &self.each
    }
}

impl<M, T: Stored, R, S, V: Stored> ArrayPlace<M, T, R, S, V> {
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

    /// Matches if the array has exactly these elements in this order. A set matches in any order: `$all` and `$size`.
    pub fn equals(&self, value: impl IntoValue<V>) -> Filter<M>
    where
        S: Queryable,
    {
        let value = value.into_value();
        let len = match &value {
            Ok(RawBson::Array(items)) => items.into_iter().count(),
            _ => 0,
        };
        let equals = match V::IS_SET {
            true if len > 0 && self.path.traversed_arrays().next().is_some() => {
                // Different elements of the outer array could meet the two tests.
                let message = "`equals` cannot compare a set inside of an array: use `any` of the array, with `equals` in the closure";
                let error = Error::new(ErrorKind::Unsupported, message);
                Filter::from_node(FilterNode::Invalid(error.with_path(self.path.to_string())))
            }
            true if len > 0 => {
                let has_len = field_test(&self.path, "$size", Ok(int_of(len)));
                field_test(&self.path.any_element(), "$all", value) & has_len
            }
            _ => field_test(&self.path, "$eq", value),
        };
        self.or_missing(len == 0, equals)
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
    ///
    /// An operation with an index beyond the end of a `[T; N]` returns an error of kind [`Invalid`](crate::ErrorKind::Invalid).
    pub fn at(&self, index: usize) -> T::Fields<M, R, S>
    where
        V: Sequence,
    {
        let path = self.path.element_at(index);
        FromPath::from_path(match V::FIXED_LEN {
            Some(len) if index >= len => {
                let message = format!(
                    "the array has {len} elements, and no index {index}: use a smaller index"
                );
                let error = Error::new(ErrorKind::Invalid, message);
                path.with_error(error.with_path(self.path.to_string()))
            }
            _ => path,
        })
    }

    /// Selects every element, for an update: `$[]`.
    pub fn all(&self) -> T::Fields<M, R, shape::Every>
    where
        S: Writable,
        V: Sequence,
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
        V: Sequence,
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
        V: Sequence,
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

/// Arrays with elements at positions, which an update can change in place: `Vec` and `[T; N]`.
#[diagnostic::on_unimplemented(
    message = "the elements of a `{Self}` have no positions",
    label = "a set, whose elements no update changes in place",
    note = "change a set by `add_to_set`, `pull` and `pull_where`, or as a whole by `set`; conditions on the elements are \
         `contains`, `any` and the operators of an element"
)]
pub trait Sequence {
    /// The number of elements, if the type determines the number.
    #[doc(hidden)]
    const FIXED_LEN: Option<usize> = None;
}

#[diagnostic::do_not_recommend]
impl<T> Sequence for Vec<T> {}

#[diagnostic::do_not_recommend]
impl<T, const N: usize> Sequence for [T; N] {
    const FIXED_LEN: Option<usize> = Some(N);
}

/// Implements [`Stored`] for arrays with elements of the type `T`. `$from_vec` makes the array from a `Vec`.
macro_rules! arrays {
    ($(
        [$($parameters:tt)*] $array:ty
        where ($($bounds:tt)*)
        { $($items:tt)* }
        $from_vec:expr;
    )*) => {$(
        impl<T: Stored, $($parameters)*> Stored for $array
        where
            $($bounds)*
        {
            $($items)*
            const RULES: validation::Rules = validation::Rules::of_elements::<T>();
            type Fields<M: 'static, R: 'static, S: 'static> = ArrayPlace<M, T, R, S, Self>;
            const IS_ARRAY: bool = true;
            const HAS_SERDE_DEFAULTS: bool = T::HAS_SERDE_DEFAULTS;
            const ROUNDS_VALUES: bool = T::ROUNDS_VALUES;

            fn serialize_stored<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.iter().map(native::AsStored))
            }

            fn deserialize_stored<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                let values = Vec::<native::FromStored<T>>::deserialize(deserializer)?;
                let values = values.into_iter().map(|value| value.0).collect();
                let from_vec: fn(Vec<T>) -> Result<Self, D::Error> = $from_vec;
                from_vec(values)
            }

            fn validate(&self, place: &CheckedPlace<'_>) -> crate::Result<()> {
                let path = place.path();
                self.iter()
                    .enumerate()
                    .try_for_each(|(i, value)| value.validate(place).map_err(|e| with_index(e, path, i)))
            }

            fn count(&self) -> usize {
                self.iter().len()
            }

            fn variants(&self, variants: &mut VariantMap) {
                // The order of a set differs from the order of the stored array, so a save cannot pair the elements.
                if Self::IS_SET {
                    variants.whole();
                }
                for (i, value) in self.iter().enumerate() {
                    variants.element(i, |variants| value.variants(variants));
                }
            }
        }
    )*};
}

arrays! {
    [] Vec<T> where () {
        const LINKS: EmbeddedLinks = T::LINKS.in_array();
        const COPIES: &'static TypeCopies = T::COPIES;
        type Kind = <T::Kind as kind::Element>::Many;
        type ShapeWithDefault<S: 'static> = S;
        type New = Vec<T::New>;

        fn links(links: &mut LinkCollector) {
            links.visit_elements(T::links);
        }
    }
    Ok;

    // The framework never changes elements in place, because two elements could become equal.
    [] BTreeSet<T> where (T: Ord) {
        const LINKS: EmbeddedLinks = T::LINKS.as_unreachable();
        const COPIES: &'static TypeCopies = TypeCopies::in_map(T::COPIES);
        const IS_SET: bool = true;
        type Kind = <T::Kind as kind::Element>::Many;
        type ShapeWithDefault<S: 'static> = S;
        type New = Self;
    }
    |values| Ok(values.into_iter().collect());

    [H: BuildHasher + Default + Send + Sync + 'static] HashSet<T, H> where (T: Eq + Hash) {
        const LINKS: EmbeddedLinks = T::LINKS.as_unreachable();
        const COPIES: &'static TypeCopies = TypeCopies::in_map(T::COPIES);
        const IS_SET: bool = true;
        type Kind = <T::Kind as kind::Element>::Many;
        type ShapeWithDefault<S: 'static> = S;
        type New = Self;
    }
    |values| Ok(values.into_iter().collect());

    // serde implements its traits for each length up to 32.
    [const N: usize] [T; N] where ([T; N]: Serialize + DeserializeOwned) {
        const LINKS: EmbeddedLinks = T::LINKS.as_unreachable();
        const COPIES: &'static TypeCopies = TypeCopies::in_map(T::COPIES);
        type Kind = <T::Kind as kind::Element>::Fixed;
        // The database does not see the default elements.
        type ShapeWithDefault<S: 'static> = shape::Defaulted<S>;
        type New = Self;
    }
    |values| {
        let len = values.len();
        values.try_into().map_err(|_| serde::de::Error::invalid_length(len, &format!("{N} elements").as_str()))
    };
}

impl<S: Schema, T: TargetsInSchema<S>> TargetsInSchema<S> for Vec<T> {}
impl<S: Schema, T: TargetsInSchema<S>> TargetsInSchema<S> for BTreeSet<T> {}
impl<S: Schema, T: TargetsInSchema<S>, H> TargetsInSchema<S> for HashSet<T, H> {}
impl<S: Schema, T: TargetsInSchema<S>, const N: usize> TargetsInSchema<S> for [T; N] {}

/// Returns a length as a stored number.
fn int_of(len: usize) -> RawBson {
    i64::try_from(len).unwrap_or(i64::MAX).into()
}

/// Adds an index to the path of an error. The path is built only for errors, to keep validation cheap.
fn with_index(error: Error, path: &Path, index: usize) -> Error {
    let subpath = error.path().unwrap_or_default();
    let array_path = path.to_string();
    let rest = subpath
        .strip_prefix(array_path.as_str())
        .unwrap_or(subpath)
        .to_owned();
    error.with_path(format!("{array_path}.{index}{rest}"))
}
