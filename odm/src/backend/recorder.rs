//! A backend that remembers what was asked of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Backend, BoxFuture, Executor, Transaction, operation::Operation, wrapper::Wrapper};
use crate::Result;

/// A backend around another one that keeps every operation, also those of its transactions, in the order in which they
/// were begun.
///
/// A clone is the same recorder: give one to the database and keep one to look at.
///
/// ```
/// use odm::backend::{Executor, Recorder, operation::Count};
/// # use std::sync::Arc;
/// # async fn example(backend: Arc<dyn odm::backend::Backend>) -> odm::Result<()> {
/// let recorder = Recorder::new(backend);
/// let all = Count { collection: "posts".into(), filter: Default::default(), limit: None, max_time: None };
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
    /// A recorder around a backend.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            inner: backend,
            operations: Arc::default(),
        }
    }
}

impl<T: ?Sized> Recorder<T> {
    /// All operations so far.
    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        self.lock().clone()
    }

    /// How many of them are queries.
    #[must_use]
    pub fn queries(&self) -> usize {
        self.lock()
            .iter()
            .filter(|operation| operation.is_query())
            .count()
    }

    /// How many of them are writes.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.lock()
            .iter()
            .filter(|operation| operation.is_write())
            .count()
    }

    /// Forgets all operations so far.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Operation>> {
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
            self.lock().push(operation);
            run.await
        })
    }

    fn around(&self, transaction: Arc<dyn Transaction>) -> Arc<dyn Transaction> {
        Arc::new(Recorder {
            inner: transaction,
            operations: Arc::clone(&self.operations),
        })
    }

    fn around_reads(&self, reads: Arc<dyn Executor>) -> Option<Arc<dyn Executor>> {
        Some(Arc::new(Recorder {
            inner: reads,
            operations: Arc::clone(&self.operations),
        }))
    }
}
