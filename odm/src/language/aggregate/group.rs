//! Groups of documents, and their aggregates.

use std::marker::PhantomData;

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::{GroupedPlace, NumericResult, Summable};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::Direction,
    language::{
        field::{Ordered, Path, Place, SameScope},
        query::{
            Brackets, Filter, IntoValue, Sort, append_field, field_test, single_field_document,
        },
    },
    model::{
        decode,
        document::{Document, Stored},
    },
};

/// The documents of a group, for [`GroupBy::select`](crate::action::GroupBy::select). The methods return aggregates.
#[derive(Debug)]
pub struct Group<T>(PhantomData<fn() -> T>);

impl<T: Document> Group<T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }

    /// Counts the documents of the group. In a group by the elements of an array, counts the elements.
    #[must_use]
    pub fn count(&self) -> Aggregate<T, u64> {
        let accumulator = single_field_document("$sum", 1);
        Aggregate::new(accumulator, |value| value.map_or(Ok(0), u64::from_bson))
    }

    /// Sums a number field. Null and missing values count as 0, and the sum of no documents is 0.
    pub fn sum<K>(
        &self,
        field: impl FnOnce(T::Fields) -> K,
    ) -> Aggregate<T, <K::Inner as Summable>::Sum>
    where
        K: GroupedPlace<Scope: SameScope<T>, Inner: Summable>,
    {
        Aggregate::of_field("$sum", &field(T::fields()), |value| {
            NumericResult::from_bson(value.unwrap_or(RawBsonRef::Int32(0)))
        })
    }

    /// Averages a number field. Null and missing values do not count; without any value the average is `None`.
    pub fn avg<K>(
        &self,
        field: impl FnOnce(T::Fields) -> K,
    ) -> Aggregate<T, Option<<K::Inner as Summable>::Mean>>
    where
        K: GroupedPlace<Scope: SameScope<T>, Inner: Summable>,
    {
        Aggregate::of_field("$avg", &field(T::fields()), |value| {
            value.map(NumericResult::from_bson).transpose()
        })
    }

    /// Computes the least value of a field, or `None` without any value. Null and missing values do not count.
    pub fn min<K>(&self, field: impl FnOnce(T::Fields) -> K) -> Aggregate<T, Option<K::Inner>>
    where
        K: GroupedPlace<Scope: SameScope<T>, Inner: Ordered>,
    {
        Aggregate::of_field("$min", &field(T::fields()), decode_stored)
    }

    /// Computes the greatest value of a field, or `None` without any value. Null and missing values do not count.
    pub fn max<K>(&self, field: impl FnOnce(T::Fields) -> K) -> Aggregate<T, Option<K::Inner>>
    where
        K: GroupedPlace<Scope: SameScope<T>, Inner: Ordered>,
    {
        Aggregate::of_field("$max", &field(T::fields()), decode_stored)
    }
}

fn decode_stored<V: Stored>(value: Option<RawBsonRef<'_>>) -> Result<Option<V>> {
    let value = value.map(RawBson::from);
    value.as_ref().map(decode::decode_value).transpose()
}

