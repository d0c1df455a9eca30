//! A backend that fails on purpose.

use std::{
    fmt, future, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{Backend, BoxFuture, Executor, Transaction, operation::Operation, wrapper::Wrapper};
use crate::{Error, ErrorKind, Result, task};

/// A backend around another one that makes chosen operations fail, wait, or never answer.
///
/// A clone has the same faults: give one to the database and keep one to inject them.
///
/// ```
/// use odm::backend::{Executor, Fault, Faults, operation::{Count, Operation}};
/// # use std::sync::Arc;
/// # async fn example(backend: Arc<dyn odm::backend::Backend>) {
/// let faults = Faults::new(backend);
/// faults.inject(2, Operation::is_query, Fault::lost_answer());
///
/// let all = Count { collection: "posts".into(), filter: Default::default(), limit: None, max_time: None };
/// assert!(faults.count(all.clone()).await.is_ok());
/// assert!(faults.count(all.clone()).await.is_err());
/// assert!(faults.count(all).await.is_ok());
/// # }
/// ```
#[derive(Debug)]
pub struct Faults<T: ?Sized = dyn Backend> {
    inner: Arc<T>,
    plan: Arc<Mutex<Vec<Planned>>>,
}

/// What happens to an operation.
///
/// A fault in a transaction other than a delay aborts the transaction, as an error of the backend does.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Fault {
    /// It does not happen, and fails with this error.
    Before(Error),
    /// It happens, and fails with this error all the same.
    After(Error),
    /// It happens this much later.
    Delay(Duration),
    /// It does not happen, and its future never ends: drop that, as if the process had died before the operation.
    HangBefore,
    /// It happens, but its future never ends: drop that, as if the process had died after the operation.
    HangAfter,
}

impl Fault {
    /// The operation happens, but the connection breaks before the answer is there.
    #[must_use]
    pub fn lost_answer() -> Self {
        Self::After(Error::new(
            ErrorKind::Connection,
            "injected fault: the connection was lost before the answer came",
        ))
    }
}

impl Faults {
    /// A backend without any faults yet.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            inner: backend,
            plan: Arc::default(),
        }
    }
}

impl<T: ?Sized> Faults<T> {
    /// Of the operations from now on that match, the `nth` (the first is 1) gets this fault, once.
    ///
    /// Every fault counts for itself; if several fall on one operation, the one that was injected first happens.
    pub fn inject(
        &self,
        nth: usize,
        matches: impl Fn(&Operation) -> bool + Send + Sync + 'static,
        fault: Fault,
    ) {
        self.lock().push(Planned {
            countdown: nth.max(1),
            matches: Box::new(matches),
            fault,
        });
    }

    /// How many faults have not happened yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.lock().len()
    }

    /// Forgets the faults that have not happened yet.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// The fault that is due now.
    fn due(&self, operation: &Operation) -> Option<Fault> {
        let mut plan = self.lock();
        let mut due = None;
        for planned in mem::take(&mut *plan) {
            match planned.count(operation) {
                Ok(fault) => due = due.or(Some(fault)),
                Err(planned) => plan.push(planned),
            }
        }
        due
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Planned>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Clone for Faults<T> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            plan: Arc::clone(&self.plan),
        }
    }
}

impl<T: Executor + Abandon + ?Sized> Wrapper for Faults<T> {
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
            let error = match self.due(&operation) {
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
                Some(Fault::Before(error)) => error,
                Some(Fault::After(error)) => {
                    run.await?;
                    error
                }
            };
            self.inner.abandon().await;
            Err(error)
        })
    }

    fn around(&self, transaction: Arc<dyn Transaction>) -> Arc<dyn Transaction> {
        Arc::new(Faults {
            inner: transaction,
            plan: Arc::clone(&self.plan),
        })
    }

    fn around_reads(&self, reads: Arc<dyn Executor>) -> Option<Arc<dyn Executor>> {
        Some(Arc::new(Faults {
            inner: reads,
            plan: Arc::clone(&self.plan),
        }))
    }
}

/// What an error ends: a transaction, but not a backend.
pub trait Abandon {
    /// Called when a fault fails an operation.
    fn abandon(&self) -> BoxFuture<'_, ()>;
}

impl Abandon for dyn Backend {
    fn abandon(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl Abandon for dyn Executor {
    fn abandon(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl Abandon for dyn Transaction {
    fn abandon(&self) -> BoxFuture<'_, ()> {
        self.abort()
    }
}

/// A fault that has not happened yet.
struct Planned {
    /// How many operations that match are left, this one included.
    countdown: usize,
    matches: Box<dyn Fn(&Operation) -> bool + Send + Sync>,
    fault: Fault,
}

impl Planned {
    /// The fault if it is due now, otherwise what is left to wait for.
    fn count(mut self, operation: &Operation) -> Result<Fault, Self> {
        if (self.matches)(operation) {
            self.countdown -= 1;
        }
        match self.countdown {
            0 => Ok(self.fault),
            _ => Err(self),
        }
    }
}

impl fmt::Debug for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planned")
            .field("countdown", &self.countdown)
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}
