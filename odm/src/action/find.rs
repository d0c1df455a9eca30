//! Queries: filter, sort, limit, joins, and the ways to read the result.

mod calculate;
mod descendants;
mod drift;
mod group;
mod id_prefix;
mod page;
mod pipeline;
mod scope_index;

use std::{
    collections::VecDeque,
    marker::PhantomData,
    mem,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bson::RawDocumentBuf;
use futures_core::Stream;
use futures_util::{StreamExt, stream};

pub use calculate::Calculation;
pub(super) use descendants::is_below;
pub use drift::{Drift, FindDrift};
pub use group::{GroupBy, Grouped};
pub use page::{FindPage, IntoPageToken, Page, PageToken};
pub use pipeline::Pipeline;
use scope_index::explain_in_scope;

use crate::{
    Error, ErrorKind, Result,
    backend::{
        Cursor,
        operation::{self, ReadPreference},
    },
    error,
    language::query::{
        Filter, FilterNode, IntoFilter, IntoSort, Key, Sort, single_field_document, sort_to_raw,
    },
    model::{
        decode::decode_all,
        document::Document,
        projection::{self, Projection, ProjectionOf},
        stored,
    },
    relation::{
        self, AppendJoin, Children, IntoJoin, Join, Joins, LinkItem, Links, Resolved,
        explain_related, resolve_for_read,
    },
    schema::{Contains, OfSchema, Schema},
    session::{
        access::Access,
        scope::{AllScopes, InScope, Unscoped},
        soft_delete::{SoftDelete, Visibility},
    },
    write::refresh_copies,
};

/// A query over the documents of the model `T`, read as `P` and joined with `J`. [`Session::find`](crate::Session::find) returns
/// a query.
///
/// `C` is the scope of the session that made the query: see [`scope`](crate::scope).
///
/// The query runs when the caller calls [`one`](Self::one), [`first`](Self::first), [`all`](Self::all), [`stream`](Self::stream),
/// [`count`](Self::count) or [`exists`](Self::exists).
///
/// ```
/// # use odm::prelude::*;
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "parts")]
/// # struct Part { #[serde(rename = "_id")] id: i64, name: String }
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "products")]
/// # struct Product { #[serde(rename = "_id")] id: i64, name: String, #[reference] parts: Vec<Ref<Part>> }
/// # #[derive(Schema)] #[schema(models(Part, Product))] struct Shop;
/// # async fn example(db: odm::Database<Shop>) -> odm::Result<()> {
/// let products = db
///     .find::<Product>()
///     .filter(|p| p.name().starts_with("left"))
///     .sort(|p| p.name().asc())
///     .with(|p| p.parts())
///     .limit(100)
///     .all()
///     .await?;
/// for (product, parts) in &products {
///     println!("{}", product.name);
///     for part in parts {
///         match part {
///             Loaded(part) => println!("    {}", part.name),
///             Missing(id) => println!("    no part {id}"),
///         }
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a query runs when `one`, `first`, `all`, `stream`, `count` or `exists` is called"]
pub struct Find<S, T: Document, P = T, J = (), C = Unscoped> {
    access: Access,
    filter: FilterNode,
    sort: Vec<Sort<T>>,
    limit: Option<u64>,
    options: operation::ReadOptions,
    joins: J,
    marker: Marker<(S, P, C)>,
}

/// Models with queries that lock documents: no model implements this trait. Without this trait, users of SQL would look for the
/// method in vain.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a query cannot lock documents",
    label = "neither the engine nor MongoDB has read locks",
    note = "in a transaction, a document that the transaction writes is protected: a concurrent write is a conflict, and the transaction runs again",
    note = "change a document that was read by `db.modify`, by `edit` and `save`, or by an update with `when`; take the next document of \
            a queue by `update_first`"
)]
pub trait Locks {}

/// Models with queries that leave out fields without a projection: no model implements this trait. A document without a value for
/// a field could not be read, and the type of a field in a closure does not tell its name.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` has a value for each field, so a query cannot leave fields out",
    label = "needs a projection",
    note = "declare a projection on the model, `#[document(projection(Card, without(body)))]`, and read it: \
            `db.find::<{Self}>().select::<Card>()`"
)]
pub trait OmitsFields {}

