use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The tasks that wait for the next commit.
///
/// Each task has at most one waker here, and removes it when it stops waiting. So repeated waits leave no wakers.
#[derive(Default)]
pub(crate) struct CommitWatchers {
    waiting: Mutex<WaitingTasks>,
}

#[derive(Default)]
struct WaitingTasks {
    last_id: u64,
    wakers: HashMap<u64, Waker>,
}

impl CommitWatchers {
    /// Returns a number for a task that will wait.
    pub(crate) fn register(&self) -> u64 {
        let mut waiting = self.lock_waiting();
        waiting.last_id += 1;
        waiting.last_id
    }

    /// Wakes `waker` once, after the next commit.
    pub(crate) fn set_waker(&self, id: u64, waker: &Waker) {
        self.lock_waiting().wakers.insert(id, waker.clone());
    }

    pub(crate) fn unregister(&self, id: u64) {
        self.lock_waiting().wakers.remove(&id);
    }

    pub(super) fn wake_all(&self) {
        let wakers = std::mem::take(&mut self.lock_waiting().wakers);
        wakers.into_values().for_each(Waker::wake);
    }

    /// Locks the tasks. A panic during a change loses at most the waker of the panicking task.
    fn lock_waiting(&self) -> MutexGuard<'_, WaitingTasks> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
