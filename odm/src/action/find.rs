//! Queries.

mod calculate;
mod drift;
mod group;
mod page;
mod pipeline;
mod under;

use std::{
    collections::VecDeque,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bson::RawDocumentBuf;
use futures_core::Stream;
use futures_util::{StreamExt, stream};

pub use calculate::Calculation;
pub use drift::{Drift, FindDrift};
pub use group::{GroupBy, Grouped};
pub use page::{FindPage, IntoPageToken, Page, PageToken};
pub use pipeline::Pipeline;

use crate::{
    Error, ErrorKind, Result,
    access::Access,
    backend::{Cursor, operation},
    decode::decode_all,
    document::Document,
    error,
    maintain::bring_current,
    projection::{self, Projection, ProjectionOf},
    query::{Filter, IntoFilter, IntoSort, Node, Sort, sort_to_raw},
    relation::{Append, Children, IntoJoin, Join, Joins},
    schema::{Contains, OfSchema, Schema},
    scope::{AllScopes, InScope, Unscoped},
    soft_delete::{Sight, SoftDelete},
    stored,
};

/// A query over the documents of the model `T`, read as `P` and joined with `J`; made by
/// [`Session::find`](crate::Session::find).
///
/// `C` is for whom the session of the query works: see [`scope`](crate::scope).
///
/// It runs when one of [`one`](Self::one), [`first`](Self::first), [`all`](Self::all), [`stream`](Self::stream),
/// [`count`](Self::count) and [`exists`](Self::exists) is called.
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
    filter: Node,
    sort: Vec<Sort<T>>,
    limit: Option<u64>,
    joins: J,
    of: Marker<(S, P, C)>,
}

/// Types that a query speaks about without holding them.
type Marker<T> = PhantomData<fn() -> T>;

impl<S: Schema, T: Document, C> Find<S, T, T, (), C> {
    pub(crate) fn new(access: Access) -> Self {
        Self {
            access,
            filter: Node::All,
            sort: Vec::new(),
            limit: None,
            joins: (),
            of: PhantomData,
        }
    }

    /// Reads copies as their sources are now, whatever is owed yet: see [`Database::settled`](crate::Database::settled) for waiting
    /// until they are so in the database.
    ///
    /// The sources are read behind the documents: one query for each model that these are of, by their ids. It is about the documents
    /// of this query, not those that are joined with them; and a condition on a copy asks for what is stored.
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
    /// [`Unsupported`](ErrorKind::Unsupported) with a [`select`](Self::select) behind it: it reads whole documents.
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
            joins: (),
            of: PhantomData,
        }
    }
}

impl<S: Schema, T: Document, P: Projection<Of = T>, J: Joins<P>, C> Find<S, T, P, J, C> {
    /// Only documents that meet the condition, and those of further calls.
    pub fn filter<F: IntoFilter<T>>(mut self, condition: impl FnOnce(T::Fields) -> F) -> Self {
        if let Some(filter) = condition(T::fields()).into_filter() {
            self.filter = self.filter.and(filter.into_node());
        }
        self
    }

    /// In this order; a further call orders what this one leaves equal.
    pub fn sort<O: IntoSort<T>>(mut self, order: impl FnOnce(T::Fields) -> O) -> Self {
        self.sort.extend(order(T::fields()).into_sorts());
        self
    }

    /// Also documents that are deleted by a mark: see [`SoftDelete`]. What is joined is seen only if it is not deleted.
    pub fn with_deleted(mut self) -> Self
    where
        T: SoftDelete,
    {
        self.access = self.access.seeing(Sight::All);
        self
    }

    /// Only documents that are deleted by a mark: see [`SoftDelete`]. What is joined is seen only if it is not deleted.
    pub fn only_deleted(mut self) -> Self
    where
        T: SoftDelete,
    {
        self.access = self.access.seeing(Sight::Deleted);
        self
    }