/// Marks type parameters without a stored value.
type Marker<T> = PhantomData<fn() -> T>;

impl<S: Schema, T: Document, C> Find<S, T, T, (), C> {
    pub(crate) fn new(access: Access) -> Self {
        Self {
            access,
            filter: FilterNode::All,
            sort: Vec::new(),
            limit: None,
            options: operation::ReadOptions::default(),
            joins: (),
            marker: PhantomData,
        }
    }

    /// Reads copied fields from their source documents, even while a fan-out is pending. To wait until the stored copies are up
    /// to date, call [`Database::wait_for_pending`](crate::Database::wait_for_pending).
    ///
    /// After the documents, the query reads the source documents by id: an extra query per source model. Joined documents keep
    /// their stored copies. A condition on a copied field compares the stored copy. A condition on the target of a reference,
    /// [`matches`](crate::field::Field::matches), and a join of a projection read the targets instead of copies.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "hosts")]
    /// # struct Host { #[serde(rename = "_id")] id: i64, ipaddr: String }
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "logmsgs")]
    /// # struct LogMessage {
    /// #     #[serde(rename = "_id")] id: i64,
    /// #     #[reference] host: Ref<Host>,
    /// #     #[denormalize(from = host.ipaddr, background)] ipaddr: String,
    /// # }
    /// # #[derive(Schema)] #[schema(models(Host, LogMessage))] struct Logs;
    /// # async fn example(db: odm::Database<Logs>) -> odm::Result<()> {
    /// db.update::<Host>(7).set(|h| h.ipaddr(), "10.0.0.7").await?;
    /// for message in db.find::<LogMessage>().filter(|m| m.host().eq(Ref::new(7))).current().all().await? {
    ///     assert_eq!(message.ipaddr, "10.0.0.7");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) together with [`select`](Self::select): `current` needs whole documents.
    pub fn current(mut self) -> Self {
        self.access = self.access.reading_current();
        self
    }

    /// Reads only the fields of a [`Projection`].
    pub fn select<P: ProjectionOf<T>>(self) -> Find<S, T, P, (), C> {
        Find {
            access: self.access,
            filter: self.filter,
            sort: self.sort,
            limit: self.limit,
            options: self.options,
            joins: (),
            marker: PhantomData,
        }
    }
}

impl<S: Schema, T: Document, P: Projection<Of = T>, J: Joins<P>, C> Find<S, T, P, J, C> {
    /// Adds a condition. A document must meet the conditions of all calls.
    pub fn filter<F: IntoFilter<T>>(mut self, condition: impl FnOnce(T::Fields) -> F) -> Self {
        if let Some(filter) = condition(T::fields()).into_filter() {
            self.filter = self.filter.and(filter.into_node());
        }
        self
    }

    /// Adds sort keys. The keys of a later call order documents that the earlier keys leave equal.
    pub fn sort<O: IntoSort<T>>(mut self, order: impl FnOnce(T::Fields) -> O) -> Self {
        self.sort.extend(order(T::fields()).into_sorts());
        self
    }

    /// Includes soft-deleted documents: see [`SoftDelete`]. Joined documents are still left out if soft-deleted.
    pub fn with_deleted(mut self) -> Self
    where
        T: SoftDelete,
    {
        self.access = self.access.with_visibility(Visibility::All);
        self
    }

    /// Returns only soft-deleted documents: see [`SoftDelete`]. Joined documents are still left out if soft-deleted.
    pub fn only_deleted(mut self) -> Self
    where
        T: SoftDelete,
    {
        self.access = self.access.with_visibility(Visibility::Deleted);
        self
    }

    /// Returns at most `limit` documents.
    pub fn limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Sets a time limit for all round trips of the query together, including joins and the batches of a
    /// [`stream`](Self::stream). The time between two batches, while the caller works, does not count.
    ///
    /// A query that takes longer fails with [`Timeout`](ErrorKind::Timeout); the error names the operation, the collection and
    /// the limit. MongoDB stops the query too, by `maxTimeMS`. If a server does not answer at all, the error comes one second
    /// after the limit.
    pub fn max_time(mut self, limit: Duration) -> Self {
        self.access = self.access.with_time_limit(limit);
        self
    }

