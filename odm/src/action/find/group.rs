//! Documents in groups.

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::{Find, pipeline};
use crate::{
    Result,
    aggregate::{Aggregates, Group, GroupKey, Groups, Key, part},
    document::Document,
    error,
    query::{IntoSort, Sort, document, sort_to_raw},
    schema::Schema,
};

impl<S: Schema, T: Document, C> Find<S, T, T, (), C> {
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
    pub fn group_by<K: GroupKey<T> + 'static>(
        self,
        key: impl FnOnce(T::Fields) -> K,
    ) -> GroupBy<S, T, K::Value> {
        let key = key(T::fields());
        GroupBy {
            key: key.expression(),
            read_key: Box::new(move |raw| key.read(raw)),
            find: self.checked(),
        }
    }
}

/// Reads the key of a group.
type ReadKey<K> = Box<dyn Fn(RawBsonRef<'_>) -> Result<K> + Send + Sync>;

/// Documents in groups, of which it is still to be said what is wanted; made by [`Find::group_by`].
///
/// `K` is what tells the groups apart.
#[must_use = "say what to calculate for each group: `select`"]
pub struct GroupBy<S, T: Document, K> {
    find: Find<S, T>,
    key: Result<RawBson>,
    read_key: ReadKey<K>,
}

impl<S: Schema, T: Document, K> GroupBy<S, T, K> {
    /// What is calculated for each group: one thing or a tuple of up to six.
    pub fn select<A: Aggregates<T>>(
        self,
        calculate: impl FnOnce(Group<T>) -> A,
    ) -> Grouped<S, T, K, A, A::Values> {
        let mut values = calculate(Group::new());
        values.place(0);
        let group = self.key.and_then(|key| {
            let mut group = document("_id", key)?;
            values.append_to(&mut group)?;
            document("$group", group)
        });
        Grouped {
            find: self.find,
            group,
            read_key: self.read_key,
            read_values: A::read,
            values,
            sort: Vec::new(),
            limit: None,
        }
    }
}

/// What is calculated for each group of documents; made by [`GroupBy::select`].
///
/// `K` is what tells the groups apart, `V` what `A` gives for each.
#[must_use = "groups are made when `all` is called"]
pub struct Grouped<S, T: Document, K, A, V> {
    find: Find<S, T>,
    /// The stage that groups.
    group: Result<RawDocumentBuf>,
    read_key: ReadKey<K>,
    read_values: fn(&A, &RawDocument) -> Result<V>,
    values: A,
    sort: Vec<Sort<Groups<T>>>,
    limit: Option<u64>,
}

// The bounds stand where the key and the aggregates come in: a mistake there is one error, whatever follows.
impl<S: Schema, T: Document, K, A, V> Grouped<S, T, K, A, V> {
    /// In this order, by the key and by what is calculated; a further call orders what this one leaves equal.
    pub fn sort<O: IntoSort<Groups<T>>>(mut self, order: impl FnOnce(Key<T>, &A) -> O) -> Self {
        let order = order(Key::new(), &self.values);
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
    pub async fn all(self) -> Result<Vec<(K, V)>> {
        let access = self.find.access.clone();
        let stages = self.stages().map_err(error::of_model::<T>)?;
        let groups = access
            .aggregate_all(&T::MODEL, pipeline::of::<T>(stages))
            .await?;
        let groups = groups.iter().map(|group| {
            let key = (self.read_key)(part(group, "_id")?)?;
            Ok((key, (self.read_values)(&self.values, group)?))
        });
        groups.collect::<Result<_>>().map_err(error::of_model::<T>)
    }

    fn stages(&self) -> Result<Vec<RawDocumentBuf>> {
        let mut stages = pipeline::chosen(&self.find)?;
        stages.push(self.group.clone()?);
        if let Some(sort) = sort_to_raw(&self.sort)? {
            stages.push(document("$sort", sort)?);
        }
        stages.extend(pipeline::limited(self.limit)?);
        Ok(stages)
    }
}
