//! One value calculated from all documents of a query.

use std::pin::Pin;

use bson::{RawBson, RawDocumentBuf};

use super::{Find, pipeline};
use crate::{
    Error, ErrorKind, Result,
    aggregate::{Aggregate, Aggregates, Elements, Group, Single, Summable},
    backend::operation,
    decode,
    document::Document,
    error,
    field::{In, Ordered},
    query::{append, document},
    schema::Schema,
};

/// Calculates one value from the documents of a query, when it is awaited; made by [`Find::sum`] and its like.
#[must_use = "a calculation is made when it is awaited"]
pub struct Calculation<V>(Pin<Box<dyn Future<Output = Result<V>> + Send>>);

impl<V> IntoFuture for Calculation<V> {
    type Output = Result<V>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<V>> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        self.0
    }
}

/// What is calculated from the documents that match, as many of them as the limit says.
///
/// ```
/// # use odm::prelude::*;
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "posts")]
/// # struct Post { #[serde(rename = "_id")] id: i64, author: String, votes: i32, when: DateTime, #[embed(max = 9)] tags: Vec<String> }
/// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
/// # async fn example(db: odm::Database<Blog>) -> odm::Result<()> {
/// let of_alex = || db.find::<Post>().filter(|p| p.author().eq("alex"));
/// let votes: i64 = of_alex().sum(|p| p.votes()).await?;
/// let average: Option<f64> = of_alex().avg(|p| p.votes()).await?;
/// let latest: Option<DateTime> = of_alex().max(|p| p.when()).await?;
/// let tags: Vec<String> = of_alex().distinct(|p| p.tags()).await?;
/// # Ok(())
/// # }
/// ```
impl<S: Schema, T: Document, C: 'static> Find<S, T, T, (), C> {
    /// The different values of a field, each once and in no particular order; of an array those of its elements. Null is
    /// none.
    ///
    /// Fails with [`Invalid`](ErrorKind::Invalid) for a query that has a limit, and as a read does.
    pub fn distinct<K>(self, field: impl FnOnce(T::Fields) -> K) -> Calculation<Vec<K::Each>>
    where
        K: Elements<Scope: In<T>>,
    {
        let path = field(T::fields()).path();
        Calculation(Box::pin(async move {
            if self.limit.is_some() {
                let error = Error::new(
                    ErrorKind::Invalid,
                    "`distinct` looks at all documents that match: leave the `limit` out",
                );
                return Err(error::of_model::<T>(error));
            }
            path.refuse_variant().map_err(error::of_model::<T>)?;
            let distinct = operation::Distinct {
                collection: T::COLLECTION.into(),
                path: path.dotted().map_err(error::of_model::<T>)?.to_owned(),
                filter: self.raw_filter()?,
                max_time: None,
            };
            let values = self.access.distinct(&T::MODEL, distinct).await?.into_iter();
            let values = values.filter(|value| *value != RawBson::Null).map(|value| {
                let value = decode::value(&value);
                value.map_err(|error| error::of_model::<T>(error).with_path(path.to_string()))
            });
            values.collect()
        }))
    }

    /// The sum of a number: an `i64` of integers, an `f64` of floats, a `Decimal128` of decimals. What is null or missing
    /// counts as nothing, and the sum of nothing is 0.
    ///
    /// Fails with [`Invalid`](ErrorKind::Invalid) for a sum beyond its type, and as a read does.
    pub fn sum<K>(
        self,
        field: impl FnOnce(T::Fields) -> K,
    ) -> Calculation<<K::Inner as Summable>::Sum>
    where
        K: Single<Scope: In<T>, Inner: Summable>,
    {
        self.calculate(Group::new().sum(field))
    }

    /// The average of a number, without what is null or missing: a `Decimal128` of decimals, else an `f64`; none if there
    /// is nothing.
    pub fn avg<K>(
        self,
        field: impl FnOnce(T::Fields) -> K,
    ) -> Calculation<Option<<K::Inner as Summable>::Mean>>
    where
        K: Single<Scope: In<T>, Inner: Summable>,
    {
        self.calculate(Group::new().avg(field))
    }

    /// The least value of a field, without what is null or missing; none if there is nothing.
    pub fn min<K>(self, field: impl FnOnce(T::Fields) -> K) -> Calculation<Option<K::Inner>>
    where
        K: Single<Scope: In<T>, Inner: Ordered>,
    {
        self.calculate(Group::new().min(field))
    }

    /// The greatest value of a field, without what is null or missing; none if there is nothing.
    pub fn max<K>(self, field: impl FnOnce(T::Fields) -> K) -> Calculation<Option<K::Inner>>
    where
        K: Single<Scope: In<T>, Inner: Ordered>,
    {
        self.calculate(Group::new().max(field))
    }

    fn calculate<V: Send + 'static>(self, aggregate: Aggregate<T, V>) -> Calculation<V> {
        Calculation(Box::pin(async move {
            let stages = || {
                let mut stages = pipeline::chosen(&self)?;
                let mut group = document("_id", RawBson::Null)?;
                aggregate.append_to(&mut group)?;
                stages.push(document("$group", group)?);
                Ok(stages)
            };
            let all = pipeline::of::<T>(stages().map_err(error::of_model::<T>)?);
            let rows = self.access.aggregate_all(&T::MODEL, all).await?;
            let mut nothing = RawDocumentBuf::new();
            append(&mut nothing, "_id", RawBson::Null)?;
            let all = rows.into_iter().next().unwrap_or(nothing);
            aggregate.read(&all).map_err(error::of_model::<T>)
        }))
    }
}