    /// Reads the documents with this index, given by its name. [`explain`](Self::explain) shows the index that the database
    /// chooses on its own.
    ///
    /// A missing index is an error of kind [`Invalid`](ErrorKind::Invalid) on the engine, and of kind
    /// [`Backend`](ErrorKind::Backend) on MongoDB. `distinct` takes no hint: an error of kind
    /// [`Unsupported`](ErrorKind::Unsupported). Joins read without the hint.
    pub fn hint(mut self, index: impl Into<String>) -> Self {
        self.options.hint = Some(index.into());
        self
    }

    /// Adds a text to all reads of the query, joins included: for the log target `odm::operation`, and for the profiler and
    /// `currentOp` of MongoDB.
    pub fn comment(mut self, text: impl Into<String>) -> Self {
        self.access = self.access.with_comment(text.into());
        self
    }

    /// Sets the members of a MongoDB replica set that may answer, joins included. The default is the option of the URL.
    ///
    /// A secondary can return older data. With [`current`](Self::current) the primary answers. The engine has one copy of the
    /// data, which answers with each preference.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) in a transaction, when the query runs.
    pub fn read_preference(mut self, preference: ReadPreference) -> Self {
        self.access = self.access.with_read_preference(preference);
        self
    }

    /// Joins the targets of a reference. The join costs an extra query, regardless of the number of documents. A join of a
    /// projection costs no query if the reference has a delete rule other than `keep`, and copies beside the reference have every
    /// field of the projection. Such a copy can be older than its source while a fan-out is pending: [`current`](Self::current)
    /// reads the targets.
    ///
    /// The item becomes a tuple with a [`Link`](crate::relation::Link), an `Option` of a link, or
    /// [`Links`](crate::relation::Links). One query holds up to 10,000 different ids. For a reference inside an enum variant,
    /// name the field in the variant's closure, `|a| a.owner().user(|user| user)`: see [`relation`](crate::relation).
    pub fn with<K: IntoJoin<Scope = T, Out: InScope<C> + OfSchema<S>>>(
        self,
        relation: impl FnOnce(T::Fields) -> K,
    ) -> Find<S, T, P, J::Then, C>
    where
        J: AppendJoin<Join<T, K::Out>>,
    {
        let join = relation(T::fields()).into_join(&T::MODEL);
        self.append_join(join)
    }

