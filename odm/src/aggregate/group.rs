//! Groups of documents, and what is calculated for each.

use std::marker::PhantomData;

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::{Answer, Single, Summable};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::Direction,
    decode,
    document::Document,
    field::{In, Ordered, Path, Place},
    query::{Brackets, Sort, append, document},
};

/// The documents of a group, for [`GroupBy::select`](crate::action::GroupBy::select): what can be calculated from them.
#[derive(Debug)]
pub struct Group<T>(PhantomData<fn() -> T>);

impl<T: Document> Group<T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }

    /// How many documents there are.
    #[must_use]
    pub fn count(&self) -> Aggregate<T, u64> {
        let one = document("$sum", 1);
        Aggregate::new(one, |value| value.map_or(Ok(0), u64::of))
    }

    /// The sum of a number; what is null or missing counts as nothing, and the sum of nothing is 0.
    pub fn sum<K>(
        &self,
        field: impl FnOnce(T::Fields) -> K,
    ) -> Aggregate<T, <K::Inner as Summable>::Sum>
    where
        K: Single<Scope: In<T>, Inner: Summable>,
    {
        Aggregate::of("$sum", &field(T::fields()), |value| {
            Answer::of(value.unwrap_or(RawBsonRef::Int32(0)))
        })
    }

    /// The average of a number, without what is null or missing; none of nothing.
    pub fn avg<K>(
        &self,
        field: impl FnOnce(T::Fields) -> K,
    ) -> Aggregate<T, Option<<K::Inner as Summable>::Mean>>
    where
        K: Single<Scope: In<T>, Inner: Summable>,
    {
        Aggregate::of("$avg", &field(T::fields()), |value| {
            value.map(Answer::of).transpose()
        })
    }

    /// The least value, without what is null or missing; none of nothing.
    pub fn min<K>(&self, field: impl FnOnce(T::Fields) -> K) -> Aggregate<T, Option<K::Inner>>
    where
        K: Single<Scope: In<T>, Inner: Ordered>,
    {
        Aggregate::of("$min", &field(T::fields()), stored)
    }

    /// The greatest value, without what is null or missing; none of nothing.
    pub fn max<K>(&self, field: impl FnOnce(T::Fields) -> K) -> Aggregate<T, Option<K::Inner>>
    where
        K: Single<Scope: In<T>, Inner: Ordered>,
    {
        Aggregate::of("$max", &field(T::fields()), stored)
    }
}

fn stored<V: crate::document::Stored>(value: Option<RawBsonRef<'_>>) -> Result<Option<V>> {
    let value = value.map(RawBson::from);
    value.as_ref().map(decode::value).transpose()
}

/// Reads what was calculated; none stands for null.
type Read<V> = fn(Option<RawBsonRef<'_>>) -> Result<V>;

/// Something calculated from the documents of a group, which is a `V`.
pub struct Aggregate<T, V> {
    /// The accumulator: `{$sum: "$votes"}`.
    calculate: Result<RawDocumentBuf>,
    /// The field, if there is one.
    path: Option<Path>,
    /// Its place among those of the query.
    column: usize,
    read: Read<V>,
    of: PhantomData<fn() -> T>,
}

impl<T, V> Aggregate<T, V> {
    fn new(calculate: Result<RawDocumentBuf>, read: Read<V>) -> Self {
        Self {
            calculate,
            path: None,
            column: 0,
            read,
            of: PhantomData,
        }
    }

    fn of(operator: &str, place: &impl Place, read: Read<V>) -> Self {
        let path = place.path();
        let calculate = path
            .expression()
            .and_then(|field| document(operator, field));
        Self {
            path: Some(path),
            ..Self::new(calculate, read)
        }
    }

    /// Groups with less of it first.
    pub fn asc(&self) -> Sort<Groups<T>> {
        order(self.name(), Direction::Ascending)
    }

    /// Groups with more of it first.
    pub fn desc(&self) -> Sort<Groups<T>> {
        order(self.name(), Direction::Descending)
    }

    fn name(&self) -> String {
        format!("value{}", self.column)
    }
}

/// The groups of documents of the model `T`, which an order of groups is about.
#[derive(Debug)]
pub struct Groups<T>(PhantomData<fn() -> T>);

/// The key of a group, for its order.
#[derive(Debug)]
pub struct Key<T>(PhantomData<fn() -> T>);

impl<T> Key<T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }

    /// Smallest key first.
    pub fn asc(&self) -> Sort<Groups<T>> {
        order("_id".to_owned(), Direction::Ascending)
    }

    /// Largest key first.
    pub fn desc(&self) -> Sort<Groups<T>> {
        order("_id".to_owned(), Direction::Descending)
    }
}

fn order<T>(name: String, direction: Direction) -> Sort<Groups<T>> {
    Sort::new(Path::ROOT.append(&name), direction, Brackets::ANY)
}

