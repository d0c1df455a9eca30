//! Background tasks: follow-up work that runs after the answer to a write.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, futures::Notified};

/// The default of [`DatabaseOptions::background_fan_outs`](crate::DatabaseOptions::background_fan_outs).
pub(crate) const DEFAULT_FAN_OUTS: usize = 4;

/// The number of background revalidations that run at once.
const MAX_REVALIDATIONS: usize = 64;

/// The number of background fan-outs that wait. Beyond this limit, a write waits before it returns.
const MAX_WAITING_FAN_OUTS: usize = 64;

/// The number of background tasks of this process, with a notification at the end of each task, and the limits of concurrent
/// tasks.
#[derive(Debug)]
pub(crate) struct BackgroundTasks {
    running: AtomicUsize,
    task_ended: Notify,
    fan_outs: Arc<Semaphore>,
    waiting_fan_outs: Arc<Semaphore>,
    revalidations: Arc<Semaphore>,
}

/// The right to run a task within a limit. Dropping the slot lets another task run.
pub(crate) type TaskSlot = OwnedSemaphorePermit;

impl BackgroundTasks {
    /// Creates the state of no tasks, for a maximum number of fan-outs that run at once.
    pub(crate) fn new(max_fan_outs: usize) -> Self {
        let semaphore = |slots| Arc::new(Semaphore::new(slots));
        Self {
            running: AtomicUsize::new(0),
            task_ended: Notify::new(),
            fan_outs: semaphore(max_fan_outs),
            waiting_fan_outs: semaphore(MAX_WAITING_FAN_OUTS),
            revalidations: semaphore(MAX_REVALIDATIONS),
        }
    }

    /// Waits until another fan-out may run.
    pub(crate) async fn fan_out_slot(&self) -> TaskSlot {
        acquire(&self.fan_outs).await
    }

    /// Waits until another fan-out may wait for a slot.
    pub(crate) async fn waiting_fan_out_slot(&self) -> TaskSlot {
        acquire(&self.waiting_fan_outs).await
    }

    /// Waits until another revalidation may run.
    pub(crate) async fn revalidation_slot(&self) -> TaskSlot {
        acquire(&self.revalidations).await
    }

    /// Counts a background task as running until the returned guard is dropped.
    pub(crate) fn start_task(&self) -> RunningTask<'_> {
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
pub(crate) struct RunningTask<'b>(&'b BackgroundTasks);

impl Drop for RunningTask<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        self.0.task_ended.notify_waiters();
    }
}

async fn acquire(semaphore: &Arc<Semaphore>) -> TaskSlot {
    let slot = Arc::clone(semaphore).acquire_owned();
    slot.await.expect("no code closes the semaphores")
}