    /// Joins the documents that refer to each document. The join costs an extra query, regardless of the number of documents.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "hosts")]
    /// # struct Host { #[serde(rename = "_id")] id: i64, name: String }
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "logmsgs", index(host, -time))]
    /// # struct LogMessage { #[serde(rename = "_id")] id: ObjectId, time: DateTime, #[reference] host: Ref<Host> }
    /// # #[derive(Schema)] #[schema(models(Host, LogMessage))] struct Logs;
    /// # async fn example(db: odm::Database<Logs>) -> odm::Result<()> {
    /// let hosts = db
    ///     .find::<Host>()
    ///     .with_children(LogMessage::by(|m| m.host()).sort(|m| m.time().desc()).limit(10))
    ///     .all()
    ///     .await?;
    /// # let _: Vec<(Host, Vec<LogMessage>)> = hosts;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_children<D: Document, K, Q>(
        self,
        children: Children<D, T, K, Q>,
    ) -> Find<S, T, P, J::Then, C>
    where
        J: AppendJoin<Join<T, Vec<K::Item>>>,
        K: Joins<Q, Item: InScope<C> + OfSchema<S>>,
        Q: Projection<Of = D>,
        S: Contains<D, AllScopes>,
    {
        self.append_join(children.into_join())
    }

    /// Returns the access of the query.
    pub(super) fn into_access(self) -> Access {
        self.access
    }

    /// Adds a condition in the form of a filter tree.
    pub(super) fn with_condition(mut self, condition: FilterNode) -> Self {
        self.filter = self.filter.and(condition);
        self
    }

    /// Drops the scope from the type. The bounds of [`with`](Self::with) have already checked that the scope reaches each joined
    /// model.
    pub(super) fn erase_scope(self) -> Find<S, T, P, J> {
        Find {
            access: self.access,
            filter: self.filter,
            sort: self.sort,
            limit: self.limit,
            options: self.options,
            joins: self.joins,
            marker: PhantomData,
        }
    }

    fn append_join<X>(self, join: X) -> Find<S, T, P, J::Then, C>
    where
        J: AppendJoin<X>,
    {
        Find {
            access: self.access,
            filter: self.filter,
            sort: self.sort,
            limit: self.limit,
            options: self.options,
            joins: self.joins.append_join(join),
            marker: PhantomData,
        }
    }

    /// Returns the only document that matches.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) if no document matches, [`NotUnique`](ErrorKind::NotUnique) if several documents match.
    pub async fn one(self) -> Result<J::Item> {
        let mut items = self.limit(2).all().await?;
        match (items.pop(), items.is_empty()) {
            (Some(item), true) => Ok(item),
            (None, _) => Err(error::of_model::<T>(Error::new(
                ErrorKind::NotFound,
                "no document meets the condition: correct the condition, or use `first`",
            ))),
            (Some(_), false) => Err(error::of_model::<T>(Error::new(
                ErrorKind::NotUnique,
                "more than one document meets the condition: narrow the condition, or use `first`",
            ))),
        }
    }

    /// Returns the first document that matches, if any.
    ///
    /// # Errors
    ///
    /// Errors of the backend, and [`Decode`](ErrorKind::Decode) for a document that does not fit the model.
    pub async fn first(self) -> Result<Option<J::Item>> {
        Ok(self.limit(1).all().await?.pop())
    }

    /// Returns all documents that match.
    ///
    /// # Errors
    ///
    /// Errors of the backend, and [`Decode`](ErrorKind::Decode) for the first document that does not fit the model. To read past
    /// misfits, use [`stream`](Self::stream).
    pub async fn all(mut self) -> Result<Vec<J::Item>> {
        self.resolve_related().await?;
        let find = self.to_operation()?;
        self.read_all(find).await
    }

    /// Returns the document with a key, for a query without conditions.
    pub(super) async fn with_key(self, key: &Key<T>) -> Result<Option<J::Item>> {
        let find = operation::FindOperation {
            filter: key.to_raw()?,
            limit: Some(1),
            ..self.to_operation()?
        };
        Ok(self.read_all(find).await?.pop())
    }

    /// Returns whether a document with a key exists, for a query without conditions.
    pub(super) async fn has_key(self, key: &Key<T>) -> Result<bool> {
        let count = operation::CountOperation {
            collection: T::COLLECTION.into(),
            filter: key.to_raw()?,
            limit: Some(1),
            options: self.read_options(),
        };
        Ok(self.access.count(&T::MODEL, count).await? > 0)
    }

    /// Returns the documents with the ids, in the order of the ids, for a query without conditions.
    pub(super) async fn with_ids(self, ids: &[T::Id]) -> Result<Links<J::Item>>
    where
        J::Item: LinkItem<Of = T>,
    {
        relation::load_by_ids::<P, J>(self.access, ids, self.joins).await
    }

    async fn read_all(self, find: operation::FindOperation) -> Result<Vec<J::Item>> {
        let access = self.access;
        access.record_query(&T::MODEL, &find);
        let find_again = find.projection.is_some().then(|| find.clone());
        let raws = access.find_all(&T::MODEL, find).await?;
        let items = decode_and_join::<P, J>(access.clone(), raws, self.joins).await?;
        match (items.into_iter().collect(), find_again) {
            (Err(misfit), Some(find)) => Err(add_id_to_error::<P>(&access, find, misfit, 0).await),
            (all, _) => all,
        }
    }

    /// Returns up to `size` of the matching documents, chosen at random and in random order.
    ///
    /// The database reads all matching documents, so a condition with an index makes the call cheap.
    ///
    /// # Errors
    ///
    /// The errors of [`all`](Self::all); [`Invalid`](ErrorKind::Invalid) for a query with a `sort` or a `limit`, and
    /// [`Unsupported`](ErrorKind::Unsupported) with [`current`](Self::current).
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "posts")]
    /// # struct Post { #[serde(rename = "_id")] id: i64, votes: i64 }
    /// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Blog>::open("memory:").await?;
    /// # for id in 0..9 { db.insert(Post { id, votes: id }).await?; }
    /// let posts = db.find::<Post>().filter(|p| p.votes().gte(3)).sample(2).await?;
    /// assert_eq!(posts.len(), 2);
    /// assert!(posts.iter().all(|post| post.votes >= 3));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub async fn sample(mut self, size: u32) -> Result<Vec<J::Item>> {
        self.resolve_related().await?;
        let stages = self.sampling_stages(size).map_err(error::of_model::<T>)?;
        let Some(stages) = stages else {
            return Ok(Vec::new());
        };
        let query = pipeline::to_aggregate::<T>(stages, self.read_options());
        let raws = self.access.aggregate_all(&T::MODEL, query).await?;
        let items = decode_and_join::<P, J>(self.access, raws, self.joins).await?;
        items.into_iter().collect()
    }

    /// Returns the stages of a random sample, or `None` for a sample without documents: MongoDB refuses a size of 0.
    fn sampling_stages(&self, size: u32) -> Result<Option<Vec<RawDocumentBuf>>> {
        if !self.sort.is_empty() || self.limit.is_some() {
            let message = "a sample has a size and a random order: leave out `sort` and `limit`";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let find = self.to_operation()?;
        let mut stages = pipeline::match_stage(self)?;
        stages.push(single_field_document(
            "$sample",
            single_field_document("size", i64::from(size))?,
        )?);
        if let Some(projection) = find.projection {
            stages.push(single_field_document("$project", projection)?);
        }
        Ok((size > 0).then_some(stages))
    }

    /// Never callable: see [`Locks`].
    #[doc(hidden)]
    pub fn for_update(self) -> Self
    where
        T: Locks,
    {
        self
    }

    /// Never callable: see [`OmitsFields`].
    #[doc(hidden)]
    pub fn without<F>(self, fields: F) -> Self
    where
        T: OmitsFields,
    {
        let _ = fields;
        self
    }

    /// Streams the documents that match, read in batches.
    ///
    /// A document that does not fit the model is an error in its place; the stream continues with the next document. The query
    /// loads joins once per batch.
    pub fn stream(self) -> Rows<J::Item> {
        let start = RowsState::<S, T, P, J>::Start(self.erase_scope());
        Rows(Box::pin(stream::unfold(start, RowsState::next_row).fuse()))
    }

    /// Counts the documents that match, up to the limit.
    ///
    /// # Errors
    ///
    /// Errors of the backend.
    pub async fn count(mut self) -> Result<u64> {
        self.resolve_related().await?;
        let count = operation::CountOperation {
            collection: T::COLLECTION.into(),
            filter: self.raw_filter()?,
            limit: self.limit,
            options: self.read_options(),
        };
        self.access.count(&T::MODEL, count).await
    }

    /// Returns whether a document matches.
    ///
    /// # Errors
    ///
    /// Errors of the backend.
    pub async fn exists(self) -> Result<bool> {
        Ok(self.limit(1).count().await? > 0)
    }

    /// Returns the query plan and its cost. Use the plan to see whether an index serves the query.
    ///
    /// `explain` runs the query without the joins. For a condition on related documents, such as `p.category().matches(…)`,
    /// [`related`](operation::Explain::related) has the strategy, and [`warnings`](operation::Explain::warnings) names the
    /// conditions that no index serves.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "posts")]
    /// # struct Post { #[serde(rename = "_id")] id: i64, #[index] author: String }
    /// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
    /// # async fn example(db: odm::Database<Blog>) -> odm::Result<()> {
    /// let explain = db.find::<Post>().filter(|p| p.author().eq("alex")).explain().await?;
    /// assert!(!explain.is_collection_scan);
    /// assert_eq!(explain.documents_examined, explain.returned);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of the backend; [`Unsupported`](ErrorKind::Unsupported) in a transaction on MongoDB.
    pub async fn explain(mut self) -> Result<operation::Explain> {
        let filter = mem::replace(&mut self.filter, FilterNode::All);
        let (resolved, related) = explain_related(&self.access, &T::MODEL, filter).await?;
        self.set_resolved(resolved);
        let find = self.to_operation()?;
        let explain = explain_in_scope(&self.access, &T::MODEL, find).await?;
        Ok(operation::Explain { related, ..explain })
    }

    /// Resolves the conditions on related documents.
    async fn resolve_related(&mut self) -> Result<()> {
        let filter = mem::replace(&mut self.filter, FilterNode::All);
        let resolved = resolve_for_read(&self.access, &T::MODEL, filter).await?;
        self.set_resolved(resolved);
        Ok(())
    }

    fn set_resolved(&mut self, resolved: Resolved) {
        self.filter = resolved.filter;
        self.options.lookups.extend(resolved.lookups);
    }

    /// Returns the options of the main read, without the options that all reads share.
    fn read_options(&self) -> operation::ReadOptions {
        self.options.clone()
    }

    fn raw_filter(&self) -> Result<RawDocumentBuf> {
        Filter::<T>::from_node(self.filter.clone())
            .to_raw()
            .map_err(error::of_model::<T>)
    }

    fn to_operation(&self) -> Result<operation::FindOperation> {
        let projection = projection::to_raw::<P>(&self.joins.needed_fields()?)?;
        if self.access.reads_current_copies() && projection.is_some() {
            let message = "`current` reads whole documents: leave out `select` or `current`";
            return Err(error::of_model::<T>(Error::new(
                ErrorKind::Unsupported,
                message,
            )));
        }
        Ok(operation::FindOperation {
            collection: T::COLLECTION.into(),
            filter: self.raw_filter()?,
            projection,
            sort: sort_to_raw(&self.sort)?,
            limit: self.limit,
            options: self.read_options(),
        })
    }
}

