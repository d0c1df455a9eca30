//! Documents in groups.

use std::{marker::PhantomData, sync::Arc};

use super::{Find, pipeline};
use crate::{
    Result,
    aggregate::{Aggregates, Group, GroupKey, Groups, Key, part},
    backend::{Executor, drain},
    document::Document,
    error,
    query::{IntoSort, Sort, document, sort_to_raw},
    schema::Schema,
};

impl<S: Schema, T: Document> Find<S, T> {
    /// The documents that match in groups, one for each value of a field or of a tuple of fields; null and missing are
    /// one value.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "posts")]
    /// # struct Post { #[serde(rename = "_id")] id: i64, author: String, votes: i64, when: DateTime, draft: bool }
    /// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
    /// # async fn example(db: odm::Database<Blog>) -> odm::Result<()> {
    /// let authors: Vec<(String, (u64, i64, Option<DateTime>))> = db
    ///     .find::<Post>()
    ///     .filter(|p| p.draft().eq(false))
    ///     .group_by(|p| p.author())
    ///     .select(|g| (g.count(), g.sum(|p| p.votes()), g.max(|p| p.when())))
    ///     .sort(|author, (_, votes, _)| (votes.desc(), author.asc()))
    ///     .limit(10)
    ///     .all()
    ///     .await?;
    /// for (author, (posts, votes, _)) in authors {
    ///     println!("{author}: {votes} votes for {posts} posts");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn group_by<K: GroupKey<T>>(self, key: impl FnOnce(T::Fields) -> K) -> GroupBy<S, T, K> {
        GroupBy {
            key: key(T::fields()),
            find: self,
        }
    }
}

/// Documents in groups, of which it is still to be said what is wanted; made by [`Find::group_by`].
#[must_use = "say what to calculate for each group: `select`"]
pub struct GroupBy<S, T: Document, K> {
    find: Find<S, T>,
    key: K,
}

impl<S: Schema, T: Document, K: GroupKey<T>> GroupBy<S, T, K> {
    /// What is calculated for each group: one thing or a tuple of up to six.
    pub fn select<A: Aggregates<T>>(
        self,
        calculate: impl FnOnce(Group<T>) -> A,
    ) -> Grouped<S, T, K, A> {
        let mut values = calculate(Group::new());
        values.place(0);
        Grouped {
            find: self.find,
            key: self.key,
            values,
            sort: Vec::new(),
            limit: None,
            of: PhantomData,
        }
    }
}

/// What is calculated for each group of documents; made by [`GroupBy::select`].
#[must_use = "groups are made when `all` is called"]
pub struct Grouped<S, T: Document, K, A> {
    find: Find<S, T>,
    key: K,
    values: A,
    sort: Vec<Sort<Groups<T>>>,
    limit: Option<u64>,
    of: PhantomData<fn() -> K>,
}

impl<S: Schema, T: Document, K: GroupKey<T>, A: Aggregates<T>> Grouped<S, T, K, A> {
    /// In this order, by the key and by what is calculated; a further call orders what this one leaves equal.
    pub fn sort<O: IntoSort<Groups<T>>>(mut self, order: impl FnOnce(Key<T>, A) -> O) -> Self {
        let order = order(Key::new(), self.values.clone());
        self.sort.extend(order.into_sorts());
        self
    }

    /// This many groups at most.
    pub fn limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// All groups: the key of each, and what is calculated for it.
    ///
    /// # Errors
    ///
    /// Those of the backend; [`Invalid`](crate::ErrorKind::Invalid) for a sum beyond its type;
    /// [`Decode`](crate::ErrorKind::Decode) for a key or a value that does not fit the model.
    pub async fn all(self) -> Result<Vec<(K::Value, A::Values)>> {
        let executor: Arc<dyn Executor> = Arc::clone(&self.find.executor);
        let groups = async {
            let cursor = executor
                .aggregate(pipeline::of::<T>(self.stages()?))
                .await?;
            drain(cursor).await
        };
        let groups = groups.await.map_err(error::of_model::<T>)?;
        let groups = groups.iter().map(|group| {
            let key = K::read(part(group, "_id")?)?;
            Ok((key, self.values.read(group)?))
        });
        groups.collect::<Result<_>>().map_err(error::of_model::<T>)
    }

    fn stages(&self) -> Result<Vec<bson::RawDocumentBuf>> {
        let mut stages = pipeline::chosen(&self.find)?;
        let mut group = document("_id", self.key.expression()?)?;
        self.values.append_to(&mut group)?;
        stages.push(document("$group", group)?);
        if let Some(sort) = sort_to_raw(&self.sort)? {
            stages.push(document("$sort", sort)?);
        }
        stages.extend(pipeline::limited(self.limit)?);
        Ok(stages)
    }
}