    /// This many documents at most.
    pub fn limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// A time limit for the query: all its round trips together, those of joins and of the batches of a
    /// [`stream`](Self::stream) included. The time that the caller takes between two batches does not count.
    ///
    /// A query that takes longer is an error of kind [`Timeout`](ErrorKind::Timeout) with the operation, the collection and
    /// the limit, and ends on the server too: MongoDB is told by `maxTimeMS`. If a server does not answer at all, the error
    /// comes one second after the limit.
    pub fn max_time(mut self, limit: Duration) -> Self {
        self.access = self.access.limited(limit);
        self
    }

    /// Brings along what a reference leads to: one query more, whatever the number of documents.
    ///
    /// The item becomes a tuple with a [`Link`](crate::relation::Link), an option of one or
    /// [`Links`](crate::relation::Links). Up to 10,000 different ids go into one query. A reference inside of an enum's variant is
    /// named in the variant's closure, `|a| a.owner().user(|user| user)`: see [`relation`](crate::relation).
    pub fn with<K: IntoJoin<Scope = T, Out: InScope<C> + OfSchema<S>>>(
        self,
        relation: impl FnOnce(T::Fields) -> K,
    ) -> Find<S, T, P, J::Then, C>
    where
        J: Append<Join<T, K::Out>>,
    {
        let join = relation(T::fields()).into_join();
        self.append(join)
    }

    /// Brings along the documents that refer to each: one query more, whatever the number of documents.
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
        J: Append<Join<T, Vec<K::Item>>>,
        K: Joins<Q, Item: InScope<C> + OfSchema<S>>,
        Q: Projection<Of = D>,
        S: Contains<D, AllScopes>,
    {
        self.append(children.into_join())
    }

    /// The same query, of which all that it joins has been checked to be in reach.
    fn checked(self) -> Find<S, T, P, J> {
        Find {
            access: self.access,
            filter: self.filter,
            sort: self.sort,
            limit: self.limit,
            joins: self.joins,
            of: PhantomData,
        }
    }

    fn append<X>(self, join: X) -> Find<S, T, P, J::Then, C>
    where
        J: Append<X>,
    {
        Find {
            access: self.access,
            filter: self.filter,
            sort: self.sort,
            limit: self.limit,
            joins: self.joins.append(join),
            of: PhantomData,
        }
    }

    /// The only document that matches.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) if none does, [`NotUnique`](ErrorKind::NotUnique) if several do.
    pub async fn one(self) -> Result<J::Item> {
        let mut items = self.limit(2).all().await?;
        match (items.pop(), items.is_empty()) {
            (Some(item), true) => Ok(item),
            (None, _) => Err(error::of_model::<T>(Error::new(
                ErrorKind::NotFound,
                "no document meets the condition",
            ))),
            (Some(_), false) => Err(error::of_model::<T>(Error::new(
                ErrorKind::NotUnique,
                "more than one document meets the condition: narrow it, or ask for the `first`",
            ))),
        }
    }

    /// The first document that matches, if any.
    ///
    /// # Errors
    ///
    /// Those of the backend, and of a document that does not fit the model.
    pub async fn first(self) -> Result<Option<J::Item>> {
        Ok(self.limit(1).all().await?.pop())
    }

    /// All documents that match.
    ///
    /// # Errors
    ///
    /// Those of the backend, and that of the first document that does not fit the model;
    /// [`stream`](Self::stream) reads past such documents.
    pub async fn all(self) -> Result<Vec<J::Item>> {
        let access = self.access.clone();
        let find = self.to_operation()?;
        access.note(&T::MODEL, &find);
        let again = find.projection.is_some().then(|| find.clone());
        let raws = access.find_all(&T::MODEL, find).await?;
        let items = assemble::<P, J>(access.clone(), raws, self.joins).await?;
        match (items.into_iter().collect(), again) {
            (Err(misfit), Some(find)) => Err(with_id::<P>(&access, find, misfit, 0).await),
            (all, _) => all,
        }
    }