/// What is calculated for each group: one [`Aggregate`], or a tuple of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is nothing that is calculated from a group of `{T}`",
    label = "neither an aggregate of `{T}` nor a tuple of up to six",
    note = "say what to calculate: `|g| (g.count(), g.sum(|p| p.votes()))`"
)]
pub trait Aggregates<T>: Send + Sync + 'static {
    /// What it gives.
    type Values: Send + 'static;

    /// Gives each its place, from the first on.
    #[doc(hidden)]
    fn place(&mut self, first: usize);

    /// Appends each to the stage that groups.
    #[doc(hidden)]
    fn append_to(&self, stage: &mut RawDocumentBuf) -> Result<()>;

    /// Reads each from a group.
    #[doc(hidden)]
    fn read(&self, group: &RawDocument) -> Result<Self::Values>;
}

#[diagnostic::do_not_recommend]
impl<T: 'static, V: Send + 'static> Aggregates<T> for Aggregate<T, V> {
    type Values = V;

    fn place(&mut self, first: usize) {
        self.column = first;
    }

    fn append_to(&self, stage: &mut RawDocumentBuf) -> Result<()> {
        append(stage, &self.name(), self.calculate.clone()?)
    }

    fn read(&self, group: &RawDocument) -> Result<V> {
        let value = group.get(self.name()).map_err(malformed)?;
        let read = (self.read)(value.filter(|value| *value != RawBsonRef::Null));
        read.map_err(|error| at(error, self.path.as_ref()))
    }
}

macro_rules! aggregates {
    ($($name:ident $at:literal $value:ident),+) => {
        #[diagnostic::do_not_recommend]
        impl<T: 'static, $($value: Send + 'static),+> Aggregates<T> for ($(Aggregate<T, $value>,)+) {
            type Values = ($($value,)+);

            fn place(&mut self, first: usize) {
                let ($($name,)+) = self;
                $($name.place(first + $at);)+
            }

            fn append_to(&self, stage: &mut RawDocumentBuf) -> Result<()> {
                let ($($name,)+) = self;
                $($name.append_to(stage)?;)+
                Ok(())
            }

            fn read(&self, group: &RawDocument) -> Result<Self::Values> {
                let ($($name,)+) = self;
                Ok(($($name.read(group)?,)+))
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

/// What documents are grouped by: a field of one value, or a tuple of them.
#[diagnostic::on_unimplemented(
    message = "documents of `{T}` cannot be grouped by `{Self}`",
    label = "not one value of each document, nor a tuple of up to four",
    note = "group by fields of one value; for the elements of an array write a `pipeline` with `$unwind`",
    note = "a field with serde's `default` is no key, as a stored document may lack it"
)]
pub trait GroupKey<T>: Send + Sync {
    /// What tells the groups apart.
    type Value: Send + 'static;

    /// The expression that the stage groups by.
    #[doc(hidden)]
    fn expression(&self) -> Result<RawBson>;

    /// Reads the key of a group.
    #[doc(hidden)]
    fn read(&self, key: RawBsonRef<'_>) -> Result<Self::Value>;
}

fn at(error: Error, path: Option<&Path>) -> Error {
    match path {
        Some(path) => error.with_path(path.to_string()),
        None => error,
    }
}

#[diagnostic::do_not_recommend]
impl<T, K> GroupKey<T> for K
where
    K: Single<Scope: In<T>> + Send + Sync,
    K::Value: Send + 'static,
{
    type Value = K::Value;

    fn expression(&self) -> Result<RawBson> {
        // What is missing is in one group with null, also as a part of a key.
        let mut or_null = RawArrayBuf::new();
        or_null.push(self.path().expression()?);
        or_null.push(RawBson::Null);
        Ok(document("$ifNull", or_null)?.into())
    }

    fn read(&self, key: RawBsonRef<'_>) -> Result<K::Value> {
        decode::value(&RawBson::from(key)).map_err(|error| at(error, Some(&self.path())))
    }
}

macro_rules! keys {
    ($($name:ident $part:literal $key:ident),+) => {
        #[diagnostic::do_not_recommend]
        impl<T, $($key: GroupKey<T>),+> GroupKey<T> for ($($key,)+) {
            type Value = ($($key::Value,)+);

            fn expression(&self) -> Result<RawBson> {
                let ($($name,)+) = self;
                let mut parts = RawDocumentBuf::new();
                $(append(&mut parts, $part, $name.expression()?)?;)+
                Ok(parts.into())
            }

            fn read(&self, key: RawBsonRef<'_>) -> Result<Self::Value> {
                let ($($name,)+) = self;
                let parts = key.as_document().ok_or_else(no_group)?;
                Ok(($($name.read(part(parts, $part)?)?,)+))
            }
        }
    };
}
keys!(a "a" A, b "b" B);
keys!(a "a" A, b "b" B, c "c" C);
keys!(a "a" A, b "b" B, c "c" C, d "d" D);

/// The part of a key, or the key of a group.
pub(crate) fn part<'d>(document: &'d RawDocument, name: &str) -> Result<RawBsonRef<'d>> {
    let part = document.get(name).map_err(malformed)?;
    part.ok_or_else(no_group)
}

fn malformed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    no_group().with_source(error)
}

fn no_group() -> Error {
    Error::new(
        ErrorKind::Backend,
        "the backend's answer is not the group that was asked for",
    )
}