impl<S, T: Document, P, J: Clone, C> Clone for Find<S, T, P, J, C> {
    fn clone(&self) -> Self {
        Self {
            access: self.access.for_repeat(),
            filter: self.filter.clone(),
            sort: self.sort.clone(),
            limit: self.limit,
            options: self.options.clone(),
            joins: self.joins.clone(),
            marker: PhantomData,
        }
    }
}

/// Adds the `_id` to the error of a row that does not fit its type. The projection left the `_id` out, so the query runs again
/// with the `_id`. `earlier_misfits` is the number of earlier rows that did not fit.
async fn add_id_to_error<P: Projection<Of: Document>>(
    access: &Access,
    mut find: operation::FindOperation,
    misfit: Error,
    earlier_misfits: usize,
) -> Error {
    let model = &P::Of::MODEL;
    let is_named = misfit.kind() != ErrorKind::Decode || misfit.id().is_some();
    let Some(projection) = find.projection.take().filter(|_| !is_named) else {
        return misfit;
    };
    let second_read = async {
        let mut projection = stored::parse_document(&projection)?;
        projection.insert("_id", 1);
        find.projection = Some(stored::to_raw_document(&projection)?);
        let mut remaining = earlier_misfits;
        let mut rows = access.find(model, find).await?;
        loop {
            let batch = rows.next_batch().await?;
            if batch.is_empty() {
                return Ok(None);
            }
            for raw in batch {
                match P::from_document(&raw, model) {
                    Err(error) if remaining == 0 => return Ok(Some(error)),
                    Err(_) => remaining -= 1,
                    Ok(_) => {}
                }
            }
        }
    };
    match second_read.await {
        Ok::<_, Error>(Some(named)) if named.path() == misfit.path() => named,
        // The row has changed since the first read: another write came between.
        _ => misfit,
    }
}