    /// The documents that match, one after the other, read in batches.
    ///
    /// A document that does not fit the model is an error in its place, and the stream goes on behind it. Joins are
    /// loaded for each batch.
    pub fn stream(self) -> Rows<J::Item> {
        let start = State::<S, T, P, J>::Start(self.checked());
        Rows(Box::pin(stream::unfold(start, State::next).fuse()))
    }

    /// How many documents match, up to the limit.
    ///
    /// # Errors
    ///
    /// Those of the backend.
    pub async fn count(self) -> Result<u64> {
        let count = operation::Count {
            collection: T::COLLECTION.into(),
            filter: self.raw_filter()?,
            limit: self.limit,
            max_time: None,
        };
        self.access.count(&T::MODEL, count).await
    }

    /// Whether a document matches.
    ///
    /// # Errors
    ///
    /// Those of the backend.
    pub async fn exists(self) -> Result<bool> {
        Ok(self.limit(1).count().await? > 0)
    }

    /// How the documents are found, and what that takes: the way to see whether an index serves the query.
    ///
    /// It carries the query out, without its joins.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "posts")]
    /// # struct Post { #[serde(rename = "_id")] id: i64, #[index] author: String }
    /// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
    /// # async fn example(db: odm::Database<Blog>) -> odm::Result<()> {
    /// let explain = db.find::<Post>().filter(|p| p.author().eq("alex")).explain().await?;
    /// assert!(!explain.is_scan);
    /// assert_eq!(explain.documents_examined, explain.returned);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of the backend; [`Unsupported`](ErrorKind::Unsupported) in a transaction on MongoDB.
    pub async fn explain(self) -> Result<operation::Explain> {
        let find = self.to_operation()?;
        self.access.explain(&T::MODEL, find).await
    }

    fn raw_filter(&self) -> Result<RawDocumentBuf> {
        Filter::<T>::from_node(self.filter.clone())
            .to_raw()
            .map_err(error::of_model::<T>)
    }

    fn to_operation(&self) -> Result<operation::Find> {
        let projection = projection::to_raw::<P>(&self.joins.needs()?)?;
        if self.access.is_current() && projection.is_some() {
            let message = "copies are read as their sources are now with whole documents: leave out `select`, or `current`";
            return Err(error::of_model::<T>(Error::new(
                ErrorKind::Unsupported,
                message,
            )));
        }
        Ok(operation::Find {
            collection: T::COLLECTION.into(),
            filter: self.raw_filter()?,
            projection,
            sort: sort_to_raw(&self.sort)?,
            limit: self.limit,
            max_time: None,
        })
    }
}

impl<S, T: Document, P, J: Clone, C> Clone for Find<S, T, P, J, C> {
    fn clone(&self) -> Self {
        Self {
            access: self.access.again(),
            filter: self.filter.clone(),
            sort: self.sort.clone(),
            limit: self.limit,
            joins: self.joins.clone(),
            of: PhantomData,
        }
    }
}

/// Adds the `_id` to the error of a row that does not fit its type. The query did not read the `_id`, so it runs again with it. `before`
/// is the number of earlier rows that did not fit.
async fn with_id<P: Projection<Of: Document>>(
    access: &Access,
    mut find: operation::Find,
    misfit: Error,
    before: usize,
) -> Error {
    let model = &P::Of::MODEL;
    let is_named = misfit.kind() != ErrorKind::Decode || misfit.id().is_some();
    let Some(projection) = find.projection.take().filter(|_| !is_named) else {
        return misfit;
    };
    let ask = async {
        let mut projection = stored::open(&projection)?;
        projection.insert("_id", 1);
        find.projection = Some(stored::close(&projection)?);
        let mut before = before;
        let mut rows = access.find(model, find).await?;
        loop {
            let batch = rows.next_batch().await?;
            if batch.is_empty() {
                return Ok(None);
            }
            for raw in batch {
                match P::from_document(&raw, model) {
                    Err(error) if before == 0 => return Ok(Some(error)),
                    Err(_) => before -= 1,
                    Ok(_) => {}
                }
            }
        }
    };
    match ask.await {
        Ok::<_, Error>(Some(named)) if named.path() == misfit.path() => named,
        // Another write came between.
        _ => misfit,
    }
}

