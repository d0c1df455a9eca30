//! A backend that records every operation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{
    Backend, BackendTransaction, BoxFuture, Executor, operation::Operation, wrapper::Wrapper,
};
use crate::Result;

/// A wrapper around a backend that records every operation in the order of their start, also operations in transactions.
///
/// A clone shares its recording: pass a clone to the database and keep the original for inspection.
///
/// ```
/// use odm::backend::{Executor, Recorder, operation::CountOperation};
/// # use std::sync::Arc;
/// # async fn example(backend: Arc<dyn odm::backend::Backend>) -> odm::Result<()> {
/// let recorder = Recorder::new(backend);
/// let all = CountOperation { collection: "posts".into(), filter: Default::default(), limit: None, options: Default::default() };
/// recorder.count(all.clone()).await?;
/// recorder.count(all).await?;
///
/// assert_eq!(recorder.queries(), 2);
/// assert_eq!(recorder.operations().len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Recorder<T: ?Sized = dyn Backend> {
    inner: Arc<T>,
    operations: Arc<Mutex<Vec<Operation>>>,
}

impl Recorder {
    /// Wraps a backend with an empty recording.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            inner: backend,
            operations: Arc::default(),
        }
    }
}

impl<T: ?Sized> Recorder<T> {
    /// Returns all recorded operations.
    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        self.lock_operations().clone()
    }

    /// Returns the number of recorded queries.
    #[must_use]
    pub fn queries(&self) -> usize {
        self.lock_operations()
            .iter()
            .filter(|operation| operation.is_query())
            .count()
    }

    /// Returns the number of recorded writes.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.lock_operations()
            .iter()
            .filter(|operation| operation.is_write())
            .count()
    }

    /// Discards all recorded operations.
    pub fn clear(&self) {
        self.lock_operations().clear();
    }

    fn lock_operations(&self) -> MutexGuard<'_, Vec<Operation>> {
        self.operations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Clone for Recorder<T> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            operations: Arc::clone(&self.operations),
        }
    }
}

impl<T: Executor + ?Sized> Wrapper for Recorder<T> {
    type Inner = T;

    fn inner(&self) -> &T {
        &self.inner
    }

    fn perform<'a, R: Send + 'a>(
        &'a self,
        operation: Operation,
        run: BoxFuture<'a, Result<R>>,
    ) -> BoxFuture<'a, Result<R>> {
        Box::pin(async move {
            self.lock_operations().push(operation);
            run.await
        })
    }

    fn wrap_transaction(
        &self,
        transaction: Arc<dyn BackendTransaction>,
    ) -> Arc<dyn BackendTransaction> {
        Arc::new(Recorder {
            inner: transaction,
            operations: Arc::clone(&self.operations),
        })
    }

    fn wrap_backend(&self, backend: Arc<dyn Backend>) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(Recorder {
            inner: backend,
            operations: Arc::clone(&self.operations),
        }))
    }

    fn wrap_client_reads(&self, reads: Arc<dyn Executor>) -> Option<Arc<dyn Executor>> {
        Some(Arc::new(Recorder {
            inner: reads,
            operations: Arc::clone(&self.operations),
        }))
    }
}