/// Decodes the value of an aggregate; `None` stands for null.
type DecodeValue<V> = fn(Option<RawBsonRef<'_>>) -> Result<V>;

/// An aggregate over the documents of a group, with the result type `V`.
pub struct Aggregate<T, V> {
    /// The accumulator: `{$sum: "$votes"}`.
    calculate: Result<RawDocumentBuf>,
    /// The aggregated field, if any.
    path: Option<Path>,
    /// The position among the aggregates of the query.
    column: usize,
    read: DecodeValue<V>,
    of: PhantomData<fn() -> T>,
}

impl<T, V> Aggregate<T, V> {
    fn new(calculate: Result<RawDocumentBuf>, read: DecodeValue<V>) -> Self {
        Self {
            calculate,
            path: None,
            column: 0,
            read,
            of: PhantomData,
        }
    }

    fn of_field(operator: &str, place: &impl Place, read: DecodeValue<V>) -> Self {
        let path = place.path();
        let calculate = path
            .to_unwound_expression()
            .and_then(|field| single_field_document(operator, field));
        Self {
            path: Some(path),
            ..Self::new(calculate, read)
        }
    }

    /// Orders groups by this aggregate, smallest first.
    pub fn asc(&self) -> Sort<Groups<T>> {
        order_groups(self.column_name(), Direction::Ascending)
    }

    /// Orders groups by this aggregate, greatest first.
    pub fn desc(&self) -> Sort<Groups<T>> {
        order_groups(self.column_name(), Direction::Descending)
    }

    /// Keeps the groups in which the aggregate equals the value.
    pub fn eq(&self, value: impl IntoValue<V>) -> Filter<Groups<T>>
    where
        V: Stored,
    {
        self.having("$eq", value.into_value())
    }

    /// Keeps the groups in which the aggregate is greater than the value.
    pub fn gt(&self, value: impl IntoValue<V>) -> Filter<Groups<T>>
    where
        V: Stored + Ordered,
    {
        self.having("$gt", value.into_value())
    }

    /// Keeps the groups in which the aggregate is greater than the value or equal.
    pub fn gte(&self, value: impl IntoValue<V>) -> Filter<Groups<T>>
    where
        V: Stored + Ordered,
    {
        self.having("$gte", value.into_value())
    }

    /// Keeps the groups in which the aggregate is less than the value.
    pub fn lt(&self, value: impl IntoValue<V>) -> Filter<Groups<T>>
    where
        V: Stored + Ordered,
    {
        self.having("$lt", value.into_value())
    }

    /// Keeps the groups in which the aggregate is less than the value or equal.
    pub fn lte(&self, value: impl IntoValue<V>) -> Filter<Groups<T>>
    where
        V: Stored + Ordered,
    {
        self.having("$lte", value.into_value())
    }

    fn having(&self, operator: &'static str, value: Result<RawBson>) -> Filter<Groups<T>> {
        field_test(
            &Path::ROOT.append_name(&self.column_name()),
            operator,
            value,
        )
    }

    fn column_name(&self) -> String {
        format!("value{}", self.column)
    }
}

/// Marks sort keys of groups of documents of the model `T`.
#[derive(Debug)]
pub struct Groups<T>(PhantomData<fn() -> T>);

/// The key of a group, as a sort key.
#[derive(Debug)]
pub struct GroupKeyOrder<T>(PhantomData<fn() -> T>);

impl<T> GroupKeyOrder<T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }

    /// Orders groups by their key, smallest first.
    pub fn asc(&self) -> Sort<Groups<T>> {
        order_groups("_id".to_owned(), Direction::Ascending)
    }

    /// Orders groups by their key, greatest first.
    pub fn desc(&self) -> Sort<Groups<T>> {
        order_groups("_id".to_owned(), Direction::Descending)
    }
}

fn order_groups<T>(name: String, direction: Direction) -> Sort<Groups<T>> {
    Sort::new(Path::ROOT.append_name(&name), direction, Brackets::ANY)
}

/// The aggregates of each group: an [`Aggregate`], or a tuple of aggregates.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an aggregate of a group of `{T}`",
    label = "expected an aggregate of `{T}`, or a tuple of up to six",
    note = "return the aggregates: `|g| (g.count(), g.sum(|p| p.votes()))`"
)]
pub trait Aggregates<T>: Send + Sync + 'static {
    /// The type of the results.
    type Values: Send + 'static;

    /// Assigns positions to the aggregates, from `first` on.
    #[doc(hidden)]
    fn assign_columns(&mut self, first: usize);

    /// Appends the aggregates to the `$group` stage.
    #[doc(hidden)]
    fn append_to(&self, stage: &mut RawDocumentBuf) -> Result<()>;

    /// Ensures that the stages before the group unwind each array on the paths of the aggregates.
    #[doc(hidden)]
    fn ensure_unwound(&self, arrays: &[String]) -> Result<()>;

    /// Decodes the results of a group.
    #[doc(hidden)]
    fn decode_group(&self, group: &RawDocument) -> Result<Self::Values>;
}

