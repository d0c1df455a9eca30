//! Aggregates over all documents of a query: `sum`, `avg`, `min`, `max`, `distinct`.

use std::pin::Pin;

use bson::{RawBson, RawDocumentBuf};

use super::{Find, pipeline};
use crate::{
    Error, ErrorKind, Result,
    backend::operation,
    error,
    language::{
        aggregate::{Aggregate, Aggregates, DistinctPlace, Group, SingleValuePlace, Summable},
        field::{Ordered, Path, SameScope},
        query::{append_field, single_field_document},
    },
    model::{decode, document::Document},
    schema::Schema,
    session::lookup,
};

/// An aggregate over the documents of a query, which runs when awaited; made by [`Find::sum`] and similar methods.
#[must_use = "an aggregate is computed when awaited"]
pub struct Calculation<V>(Pin<Box<dyn Future<Output = Result<V>> + Send>>);

impl<V> IntoFuture for Calculation<V> {
    type Output = Result<V>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<V>> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        self.0
    }
}

/// Aggregates over the documents that match, up to the limit.
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
    /// Returns the distinct values of a field, in no particular order. For an array, these are the distinct elements. Null is
    /// left out.
    ///
    /// # Errors
    ///
    /// The awaited aggregate fails with [`Invalid`](ErrorKind::Invalid) for a query that has a limit, and with the errors of
    /// [`Find::all`].
    pub fn distinct<K>(self, field: impl FnOnce(T::Fields) -> K) -> Calculation<Vec<K::Each>>
    where
        K: DistinctPlace<Scope: SameScope<T>>,
    {
        let path = field(T::fields()).path();
        Calculation(Box::pin(async move {
            let mut find = self;
            if find.limit.is_some() {
                let error = Error::new(
                    ErrorKind::Invalid,
                    "`distinct` reads all documents that match: leave out `limit`",
                );
                return Err(error::of_model::<T>(error));
            }
            path.ensure_not_in_variant().map_err(error::of_model::<T>)?;
            find.resolve_related().await?;
            let values = match lookup::is_used(&find.options) {
                true => find.distinct_by_aggregate(&path).await?,
                false => {
                    let distinct = operation::DistinctOperation {
                        collection: T::COLLECTION.into(),
                        path: path.dotted().map_err(error::of_model::<T>)?.to_owned(),
                        filter: find.raw_filter()?,
                        options: find.read_options(),
                    };
                    find.access.distinct(&T::MODEL, distinct).await?
                }
            };
            let values = values.into_iter();
            let values = values.filter(|value| *value != RawBson::Null).map(|value| {
                let value = decode::decode_value(&value);
                value.map_err(|error| error::of_model::<T>(error).with_path(path.to_string()))
            });
            values.collect()
        }))
    }

    /// Returns the distinct values at a path by an aggregate, which can have lookups.
    async fn distinct_by_aggregate(self, path: &Path) -> Result<Vec<RawBson>> {
        let stages = || {
            let dotted = path.dotted()?;
            let mut stages = pipeline::match_stage(&self)?;
            for array in path.traversed_arrays().chain([dotted]) {
                stages.push(single_field_document("$unwind", format!("${array}"))?);
            }
            let key = single_field_document("_id", format!("${dotted}"))?;
            stages.push(single_field_document("$group", key)?);
            Ok(stages)
        };
        let stages = stages().map_err(error::of_model::<T>)?;
        let query = pipeline::to_aggregate::<T>(stages, self.read_options());
        let groups = self.access.aggregate_all(&T::MODEL, query).await?;
        let values = groups.iter().filter_map(|group| decode::stored_id(group));
        Ok(values.map(RawBson::from).collect())
    }

    /// Returns the sum of a number field: an `i64` for integers, an `f64` for floats, a `Decimal128` for decimals. Null and
    /// missing values count as 0, and the sum of no documents is 0.
    ///
    /// # Errors
    ///
    /// The awaited aggregate fails with [`Invalid`](ErrorKind::Invalid) for a sum that overflows its type, and with the errors of
    /// [`Find::all`].
    pub fn sum<K>(
        self,
        field: impl FnOnce(T::Fields) -> K,
    ) -> Calculation<<K::Inner as Summable>::Sum>
    where
        K: SingleValuePlace<Scope: SameScope<T>, Inner: Summable>,
    {
        self.run_aggregate(Group::new().sum(field))
    }

    /// Returns the average of a number field: a `Decimal128` for decimals, otherwise an `f64`. Null and missing values do not
    /// count; without any value the average is `None`.
    ///
    /// # Errors
    ///
    /// The awaited aggregate fails with the errors of [`Find::all`].
    pub fn avg<K>(
        self,
        field: impl FnOnce(T::Fields) -> K,
    ) -> Calculation<Option<<K::Inner as Summable>::Mean>>
    where
        K: SingleValuePlace<Scope: SameScope<T>, Inner: Summable>,
    {
        self.run_aggregate(Group::new().avg(field))
    }

    /// Returns the least value of a field, or `None` without any value. Null and missing values do not count.
    ///
    /// # Errors
    ///
    /// The awaited aggregate fails with the errors of [`Find::all`].
    pub fn min<K>(self, field: impl FnOnce(T::Fields) -> K) -> Calculation<Option<K::Inner>>
    where
        K: SingleValuePlace<Scope: SameScope<T>, Inner: Ordered>,
    {
        self.run_aggregate(Group::new().min(field))
    }

    /// Returns the greatest value of a field, or `None` without any value. Null and missing values do not count.
    ///
    /// # Errors
    ///
    /// The awaited aggregate fails with the errors of [`Find::all`].
    pub fn max<K>(self, field: impl FnOnce(T::Fields) -> K) -> Calculation<Option<K::Inner>>
    where
        K: SingleValuePlace<Scope: SameScope<T>, Inner: Ordered>,
    {
        self.run_aggregate(Group::new().max(field))
    }

    fn run_aggregate<V: Send + 'static>(mut self, aggregate: Aggregate<T, V>) -> Calculation<V> {
        Calculation(Box::pin(async move {
            self.resolve_related().await?;
            let stages = || {
                let mut stages = pipeline::selecting_stages(&self)?;
                let mut group = single_field_document("_id", RawBson::Null)?;
                aggregate.append_to(&mut group)?;
                stages.push(single_field_document("$group", group)?);
                Ok(stages)
            };
            let stages = stages().map_err(error::of_model::<T>)?;
            let query = pipeline::to_aggregate::<T>(stages, self.read_options());
            let rows = self.access.aggregate_all(&T::MODEL, query).await?;
            let mut empty_group = RawDocumentBuf::new();
            append_field(&mut empty_group, "_id", RawBson::Null)?;
            let group = rows.into_iter().next().unwrap_or(empty_group);
            aggregate.decode_group(&group).map_err(error::of_model::<T>)
        }))
    }
}
