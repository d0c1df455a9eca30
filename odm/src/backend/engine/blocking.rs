//! Execution of the engine's calls, which block their thread.

use std::time::Duration;

use odm_engine::{Error as EngineError, Interrupt, run_briefly};

use crate::{Error, Result, error, session::task};

/// How long a call may block the thread of the caller. Other tasks of the thread wait meanwhile.
///
/// A call that exceeds the limit starts again on another thread. A switch to another thread and back takes about 45 µs.
const MAX_CALLER_TIME: Duration = Duration::from_micros(300);

/// As [`MAX_CALLER_TIME`], for a write on the only thread of a runtime. While the thread waits for the disk, no other task can join the
/// commit.
const MAX_ONLY_THREAD_WRITE_TIME: Duration = Duration::from_micros(150);

/// When less time is left on the thread of the caller, the read of a batch moves to another thread with the documents so far.
pub(super) const MIN_TIME_OF_BATCH: Duration = Duration::from_micros(100);

/// The largest number of keys or queries of a call on the thread of the caller.
const MAX_CALLER_QUERIES: usize = 16;

/// The largest input of a call on the thread of the caller, in bytes. The engine checks the time only after it has parsed a filter.
pub(super) const MAX_CALLER_INPUT: usize = 16 * 1024;

/// A call of the engine.
pub(super) struct Call<F> {
    run: F,
    /// Whether the call can be short enough for the thread of the caller.
    may_be_short: bool,
}

impl<T: Send + 'static, F: Fn() -> odm_engine::Result<T> + Send + 'static> Call<F> {
    pub(super) fn new(run: F) -> Self {
        Self {
            run,
            may_be_short: true,
        }
    }

    /// Sets the size of the filter, of the documents, or of other parameters.
    pub(super) fn with_input(mut self, bytes: usize) -> Self {
        self.may_be_short &= bytes <= MAX_CALLER_INPUT;
        self
    }

    /// Sets the number of keys or queries.
    pub(super) fn with_queries(mut self, count: usize) -> Self {
        self.may_be_short &= count <= MAX_CALLER_QUERIES;
        self
    }

    /// Runs a short call on the current thread. Runs any other call to its end on a thread for blocking work, even if the future
    /// is dropped.
    pub(super) async fn run(self, to_error: impl FnOnce(EngineError) -> Error) -> Result<T> {
        // A task with many short calls must let other tasks run.
        task::consume_budget().await;
        let max_time = match task::is_only_thread() {
            true => MAX_ONLY_THREAD_WRITE_TIME,
            false => MAX_CALLER_TIME,
        };
        let outcome = match self.run_on_caller(max_time) {
            Some(outcome) => outcome,
            None if task::move_to_blocking_thread().await => (self.run)(),
            None => task::spawn_blocking(self.run).await?,
        };
        outcome.map_err(to_error)
    }

    /// As [`run`](Self::run), but a dropped future and an exceeded time limit end the call.
    pub(super) async fn run_cancellable(
        self,
        max_time: Option<Duration>,
        to_error: impl FnOnce(EngineError) -> Error,
    ) -> Result<T> {
        task::consume_budget().await;
        if let Some(outcome) = self.run_on_caller(MAX_CALLER_TIME) {
            return outcome.map_err(to_error);
        }
        run_interruptible(max_time, self.run)
            .await?
            .map_err(to_error)
    }

    /// Runs the call on the current thread. Returns `None` if the call is not short.
    fn run_on_caller(&self, max_time: Duration) -> Option<odm_engine::Result<T>> {
        if !self.may_be_short {
            return None;
        }
        let outcome = run_briefly(max_time, &self.run);
        let would_block = outcome.as_ref().is_err_and(EngineError::is_would_block);
        (!would_block).then_some(outcome)
    }
}

/// Runs a read on a thread for blocking work. A dropped future and an exceeded time limit end the read.
pub(super) async fn run_interruptible<T: Send + 'static>(
    max_time: Option<Duration>,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    if max_time.is_none() && task::move_to_blocking_thread().await {
        // A part of a write that runs to its end.
        return Ok(read());
    }
    let interrupt = Interrupt::new();
    let cancellation = CancelOnDrop::new(interrupt.clone());
    let read = task::spawn_blocking(move || interrupt.run(read));
    let outcome = match max_time {
        None => read.await,
        Some(max_time) => {
            let Ok(outcome) = task::timeout(max_time, read).await else {
                return Err(error::read_timed_out());
            };
            outcome
        }
    };
    // A cursor keeps the interrupt of the read that opened the cursor, so a successful read must not cancel the interrupt.
    cancellation.disarm();
    outcome
}

/// Runs blocking work on a separate thread, so that other tasks continue. The work runs to its end even if the future is dropped.
pub(super) async fn run_to_end<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if task::move_to_blocking_thread().await {
        return work();
    }
    task::spawn_blocking(work).await.flatten()
}

/// Cancels the work under an interrupt when dropped.
#[derive(Debug)]
pub(super) struct CancelOnDrop(Option<Interrupt>);

impl CancelOnDrop {
    pub(super) fn new(interrupt: Interrupt) -> Self {
        Self(Some(interrupt))
    }

    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(interrupt) = &self.0 {
            interrupt.cancel();
        }
    }
}