#[diagnostic::do_not_recommend]
impl<T: 'static, V: Send + 'static> Aggregates<T> for Aggregate<T, V> {
    type Values = V;

    fn assign_columns(&mut self, first: usize) {
        self.column = first;
    }

    fn append_to(&self, stage: &mut RawDocumentBuf) -> Result<()> {
        append_field(stage, &self.column_name(), self.calculate.clone()?)
    }

    fn ensure_unwound(&self, arrays: &[String]) -> Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        if nested_arrays(path).all(|(array, nesting)| has_array(arrays, array, nesting)) {
            return Ok(());
        }
        let message = "the aggregate is over the elements of an array that is not part of the key of the group: group by a field of \
                       the elements, or add the key `p.array().each()`";
        Err(Error::new(ErrorKind::Invalid, message).with_path(path.to_string()))
    }

    fn decode_group(&self, group: &RawDocument) -> Result<V> {
        let value = group.get(self.column_name()).map_err(malformed_group)?;
        let read = (self.read)(value.filter(|value| *value != RawBsonRef::Null));
        read.map_err(|error| with_field_path(error, self.path.as_ref()))
    }
}

macro_rules! aggregates {
    ($($name:ident $at:literal $value:ident),+) => {
        #[diagnostic::do_not_recommend]
        impl<T: 'static, $($value: Send + 'static),+> Aggregates<T> for ($(Aggregate<T, $value>,)+) {
            type Values = ($($value,)+);

            fn assign_columns(&mut self, first: usize) {
                let ($($name,)+) = self;
                $($name.assign_columns(first + $at);)+
            }

            fn append_to(&self, stage: &mut RawDocumentBuf) -> Result<()> {
                let ($($name,)+) = self;
                $($name.append_to(stage)?;)+
                Ok(())
            }

            fn ensure_unwound(&self, arrays: &[String]) -> Result<()> {
                let ($($name,)+) = self;
                $($name.ensure_unwound(arrays)?;)+
                Ok(())
            }

            fn decode_group(&self, group: &RawDocument) -> Result<Self::Values> {
                let ($($name,)+) = self;
                Ok(($($name.decode_group(group)?,)+))
            }
        }
    };
}
aggregates!(a 0 A);
aggregates!(a 0 A, b 1 B);
aggregates!(a 0 A, b 1 B, c 2 C);
aggregates!(a 0 A, b 1 B, c 2 C, d 3 D);
aggregates!(a 0 A, b 1 B, c 2 C, d 3 D, e 4 E);
aggregates!(a 0 A, b 1 B, c 2 C, d 3 D, e 4 E, f 5 F);

/// The key of groups: a field with a single value, a field of the elements of an array, a [`DateBucket`](super::DateBucket), or
/// a tuple of these.
#[diagnostic::on_unimplemented(
    message = "documents of `{T}` cannot be grouped by `{Self}`",
    label = "expected a field with a single value, or a tuple of up to four",
    note = "group by fields with a single value, or by the elements of an array, `p.tags().each()`; group dates by `p.when().by_day(\"UTC\")`",
    note = "a field with serde's `default` cannot be a key, as a stored document may lack the field"
)]
pub trait GroupKey<T>: Send + Sync {
    /// The type of the key.
    type Value: Send + 'static;

    /// Returns the expression of the key in the `$group` stage.
    #[doc(hidden)]
    fn key_expression(&self) -> Result<RawBson>;

    /// Appends the paths of the arrays with an element for each key, from the outermost array on.
    #[doc(hidden)]
    fn append_arrays(&self, arrays: &mut Vec<String>);