/// Documents as the query gives them: decoded, and joined.
async fn assemble<P: Projection<Of: Document>, J: Joins<P>>(
    access: Access,
    mut raws: Vec<RawDocumentBuf>,
    joins: J,
) -> Result<Vec<Result<J::Item>>> {
    if access.is_current() {
        let brought = bring_current(&access, &P::Of::MODEL, &mut raws).await;
        brought.map_err(error::of_model::<P::Of>)?;
    }
    let (roots, raws) = decode_all::<P>(raws);
    // Whether what is joined is seen is not said by whether its parents are.
    let access = access.seeing(Sight::Present);
    joins.load(access, raws, roots).await
}

/// The documents of a query, one after the other: a [`Stream`].
#[must_use = "a stream reads nothing until it is polled"]
pub struct Rows<T>(Pin<Box<dyn Stream<Item = Result<T>> + Send>>);

impl<T> Rows<T> {
    pub(super) fn of(rows: impl Stream<Item = Result<T>> + Send + 'static) -> Self {
        Self(Box::pin(rows))
    }

    /// The next document, if there is one more.
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

enum State<S, T: Document, P: Projection<Of = T>, J: Joins<P>> {
    Start(Find<S, T, P, J>),
    Open(Open<P, J>),
    Over,
}

struct Open<P: Projection<Of: Document>, J: Joins<P>> {
    access: Access,
    find: operation::Find,
    cursor: Box<dyn Cursor>,
    /// How many rows did not fit.
    misfits: usize,
    joins: J,
    ready: VecDeque<Result<J::Item>>,
    of: PhantomData<fn() -> P>,
}

impl<S: Schema, T: Document, P: Projection<Of = T>, J: Joins<P>> State<S, T, P, J> {
    async fn next(self) -> Option<(Result<J::Item>, Self)> {
        let mut open = match self {
            Self::Over => return None,
            Self::Open(open) => open,
            Self::Start(find) => match Open::start(find).await {
                Ok(open) => open,
                Err(error) => return Some((Err(error::of_model::<T>(error)), Self::Over)),
            },
        };
        while open.ready.is_empty() {
            match open.fill().await {
                Ok(true) => {}
                Ok(false) => return None,
                // A cursor that failed has no way to go on.
                Err(error) => return Some((Err(error::of_model::<T>(error)), Self::Over)),
            }
        }
        let item = match open.ready.pop_front()? {
            Err(misfit) if misfit.kind() == ErrorKind::Decode => {
                let before = open.misfits;
                open.misfits += 1;
                Err(with_id::<P>(&open.access, open.find.clone(), misfit, before).await)
            }
            item => item,
        };
        Some((item, Self::Open(open)))
    }
}

impl<P: Projection<Of: Document>, J: Joins<P>> Open<P, J> {
    async fn start<S: Schema>(find: Find<S, P::Of, P, J>) -> Result<Self> {
        let ask = find.to_operation()?;
        find.access.note(&P::Of::MODEL, &ask);
        Ok(Self {
            cursor: find.access.find(&P::Of::MODEL, ask.clone()).await?,
            find: ask,
            access: find.access,
            misfits: 0,
            joins: find.joins,
            ready: VecDeque::new(),
            of: PhantomData,
        })
    }

    async fn fill(&mut self) -> Result<bool> {
        let raws = self.cursor.next_batch().await?;
        if raws.is_empty() {
            return Ok(false);
        }
        self.access.told().had(raws.len() as u64);
        let items = assemble::<P, J>(self.access.clone(), raws, self.joins.clone()).await?;
        self.ready.extend(items);
        Ok(true)
    }
}
