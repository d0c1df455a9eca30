//! Reading by id.

use std::pin::Pin;

use bson::RawDocumentBuf;

use crate::{
    Result,
    access::Access,
    backend::operation::Find,
    decode::decode_all,
    document::Document,
    error,
    query::{document, encode},
    relation::{self, Links},
    soft_delete::{Sight, SoftDelete},
};

/// Reads the document with an id; made by [`Session::get`](crate::Session::get).
#[must_use = "a read happens when it is awaited"]
pub struct Get<T: Document>(FindById<T>);

impl<T: Document> Get<T> {
    pub(crate) fn new(access: Access, id: T::Id) -> Self {
        Self(FindById::new(access, id))
    }

    /// Also if it is deleted by a mark: see [`SoftDelete`].
    pub fn with_deleted(self) -> Self
    where
        T: SoftDelete,
    {
        Self(self.0.with_deleted())
    }
}

impl<T: Document> IntoFuture for Get<T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let FindById { access, id } = self.0;
            let found = by_id(&access, &id).await?;
            found.ok_or_else(|| error::not_found::<T>(&id))
        })
    }
}

/// Reads the document with an id, if there is one; made by [`Session::find_by_id`](crate::Session::find_by_id).
#[must_use = "a read happens when it is awaited"]
pub struct FindById<T: Document> {
    access: Access,
    id: T::Id,
}

impl<T: Document> FindById<T> {
    pub(crate) fn new(access: Access, id: T::Id) -> Self {
        Self { access, id }
    }

    /// Also if it is deleted by a mark: see [`SoftDelete`].
    pub fn with_deleted(self) -> Self
    where
        T: SoftDelete,
    {
        let access = self.access.seeing(Sight::All);
        Self { access, ..self }
    }
}

impl<T: Document> IntoFuture for FindById<T> {
    type Output = Result<Option<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { by_id(&self.access, &self.id).await })
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
}

impl<T: Document> IntoFuture for GetMany<T> {
    type Output = Result<Links<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { relation::by_ids(self.access, &self.ids).await })
    }
}

/// Reads one document by its id.
async fn by_id<T: Document>(access: &Access, id: &T::Id) -> Result<Option<T>> {
    let stored = stored_by_id::<T>(access, id).await?;
    decode_all(stored.into_iter().collect()).0.pop().transpose()
}

/// Reads one document by its id, as it is stored.
pub(super) async fn stored_by_id<T: Document>(
    access: &Access,
    id: &T::Id,
) -> Result<Option<RawDocumentBuf>> {
    let find = Find {
        collection: T::COLLECTION.into(),
        filter: document("_id", document("$eq", encode(id)?)?)?,
        projection: None,
        sort: None,
        limit: Some(1),
    };
    access.note(&T::MODEL, &find);
    Ok(access.find_all(&T::MODEL, find).await?.pop())
}
