//! Reading by id.

use std::{pin::Pin, sync::Arc};

use crate::{
    Result,
    backend::{Executor, drain, operation::Find},
    decode::decode_all,
    document::Document,
    query::{document, encode},
    relation::{self, Links},
};

/// Reads documents by their ids; made by [`Session::get_many`](crate::Session::get_many).
///
/// It gives one [`Link`](crate::relation::Link) for each id, in the order of the ids.
#[must_use = "a read happens when it is awaited"]
pub struct GetMany<T: Document> {
    executor: Arc<dyn Executor>,
    ids: Vec<T::Id>,
}

impl<T: Document> GetMany<T> {
    pub(crate) fn new(executor: Arc<dyn Executor>, ids: Vec<T::Id>) -> Self {
        Self { executor, ids }
    }
}

impl<T: Document> IntoFuture for GetMany<T> {
    type Output = Result<Links<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { relation::by_ids(self.executor, &self.ids).await })
    }
}

/// Reads one document by its id.
pub(crate) async fn by_id<T: Document>(executor: &dyn Executor, id: &T::Id) -> Result<Option<T>> {
    let cursor = executor
        .find(Find {
            collection: T::COLLECTION.into(),
            filter: document("_id", document("$eq", encode(id)?)?)?,
            projection: None,
            sort: None,
            limit: Some(1),
        })
        .await?;
    decode_all(drain(cursor).await?).0.pop().transpose()
}
