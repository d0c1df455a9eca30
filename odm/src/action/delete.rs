//! Deleting documents.

use std::{pin::Pin, sync::Arc};

use super::target::Target;
pub use crate::backend::operation::Deleted;
use crate::{
    Result,
    backend::{Executor, operation},
    document::Document,
    error,
    maintain::Plan,
    query::{Filter, IntoFilter},
};

/// Deletes documents; made by [`Session::delete`](crate::Session::delete) and
/// [`Session::delete_many`](crate::Session::delete_many).
///
/// Deleting what is not there is no error: [`Deleted::deleted`] is 0.
#[must_use = "a delete happens when it is awaited"]
pub struct Delete<T: Document> {
    executor: Arc<dyn Executor>,
    target: Target<T>,
}

impl<T: Document> Delete<T> {
    pub(crate) fn one(executor: Arc<dyn Executor>, id: T::Id) -> Self {
        Self {
            executor,
            target: Target::one(id),
        }
    }

    pub(crate) fn many(executor: Arc<dyn Executor>, condition: Filter<T>) -> Self {
        Self {
            executor,
            target: Target::many(condition),
        }
    }

    /// Only what meets the condition, looked at in the same atomic step.
    pub fn when<F: IntoFilter<T>>(mut self, condition: impl FnOnce(T::Fields) -> F) -> Self {
        self.target.when(condition);
        self
    }

    async fn run(self) -> Result<Deleted> {
        let filter = self.target.node().map(Filter::<T>::from_node);
        let write = operation::Delete {
            collection: T::COLLECTION.into(),
            filter: filter
                .and_then(|filter| filter.to_raw())
                .map_err(error::of_model::<T>)?,
            multi: self.target.is_multi(),
        };
        Plan::new(&T::MODEL, write)?.run(self.executor).await
    }
}

impl<T: Document> IntoFuture for Delete<T> {
    type Output = Result<Deleted>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
