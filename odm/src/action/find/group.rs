//! Grouped queries: `group_by`.

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::{Find, pipeline};
use crate::{
    Result, error,
    language::{
        aggregate::{Aggregates, Group, GroupKey, GroupKeyOrder, Groups, group_field},
        query::{
            FilterNode, IntoFilter, IntoSort, Sort, limit_stage, single_field_document,
            sort_to_raw, to_raw,
        },
    },
    model::document::Document,
    schema::Schema,
};

impl<S: Schema, T: Document, C> Find<S, T, T, (), C> {
    /// Groups the matching documents by the value of a field or of a tuple of fields. Null and missing values form one group.
    ///
    /// A key inside of an array, `p.tags().each()` or `o.lines().product()`, groups the elements: each element is in the group of
    /// its value, and documents without elements are in no group. Aggregates can name fields of the elements, too. A
    /// [`DateBucket`](crate::aggregate::DateBucket), such as `o.placed().by_month("UTC")`, groups by a time span.
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
        let mut arrays = Vec::new();
        key.append_arrays(&mut arrays);
        GroupBy {
            key: key.key_expression(),
            arrays,
            read_key: Box::new(move |raw| key.decode_key(raw)),
            find: self.erase_scope(),
        }
    }
}

/// Decodes the key of a group.
type ReadKey<K> = Box<dyn Fn(RawBsonRef<'_>) -> Result<K> + Send + Sync>;

/// A grouped query without its aggregates; made by [`Find::group_by`].
///
/// `K` is the type of the group key.
#[must_use = "a grouped query needs `select` with the aggregates of each group"]
pub struct GroupBy<S, T: Document, K> {
    find: Find<S, T>,
    key: Result<RawBson>,
    /// The arrays with a group key in each element, from the outermost array on.
    arrays: Vec<String>,
    read_key: ReadKey<K>,
}

impl<S: Schema, T: Document, K> GroupBy<S, T, K> {
    /// Chooses the aggregates of each group: one, or a tuple of up to six.
    pub fn select<A: Aggregates<T>>(
        self,
        calculate: impl FnOnce(Group<T>) -> A,
    ) -> Grouped<S, T, K, A, A::Values> {
        let mut values = calculate(Group::new());
        values.assign_columns(0);
        let arrays = self.arrays;
        let group = self.key.and_then(|key| {
            values.ensure_unwound(&arrays)?;
            let mut group = single_field_document("_id", key)?;
            values.append_to(&mut group)?;
            single_field_document("$group", group)
        });
        Grouped {
            find: self.find,
            arrays,
            group,
            read_key: self.read_key,
            read_values: A::decode_group,
            values,
            having: FilterNode::All,
            sort: Vec::new(),
            limit: None,
        }
    }
}

/// A grouped query with its aggregates; made by [`GroupBy::select`].
///
/// `K` is the type of the group key, `V` the result type of the aggregates `A`.
#[must_use = "a grouped query runs when `all` is called"]
pub struct Grouped<S, T: Document, K, A, V> {
    find: Find<S, T>,
    /// The arrays to unwind.
    arrays: Vec<String>,
    /// The `$group` stage.
    group: Result<RawDocumentBuf>,
    read_key: ReadKey<K>,
    read_values: fn(&A, &RawDocument) -> Result<V>,
    values: A,
    having: FilterNode,
    sort: Vec<Sort<Groups<T>>>,
    limit: Option<u64>,
}

// `group_by` and `select` have the trait bounds: a mistake there must not repeat as an error of each later call.
impl<S: Schema, T: Document, K, A, V> Grouped<S, T, K, A, V> {
    /// Keeps the groups with aggregates that meet a condition. A group must meet the conditions of all calls.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "posts")]
    /// # struct Post { #[serde(rename = "_id")] id: i64, #[embed(max = 9)] tags: Vec<String>, votes: i64 }
    /// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Blog>::open("memory:").await?;
    /// # let post = |id, tags: &[&str], votes| Post { id, tags: tags.iter().map(|t| (*t).into()).collect(), votes };
    /// # db.insert_many([post(1, &["rust", "web"], 5), post(2, &["rust"], 1), post(3, &["sql"], 1)]).await?;
    /// let tags: Vec<(String, (u64, i64))> = db
    ///     .find::<Post>()
    ///     .group_by(|p| p.tags().each())
    ///     .select(|g| (g.count(), g.sum(|p| p.votes())))
    ///     .having(|(posts, votes)| posts.gte(2_u64) | votes.gt(4))
    ///     .sort(|tag, _| tag.asc())
    ///     .all()
    ///     .await?;
    /// assert_eq!(tags, [("rust".into(), (2, 6)), ("web".into(), (1, 5))]);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn having<F: IntoFilter<Groups<T>>>(mut self, condition: impl FnOnce(&A) -> F) -> Self {
        if let Some(filter) = condition(&self.values).into_filter() {
            self.having = self.having.and(filter.into_node());
        }
        self
    }

    /// Adds sort keys, by the group key and by the aggregates. The keys of a later call order groups that the earlier keys leave
    /// equal.
    pub fn sort<O: IntoSort<Groups<T>>>(
        mut self,
        order: impl FnOnce(GroupKeyOrder<T>, &A) -> O,
    ) -> Self {
        let order = order(GroupKeyOrder::new(), &self.values);
        self.sort.extend(order.into_sorts());
        self
    }

    /// Returns at most `limit` groups.
    pub fn limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Returns all groups, each with its key and its aggregates.
    ///
    /// # Errors
    ///
    /// Errors of the backend; [`Invalid`](crate::ErrorKind::Invalid) for a sum that overflows its type;
    /// [`Decode`](crate::ErrorKind::Decode) for a key or a value that does not fit the model.
    pub async fn all(mut self) -> Result<Vec<(K, V)>> {
        self.find.resolve_related().await?;
        let access = self.find.access.clone();
        let options = self.find.read_options();
        let stages = self.to_stages().map_err(error::of_model::<T>)?;
        let groups = access
            .aggregate_all(&T::MODEL, pipeline::to_aggregate::<T>(stages, options))
            .await?;
        let groups = groups.iter().map(|group| {
            let key = (self.read_key)(group_field(group, "_id")?)?;
            Ok((key, (self.read_values)(&self.values, group)?))
        });
        groups.collect::<Result<_>>().map_err(error::of_model::<T>)
    }

    fn to_stages(&self) -> Result<Vec<RawDocumentBuf>> {
        let mut stages = pipeline::selecting_stages(&self.find)?;
        for array in &self.arrays {
            stages.push(single_field_document("$unwind", format!("${array}"))?);
        }
        stages.push(self.group.clone()?);
        if !matches!(self.having, FilterNode::All) {
            stages.push(single_field_document("$match", to_raw(&self.having)?)?);
        }
        if let Some(sort) = sort_to_raw(&self.sort)? {
            stages.push(single_field_document("$sort", sort)?);
        }
        stages.extend(limit_stage(self.limit)?);
        Ok(stages)
    }
}