/// Decodes the rows of a query and loads the joins.
async fn decode_and_join<P: Projection<Of: Document>, J: Joins<P>>(
    access: Access,
    mut raws: Vec<RawDocumentBuf>,
    joins: J,
) -> Result<Vec<Result<J::Item>>> {
    if access.reads_current_copies() {
        let refreshed = refresh_copies(access.to(&P::Of::MODEL), &mut raws).await;
        refreshed.map_err(error::of_model::<P::Of>)?;
    }
    let (roots, raws) = decode_all::<P>(raws);
    // Soft-deleted parents do not make soft-deleted joined documents visible.
    let access = access.with_visibility(Visibility::Present);
    joins.load_relations(access, raws, roots).await
}

/// A [`Stream`] of the documents of a query. A failed document is an error in its place.
#[must_use = "a stream reads nothing until polled"]
pub struct Rows<T>(Pin<Box<dyn Stream<Item = Result<T>> + Send>>);

impl<T> Rows<T> {
    pub(super) fn from_stream(rows: impl Stream<Item = Result<T>> + Send + 'static) -> Self {
        Self(Box::pin(rows))
    }

    /// Returns the next document, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Errors of the backend, and [`Decode`](ErrorKind::Decode) for a document that does not fit its type.
    pub async fn next(&mut self) -> Option<Result<T>> {
        self.0.next().await
    }
}

