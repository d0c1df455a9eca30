//! Tasks, timers and blocking work on the caller's Tokio runtime, or on the library's runtime if the caller has none.
//!
//! Futures of this library are polled by any executor. `tokio::spawn` and Tokio's timers panic outside of a Tokio runtime,
//! so the crate reaches them through this module only; `clippy.toml` refuses the direct calls.

#![expect(
    clippy::disallowed_methods,
    reason = "this is what the crate calls in their place"
)]

use std::{sync::LazyLock, time::Duration};

use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::{JoinError, JoinHandle},
    time::{Sleep, Timeout},
};

use crate::{Error, ErrorKind, Result};

/// Runs the work in a task of its own, which starts now and goes on to its end, even if the returned future is dropped.
pub(crate) fn run<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> impl Future<Output = Result<T>> + Send {
    let task = spawn(work);
    async move { outcome(task.await).flatten() }
}

/// Starts the work in a task of its own.
pub(crate) fn spawn<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    runtime().spawn(work)
}

/// Starts work that blocks its thread, on a thread for such work.
#[cfg(feature = "engine")]
pub(crate) fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    runtime().spawn_blocking(work)
}

/// Waits.
pub(crate) fn sleep(duration: Duration) -> Sleep {
    // A timer belongs to the runtime that is current when the timer is made.
    let runtime = runtime();
    let _context = runtime.enter();
    tokio::time::sleep(duration)
}

/// Waits for the future, but not longer than this.
pub(crate) fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    let runtime = runtime();
    let _context = runtime.enter();
    tokio::time::timeout(duration, future)
}

fn runtime() -> Handle {
    Handle::try_current().unwrap_or_else(|_| OWN.handle().clone())
}

/// The runtime for callers without one. It starts with the first of them and lasts as long as the process.
static OWN: LazyLock<Runtime> = LazyLock::new(|| {
    let own = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("odm")
        .enable_all()
        .build();
    own.expect(
        "without a Tokio runtime the library needs a thread of its own, and the system starts none",
    )
});

/// The result of a task. It is lost only if the runtime shuts down first, or by a bug in what ran.
pub(crate) fn outcome<T>(joined: Result<T, JoinError>) -> Result<T> {
    joined.map_err(|error| {
        let (kind, message) = if error.is_cancelled() {
            (
                ErrorKind::Connection,
                "the Tokio runtime shut down before the answer came",
            )
        } else {
            (ErrorKind::Backend, "the backend panicked")
        };
        Error::new(kind, message).with_source(error)
    })
}
