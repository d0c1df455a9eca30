//! Tasks, timers and blocking work on the caller's Tokio runtime, or on the library's runtime if the caller has none.
//!
//! Any executor can poll the futures of this library. `tokio::spawn` and Tokio's timers panic outside of a Tokio runtime, so the
//! crate uses only this module for tasks and timers. `clippy.toml` rejects the direct calls.

#![expect(
    clippy::disallowed_methods,
    reason = "this module wraps the disallowed methods"
)]

use std::{
    any::Any,
    future::poll_fn,
    marker::PhantomData,
    pin::Pin,
    sync::LazyLock,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::future::BoxFuture;
use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::{JoinError, JoinHandle},
    time::{Sleep, Timeout},
};

use crate::{Error, ErrorKind, Result};

/// Runs the work in a task of its own, which starts now. The task runs to its end, even if the returned future is dropped.
pub(crate) fn run_to_end<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> impl Future<Output = Result<T>> + Send {
    let task = spawn(work);
    async move { task.await.flatten() }
}

/// Runs the work to its end, even if the returned future is dropped after its first poll.
///
/// The work begins on the current task. Work that has to wait then moves to a task of its own. A write in memory does not wait, and
/// so costs no task.
pub(crate) async fn run_inline_to_end<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let mut work: BoxFuture<'static, Result<T>> = Box::pin(work);
    let begun = poll_fn(|context| Poll::Ready(work.as_mut().poll(context)));
    match begun.await {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => run_to_end(work).await,
    }
}

/// Starts the work in a task of its own.
pub(crate) fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Task<T> {
    let work: BoxFuture<'static, Outcome> =
        Box::pin(async move { Box::new(work.await) as Outcome });
    Task::new(current_runtime().spawn(work))
}

/// Starts work that blocks the thread, on a thread for blocking work.
#[cfg(feature = "engine")]
pub(crate) fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Task<T> {
    let work: Box<dyn FnOnce() -> Outcome + Send> = Box::new(|| Box::new(work()));
    Task::new(current_runtime().spawn_blocking(work))
}

/// A running task. The task continues if this value is dropped.
///
/// The runtime sees a single type of task for all kinds of work. Otherwise the compiler would generate Tokio's code for a task
/// again for each kind of work: a fifth of the functions of this crate.
pub(crate) struct Task<T> {
    handle: JoinHandle<Outcome>,
    outcome: PhantomData<fn() -> T>,
}

/// The result of a task, of the type of the task.
type Outcome = Box<dyn Any + Send>;

impl<T> Task<T> {
    fn new(handle: JoinHandle<Outcome>) -> Self {
        Self {
            handle,
            outcome: PhantomData,
        }
    }

    /// Stops the task at its next await.
    pub(crate) fn abort(&self) {
        self.handle.abort();
    }

    #[cfg(feature = "mongodb")]
    pub(crate) fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

/// Waits for the result. The result is lost only if the runtime shuts down first, or if the task panics.
impl<T: 'static> Future for Task<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let outcome = ready!(Pin::new(&mut self.handle).poll(context));
        Poll::Ready(outcome.map_err(join_failure).map(|outcome| {
            let outcome = outcome.downcast::<T>();
            *outcome.expect("a task returns a value of the type of the task")
        }))
    }
}

/// Lets other tasks run, if the current task has done much work since its last wait.
#[cfg(feature = "engine")]
pub(crate) async fn consume_budget() {
    tokio::task::coop::consume_budget().await;
}

/// Waits for a duration.
pub(crate) fn sleep(duration: Duration) -> Sleep {
    // A timer belongs to the runtime that is current at its creation.
    let runtime = current_runtime();
    let _context = runtime.enter();
    tokio::time::sleep(duration)
}

/// Waits for the future, at most for a duration.
pub(crate) fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    let runtime = current_runtime();
    let _context = runtime.enter();
    tokio::time::timeout(duration, future)
}

fn current_runtime() -> Handle {
    Handle::try_current().unwrap_or_else(|_| FALLBACK_RUNTIME.handle().clone())
}

/// The runtime for callers without a runtime. Starts with the first such caller, and runs until the process ends.
static FALLBACK_RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("odm")
        .enable_all()
        .build();
    runtime.expect(
        "there is no Tokio runtime, and the system cannot start a thread for the library's own runtime",
    )
});

fn join_failure(error: JoinError) -> Error {
    let (kind, message) = if error.is_cancelled() {
        (
            ErrorKind::Connection,
            "the Tokio runtime shut down during the operation, and the outcome of a write is unknown",
        )
    } else {
        (ErrorKind::Backend, "the backend panicked")
    };
    Error::new(kind, message).with_source(error)
}