impl<T> Stream for Rows<T> {
    type Item = Result<T>;
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

enum RowsState<S, T: Document, P: Projection<Of = T>, J: Joins<P>> {
    Start(Find<S, T, P, J>),
    Open(OpenRows<P, J>),
    Finished,
}

struct OpenRows<P: Projection<Of: Document>, J: Joins<P>> {
    access: Access,
    find: operation::FindOperation,
    cursor: Box<dyn Cursor>,
    /// The number of rows that did not fit the model so far.
    misfits: usize,
    joins: J,
    ready: VecDeque<Result<J::Item>>,
    of: PhantomData<fn() -> P>,
}

impl<S: Schema, T: Document, P: Projection<Of = T>, J: Joins<P>> RowsState<S, T, P, J> {
    async fn next_row(self) -> Option<(Result<J::Item>, Self)> {
        let mut open = match self {
            Self::Finished => return None,
            Self::Open(open) => open,
            Self::Start(find) => match OpenRows::open_query(find).await {
                Ok(open) => open,
                Err(error) => return Some((Err(error::of_model::<T>(error)), Self::Finished)),
            },
        };
        while open.ready.is_empty() {
            match open.read_batch().await {
                Ok(true) => {}
                Ok(false) => return None,
                // A failed cursor cannot continue.
                Err(error) => return Some((Err(error::of_model::<T>(error)), Self::Finished)),
            }
        }
        let item = match open.ready.pop_front()? {
            Err(misfit) if misfit.kind() == ErrorKind::Decode => {
                let earlier_misfits = open.misfits;
                open.misfits += 1;
                Err(
                    add_id_to_error::<P>(&open.access, open.find.clone(), misfit, earlier_misfits)
                        .await,
                )
            }
            item => item,
        };
        Some((item, Self::Open(open)))
    }
}

impl<P: Projection<Of: Document>, J: Joins<P>> OpenRows<P, J> {
    async fn open_query<S: Schema>(mut find: Find<S, P::Of, P, J>) -> Result<Self> {
        find.resolve_related().await?;
        let query = find.to_operation()?;
        find.access.record_query(&P::Of::MODEL, &query);
        Ok(Self {
            cursor: find.access.find(&P::Of::MODEL, query.clone()).await?,
            find: query,
            access: find.access,
            misfits: 0,
            joins: find.joins,
            ready: VecDeque::new(),
            of: PhantomData,
        })
    }

    async fn read_batch(&mut self) -> Result<bool> {
        let raws = self.cursor.next_batch().await?;
        if raws.is_empty() {
            return Ok(false);
        }
        self.access
            .operation_metrics()
            .add_documents(raws.len() as u64);
        let items = decode_and_join::<P, J>(self.access.clone(), raws, self.joins.clone()).await?;
        self.ready.extend(items);
        Ok(true)
    }
}
