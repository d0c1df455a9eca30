//! Calls that block.

use std::time::Duration;

use crate::{Result, error, task};

/// Runs blocking work where it does not hold up other tasks, and to its end even if the future is dropped.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    task::outcome(task::spawn_blocking(work).await).flatten()
}

/// The same of a read, for which nobody waits longer than its time limit.
pub(super) async fn read<T: Send + 'static>(
    max_time: Option<Duration>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let Some(max_time) = max_time else {
        return blocking(work).await;
    };
    let done = task::timeout(max_time, blocking(work)).await;
    done.unwrap_or_else(|_| Err(error::timed_out()))
}
