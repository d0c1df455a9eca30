//! Background tasks: follow-up work that runs after the answer to a write.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, futures::Notified};

/// The number of background tasks of this process, with a notification at the end of each task.
#[derive(Debug, Default)]
pub(crate) struct BackgroundTasks {
    running: AtomicUsize,
    task_ended: Notify,
}

impl BackgroundTasks {
    /// Counts a background task as running until the returned guard is dropped.
    pub(super) fn start_task(&self) -> RunningTask<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        RunningTask(self)
    }

    /// Whether a background task is running.
    pub(crate) fn has_running(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
    }

    /// Returns a future that completes when the next background task ends. After `enable()`, an end before the first poll counts
    /// too.
    pub(crate) fn next_end(&self) -> Notified<'_> {
        self.task_ended.notified()
    }
}

/// A guard that counts a background task as running.
#[derive(Debug)]
pub(super) struct RunningTask<'b>(&'b BackgroundTasks);

impl Drop for RunningTask<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        self.0.task_ended.notify_waiters();
    }
}
