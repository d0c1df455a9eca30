//! Reads by id: `get`, `find_by_id`, `get_many`, `exists`.

use std::{pin::Pin, time::Duration};

use bson::RawDocumentBuf;

use super::{Elements, Find};
use crate::{
    Result,
    backend::operation::FindOperation,
    error,
    language::{
        field::{Place, SameScope},
        query::Key,
    },
    model::{
        document::{Document, OverflowArray},
        projection::{Projection, ProjectionOf},
    },
    relation::{AppendJoin, Children, IntoJoin, Join, Joins, LinkItem, Links},
    schema::{Contains, OfSchema, Schema},
    session::{
        access::Access,
        scope::{AllScopes, InScope, Unscoped},
        soft_delete::SoftDelete,
    },
};

/// Reads the document with an id; made by [`Session::get`](crate::Session::get). A missing document is an error.
///
/// Like a query, the read can join relations and read a part of the document:
///
/// ```
/// # use odm::prelude::*;
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "users")]
/// # struct User { #[serde(rename = "_id")] id: String, name: String }
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "posts")]
/// # struct Post { #[serde(rename = "_id")] id: i64, title: String, #[reference] author: Ref<User> }
/// # #[derive(Schema)] #[schema(models(User, Post))] struct Blog;
/// # async fn example(db: odm::Database<Blog>) -> odm::Result<()> {
/// let (post, author) = db.get::<Post>(7).with(|p| p.author()).await?;
/// if let Loaded(author) = author.get() {
///     println!("{} by {}", post.title, author.name);
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a read runs when awaited"]
pub struct Get<S, T: Document, P = T, J = (), C = Unscoped> {
    find: Find<S, T, P, J, C>,
    key: Key<T>,
}

/// Reads the document with an id, if the document exists; made by [`Session::find_by_id`](crate::Session::find_by_id).
#[must_use = "a read runs when awaited"]
pub struct FindById<S, T: Document, P = T, J = (), C = Unscoped> {
    find: Find<S, T, P, J, C>,
    key: Key<T>,
}

/// Reads documents by their ids; made by [`Session::get_many`](crate::Session::get_many).
///
/// Returns a [`Link`](crate::relation::Link) for each id, in the order of the ids.
#[must_use = "a read runs when awaited"]
pub struct GetMany<S, T: Document, P = T, J = (), C = Unscoped> {
    find: Find<S, T, P, J, C>,
    ids: Vec<T::Id>,
}

/// Returns whether a document with an id exists; made by [`Session::exists`](crate::Session::exists).
#[must_use = "a read runs when awaited"]
pub struct Exists<S, T: Document, C = Unscoped> {
    find: Find<S, T, T, (), C>,
    key: Key<T>,
}

impl<S: Schema, T: Document, C> Exists<S, T, C> {
    pub(crate) fn new(access: Access, key: Key<T>) -> Self {
        let find = Find::new(access);
        Self { find, key }
    }

    /// Also sees soft-deleted documents: see [`SoftDelete`].
    pub fn with_deleted(self) -> Self
    where
        T: SoftDelete,
    {
        let find = self.find.with_deleted();
        Self { find, ..self }
    }

    /// Sets a time limit for the read: see [`Find::max_time`].
    pub fn max_time(self, limit: Duration) -> Self {
        let find = self.find.max_time(limit);
        Self { find, ..self }
    }
}

impl<S: Schema, T: Document, C> IntoFuture for Exists<S, T, C> {
    type Output = Result<bool>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        let find = self.find.erase_scope();
        Box::pin(async move { find.has_key(&self.key).await })
    }
}

