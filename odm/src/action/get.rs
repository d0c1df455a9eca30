//! Reading by id.

use std::{pin::Pin, time::Duration};

use bson::RawDocumentBuf;

use super::Elements;
use crate::{
    Result,
    access::Access,
    backend::operation::Find,
    decode::decode_all,
    document::{Document, OverflowArray},
    error,
    field::{In, Place},
    query::Key,
    relation::{self, Links},
    soft_delete::{Sight, SoftDelete},
};

/// Reads the document with an id; made by [`Session::get`](crate::Session::get).
#[must_use = "a read happens when it is awaited"]
pub struct Get<T: Document>(FindById<T>);

impl<T: Document> Get<T> {
    pub(crate) fn new(access: Access, key: Key<T>) -> Self {
        Self(FindById::new(access, key))
    }

    /// Also if it is deleted by a mark: see [`SoftDelete`].
    pub fn with_deleted(self) -> Self
    where
        T: SoftDelete,
    {
        Self(self.0.with_deleted())
    }

    /// A time limit for the read: an error of kind [`Timeout`](crate::ErrorKind::Timeout) if it takes longer, see
    /// [`Find::max_time`](super::Find::max_time).
    pub fn max_time(self, limit: Duration) -> Self {
        Self(self.0.max_time(limit))
    }

    /// The elements of an array of the document that overflows, wherever they are. Nothing is read before it is asked for one of
    /// [them](Elements); without the document that is an error of kind [`NotFound`](crate::ErrorKind::NotFound).
    pub fn elements<P>(
        self,
        array: impl FnOnce(T::Fields) -> P,
    ) -> Elements<T, <P::Value as OverflowArray>::Element>
    where
        P: Place<Scope: In<T>, Value: OverflowArray>,
    {
        let FindById { access, key } = self.0;
        // Read all parts of the array from one server: parts of different age do not fit together.
        let access = access.reading_from_primary();
        Elements::new(access, key, &array(T::fields()).path())
    }
}

impl<T: Document> IntoFuture for Get<T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let FindById { access, key } = self.0;
            let found = by_key(&access, &key).await?;
            found.ok_or_else(|| error::not_found::<T>(key.id()))
        })
    }
}

/// Reads the document with an id, if there is one; made by [`Session::find_by_id`](crate::Session::find_by_id).
#[must_use = "a read happens when it is awaited"]
pub struct FindById<T: Document> {
    access: Access,
    key: Key<T>,
}

impl<T: Document> FindById<T> {
    pub(crate) fn new(access: Access, key: Key<T>) -> Self {
        Self { access, key }
    }

    /// Also if it is deleted by a mark: see [`SoftDelete`].
    pub fn with_deleted(self) -> Self
    where
        T: SoftDelete,
    {
        let access = self.access.seeing(Sight::All);
        Self { access, ..self }
    }

    /// A time limit for the read: an error of kind [`Timeout`](crate::ErrorKind::Timeout) if it takes longer, see
    /// [`Find::max_time`](super::Find::max_time).
    pub fn max_time(self, limit: Duration) -> Self {
        let access = self.access.limited(limit);
        Self { access, ..self }
    }
}

impl<T: Document> IntoFuture for FindById<T> {
    type Output = Result<Option<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { by_key(&self.access, &self.key).await })
    }
}

/// Reads documents by their ids; made by [`Session::get_many`](crate::Session::get_many).
///
/// It gives one [`Link`](crate::relation::Link) for each id, in the order of the ids.
#[must_use = "a read happens when it is awaited"]
pub struct GetMany<T: Document> {
    access: Access,
    ids: Vec<T::Id>,
}

impl<T: Document> GetMany<T> {
    pub(crate) fn new(access: Access, ids: Vec<T::Id>) -> Self {
        Self { access, ids }
    }

    /// Also those that are deleted by a mark: see [`SoftDelete`].
    pub fn with_deleted(self) -> Self
    where
        T: SoftDelete,
    {
        let access = self.access.seeing(Sight::All);
        Self { access, ..self }
    }

    /// A time limit for the read: an error of kind [`Timeout`](crate::ErrorKind::Timeout) if it takes longer, see
    /// [`Find::max_time`](super::Find::max_time).
    pub fn max_time(self, limit: Duration) -> Self {
        let access = self.access.limited(limit);
        Self { access, ..self }
    }
}

impl<T: Document> IntoFuture for GetMany<T> {
    type Output = Result<Links<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { relation::by_ids(self.access, &self.ids).await })
    }
}

/// Reads one document by its id.
async fn by_key<T: Document>(access: &Access, key: &Key<T>) -> Result<Option<T>> {
    let stored = stored_by_key::<T>(access, key).await?;
    decode_all(stored.into_iter().collect()).0.pop().transpose()
}

/// Reads one document by its id, as it is stored.
pub(super) async fn stored_by_key<T: Document>(
    access: &Access,
    key: &Key<T>,
) -> Result<Option<RawDocumentBuf>> {
    let find = Find {
        collection: T::COLLECTION.into(),
        filter: key.to_raw()?,
        projection: None,
        sort: None,
        limit: Some(1),
        max_time: None,
    };
    access.note(&T::MODEL, &find);
    Ok(access.find_all(&T::MODEL, find).await?.pop())
}