    /// Decodes the key of a group.
    #[doc(hidden)]
    fn decode_key(&self, key: RawBsonRef<'_>) -> Result<Self::Value>;
}

fn with_field_path(error: Error, path: Option<&Path>) -> Error {
    match path {
        Some(path) => error.with_path(path.to_string()),
        None => error,
    }
}

#[diagnostic::do_not_recommend]
impl<T, K> GroupKey<T> for K
where
    K: GroupedPlace<Scope: SameScope<T>> + Send + Sync,
    K::Value: Send + 'static,
{
    type Value = K::Value;

    fn key_expression(&self) -> Result<RawBson> {
        // Put missing values into the group of null, also for a part of a key.
        let mut or_null = RawArrayBuf::new();
        or_null.push(self.path().to_unwound_expression()?);
        or_null.push(RawBson::Null);
        Ok(single_field_document("$ifNull", or_null)?.into())
    }

    fn append_arrays(&self, arrays: &mut Vec<String>) {
        append_traversed_arrays(&self.path(), arrays);
    }

    fn decode_key(&self, key: RawBsonRef<'_>) -> Result<K::Value> {
        decode::decode_value(&RawBson::from(key))
            .map_err(|error| with_field_path(error, Some(&self.path())))
    }
}

/// Appends the arrays on the path that the list does not have: two keys of one element unwind an array once.
pub(super) fn append_traversed_arrays(path: &Path, arrays: &mut Vec<String>) {
    for (array, nesting) in nested_arrays(path) {
        if !has_array(arrays, array, nesting) {
            arrays.push(array.to_owned());
        }
    }
}

/// Returns the arrays on the path, each with the number of unwinds: arrays of arrays have the same path.
fn nested_arrays(path: &Path) -> impl Iterator<Item = (&str, usize)> {
    path.traversed_arrays()
        .enumerate()
        .map(|(position, array)| {
            let earlier = path.traversed_arrays().take(position);
            (
                array,
                1 + earlier.filter(|earlier| *earlier == array).count(),
            )
        })
}

fn has_array(arrays: &[String], array: &str, nesting: usize) -> bool {
    arrays.iter().filter(|listed| *listed == array).count() >= nesting
}

macro_rules! keys {
    ($($name:ident $part:literal $key:ident),+) => {
        #[diagnostic::do_not_recommend]
        impl<T, $($key: GroupKey<T>),+> GroupKey<T> for ($($key,)+) {
            type Value = ($($key::Value,)+);

            fn key_expression(&self) -> Result<RawBson> {
                let ($($name,)+) = self;
                let mut parts = RawDocumentBuf::new();
                $(append_field(&mut parts, $part, $name.key_expression()?)?;)+
                Ok(parts.into())
            }

            fn append_arrays(&self, arrays: &mut Vec<String>) {
                let ($($name,)+) = self;
                $($name.append_arrays(arrays);)+
            }

            fn decode_key(&self, key: RawBsonRef<'_>) -> Result<Self::Value> {
                let ($($name,)+) = self;
                let parts = key.as_document().ok_or_else(wrong_group_error)?;
                Ok(($($name.decode_key(group_field(parts, $part)?)?,)+))
            }
        }
    };
}
keys!(a "a" A, b "b" B);
keys!(a "a" A, b "b" B, c "c" C);
keys!(a "a" A, b "b" B, c "c" C, d "d" D);

/// Returns a field of a group, or a part of a group key.
pub(crate) fn group_field<'d>(document: &'d RawDocument, name: &str) -> Result<RawBsonRef<'d>> {
    let part = document.get(name).map_err(malformed_group)?;
    part.ok_or_else(wrong_group_error)
}

fn malformed_group(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    wrong_group_error().with_source(error)
}

fn wrong_group_error() -> Error {
    Error::new(
        ErrorKind::Backend,
        "the backend returned a malformed group: expected a document with the key and the aggregates",
    )
}