/// The options of a query that a read by id has, too. `$by` is the field with the id or the ids.
macro_rules! query_options {
    ($($name:ident, $by:ident: $key:ty;)*) => {$(
        impl<S: Schema, T: Document, C> $name<S, T, T, (), C> {
            pub(crate) fn new(access: Access, $by: $key) -> Self {
                let find = Find::new(access);
                Self { find, $by }
            }

            /// Reads only the fields of a [`Projection`].
            pub fn select<P: ProjectionOf<T>>(self) -> $name<S, T, P, (), C> {
                let (find, $by) = (self.find.select(), self.$by);
                $name { find, $by }
            }
        }

        impl<S: Schema, T: Document, P: Projection<Of = T>, J: Joins<P>, C> $name<S, T, P, J, C> {
            /// Joins the targets of a reference: see [`Find::with`].
            pub fn with<K: IntoJoin<Scope = T, Out: InScope<C> + OfSchema<S>>>(
                self,
                relation: impl FnOnce(T::Fields) -> K,
            ) -> $name<S, T, P, J::Then, C>
            where
                J: AppendJoin<Join<T, K::Out>>,
            {
                let (find, $by) = (self.find.with(relation), self.$by);
                $name { find, $by }
            }

            /// Joins the documents that refer to the document: see [`Find::with_children`].
            pub fn with_children<D: Document, K, Q>(
                self,
                children: Children<D, T, K, Q>,
            ) -> $name<S, T, P, J::Then, C>
            where
                J: AppendJoin<Join<T, Vec<K::Item>>>,
                K: Joins<Q, Item: InScope<C> + OfSchema<S>>,
                Q: Projection<Of = D>,
                S: Contains<D, AllScopes>,
            {
                let (find, $by) = (self.find.with_children(children), self.$by);
                $name { find, $by }
            }

            /// Also reads soft-deleted documents: see [`SoftDelete`]. Joined documents are still left out if soft-deleted.
            pub fn with_deleted(self) -> Self
            where
                T: SoftDelete,
            {
                let find = self.find.with_deleted();
                Self { find, ..self }
            }

            /// Sets a time limit for the read, which fails with [`Timeout`](crate::ErrorKind::Timeout) after the limit: see
            /// [`Find::max_time`].
            pub fn max_time(self, limit: Duration) -> Self {
                let find = self.find.max_time(limit);
                Self { find, ..self }
            }
        }
    )*};
}

query_options! {
    Get, key: Key<T>;
    FindById, key: Key<T>;
    GetMany, ids: Vec<T::Id>;
}

impl<S: Schema, T: Document, C> Get<S, T, T, (), C> {
    /// Returns a reader for the elements of an overflow array of the document, resident and spilled. Nothing is read before a
    /// call of the [reader](Elements). A missing document is then an error of kind [`NotFound`](crate::ErrorKind::NotFound).
    pub fn elements<P>(
        self,
        array: impl FnOnce(T::Fields) -> P,
    ) -> Elements<T, <P::Value as OverflowArray>::Element>
    where
        P: Place<Scope: SameScope<T>, Value: OverflowArray>,
    {
        // Read all parts of the array from one server: parts of different age do not fit together.
        let access = self.find.into_access().reading_from_primary();
        Elements::new(access, self.key, &array(T::fields()).path())
    }
}

impl<S: Schema, T: Document, P: Projection<Of = T>, J: Joins<P>, C> IntoFuture
    for Get<S, T, P, J, C>
{
    type Output = Result<J::Item>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        let find = self.find.erase_scope();
        Box::pin(async move {
            let document = find.with_key(&self.key).await?;
            document.ok_or_else(|| error::not_found::<T>(self.key.id()))
        })
    }
}

impl<S: Schema, T: Document, P: Projection<Of = T>, J: Joins<P>, C> IntoFuture
    for FindById<S, T, P, J, C>
{
    type Output = Result<Option<J::Item>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        let find = self.find.erase_scope();
        Box::pin(async move { find.with_key(&self.key).await })
    }
}

impl<S: Schema, T: Document, P, J, C> IntoFuture for GetMany<S, T, P, J, C>
where
    P: Projection<Of = T>,
    J: Joins<P, Item: LinkItem<Of = T>>,
{
    type Output = Result<Links<J::Item>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        let find = self.find.erase_scope();
        Box::pin(async move { find.with_ids(&self.ids).await })
    }
}

/// Reads the stored bytes of a document by id.
pub(super) async fn stored_by_key<T: Document>(
    access: &Access,
    key: &Key<T>,
) -> Result<Option<RawDocumentBuf>> {
    let find = FindOperation {
        collection: T::COLLECTION.into(),
        filter: key.to_raw()?,
        projection: None,
        sort: None,
        limit: Some(1),
        options: Default::default(),
    };
    access.record_query(&T::MODEL, &find);
    Ok(access.find_all(&T::MODEL, find).await?.pop())
}
