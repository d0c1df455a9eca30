//! Execution of blocking calls.

use std::time::Duration;

use odm_engine::Interrupt;

use crate::{Result, error, task};

/// Runs blocking work on a separate thread, so that other tasks continue. The work runs to its end even if the future is dropped.
pub(super) async fn run_to_end<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    task::spawn_blocking(work).await.flatten()
}

/// Runs a blocking read, which is cancelled when the future is dropped or the time limit is exceeded.
pub(super) async fn run_cancellable<T: Send + 'static>(
    max_time: Option<Duration>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let interrupt = Interrupt::new();
    let cancellation = CancelOnDrop::new(interrupt.clone());
    let operation = run_to_end(move || interrupt.run(work));
    let outcome = match max_time {
        None => operation.await,
        Some(max_time) => {
            let Ok(outcome) = task::timeout(max_time, operation).await else {
                return Err(error::read_timed_out());
            };
            outcome
        }
    };
    // A cursor keeps the interrupt of the read that opened the cursor, so a successful read must not cancel the interrupt.
    cancellation.disarm();
    outcome
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
