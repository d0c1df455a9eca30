//! A backend that fails on purpose.

use std::{
    fmt, future, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    Backend, BackendTransaction, BoxFuture, Executor, operation::Operation, wrapper::Wrapper,
};
use crate::{Error, ErrorKind, Result, session::task};

/// A wrapper around a backend that makes chosen operations fail, wait, or never answer.
///
/// A clone shares its faults: pass a clone to the database and keep the original to inject faults.
///
/// ```
/// use odm::backend::{Executor, Fault, Faults, operation::{CountOperation, Operation}};
/// # use std::sync::Arc;
/// # async fn example(backend: Arc<dyn odm::backend::Backend>) {
/// let faults = Faults::new(backend);
/// faults.inject(2, Operation::is_query, Fault::lost_answer());
///
/// let all = CountOperation { collection: "posts".into(), filter: Default::default(), limit: None, options: Default::default() };
/// assert!(faults.count(all.clone()).await.is_ok());
/// assert!(faults.count(all.clone()).await.is_err());
/// assert!(faults.count(all).await.is_ok());
/// # }
/// ```
#[derive(Debug)]
pub struct Faults<T: ?Sized = dyn Backend> {
    inner: Arc<T>,
    planned: Arc<Mutex<Vec<PlannedFault>>>,
}

/// The fault of one operation.
///
/// In a transaction every fault other than a delay aborts the transaction, as an error of the backend does.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Fault {
    /// The operation does not happen and fails with this error.
    FailBefore(Error),
    /// The operation happens and still fails with this error.
    FailAfter(Error),
    /// The operation happens after this delay.
    Delay(Duration),
    /// The operation does not happen and its future never completes. Dropping the future simulates a crash before the operation.
    HangBefore,
    /// The operation happens but its future never completes. Dropping the future simulates a crash after the operation.
    HangAfter,
}

impl Fault {
    /// Returns a fault after the operation: the connection is lost before the answer arrives.
    #[must_use]
    pub fn lost_answer() -> Self {
        Self::FailAfter(Error::new(
            ErrorKind::Connection,
            "injected fault: the connection was lost before the answer came",
        ))
    }
}

impl Faults {
    /// Wraps a backend, without any faults.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            inner: backend,
            planned: Arc::default(),
        }
    }
}

impl<T: ?Sized> Faults<T> {
    /// Injects a fault into the `nth` matching operation from now on, counted from 1.
    ///
    /// Every fault counts operations independently and happens once. If several faults fall on one operation, the fault that was
    /// injected first happens, and the later faults are discarded.
    pub fn inject(
        &self,
        nth: usize,
        matches: impl Fn(&Operation) -> bool + Send + Sync + 'static,
        fault: Fault,
    ) {
        self.lock_planned().push(PlannedFault {
            countdown: nth.max(1),
            matches: Box::new(matches),
            fault,
        });
    }

    /// Returns the number of faults that have not happened yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.lock_planned().len()
    }

    /// Discards the faults that have not happened yet.
    pub fn clear(&self) {
        self.lock_planned().clear();
    }

    /// Counts an operation for every planned fault, and returns the fault that is due.
    fn take_due_fault(&self, operation: &Operation) -> Option<Fault> {
        let mut plan = self.lock_planned();
        let mut due_fault = None;
        for planned in mem::take(&mut *plan) {
            match planned.count_operation(operation) {
                Ok(fault) => due_fault = due_fault.or(Some(fault)),
                Err(planned) => plan.push(planned),
            }
        }
        due_fault
    }

    fn lock_planned(&self) -> MutexGuard<'_, Vec<PlannedFault>> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Clone for Faults<T> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            planned: Arc::clone(&self.planned),
        }
    }
}

impl<T: Executor + AbortOnFault + ?Sized> Wrapper for Faults<T> {
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
            let error = match self.take_due_fault(&operation) {
                None => return run.await,
                Some(Fault::Delay(delay)) => {
                    task::sleep(delay).await;
                    return run.await;
                }
                Some(Fault::HangBefore) => future::pending().await,
                Some(Fault::HangAfter) => {
                    run.await?;
                    future::pending().await
                }
                Some(Fault::FailBefore(error)) => error,
                Some(Fault::FailAfter(error)) => {
                    run.await?;
                    error
                }
            };
            self.inner.abort_on_fault().await;
            Err(error)
        })
    }

    fn wrap_transaction(
        &self,
        transaction: Arc<dyn BackendTransaction>,
    ) -> Arc<dyn BackendTransaction> {
        Arc::new(Faults {
            inner: transaction,
            planned: Arc::clone(&self.planned),
        })
    }

    fn wrap_backend(&self, backend: Arc<dyn Backend>) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(Faults {
            inner: backend,
            planned: Arc::clone(&self.planned),
        }))
    }

    fn wrap_client_reads(&self, reads: Arc<dyn Executor>) -> Option<Arc<dyn Executor>> {
        Some(Arc::new(Faults {
            inner: reads,
            planned: Arc::clone(&self.planned),
        }))
    }
}

/// The effect of an injected error on the wrapped executor: the error aborts a transaction, but leaves a backend open.
pub trait AbortOnFault {
    /// Aborts a transaction after a fault has failed one of its operations.
    fn abort_on_fault(&self) -> BoxFuture<'_, ()>;
}

impl AbortOnFault for dyn Backend {
    fn abort_on_fault(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl AbortOnFault for dyn Executor {
    fn abort_on_fault(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl AbortOnFault for dyn BackendTransaction {
    fn abort_on_fault(&self) -> BoxFuture<'_, ()> {
        self.abort()
    }
}

/// A fault that has not happened yet.
struct PlannedFault {
    /// The number of matching operations until the fault, including the failing operation.
    countdown: usize,
    matches: Box<dyn Fn(&Operation) -> bool + Send + Sync>,
    fault: Fault,
}

impl PlannedFault {
    /// Counts one operation. Returns the fault if the fault is due now, otherwise the updated plan.
    fn count_operation(mut self, operation: &Operation) -> Result<Fault, Self> {
        if (self.matches)(operation) {
            self.countdown -= 1;
        }
        match self.countdown {
            0 => Ok(self.fault),
            _ => Err(self),
        }
    }
}

impl fmt::Debug for PlannedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planned")
            .field("countdown", &self.countdown)
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}
