use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Those who wait for the next commit.
///
/// Each has one place at most, so that what waits and is dropped, again and again, leaves nothing behind.
#[derive(Default)]
pub(crate) struct Watchers {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    last_id: u64,
    wakers: HashMap<u64, Waker>,
}

impl Watchers {
    /// A number for somebody who will wait.
    pub(crate) fn register(&self) -> u64 {
        let mut waiting = self.lock();
        waiting.last_id += 1;
        waiting.last_id
    }

    /// Wakes `waker` after the next commit, once.
    pub(crate) fn wait(&self, id: u64, waker: &Waker) {
        self.lock().wakers.insert(id, waker.clone());
    }

    pub(crate) fn leave(&self, id: u64) {
        self.lock().wakers.remove(&id);
    }

    pub(super) fn wake_all(&self) {
        let wakers = std::mem::take(&mut self.lock().wakers);
        wakers.into_values().for_each(Waker::wake);
    }

    /// Whoever panicked here has at most lost a waker of its own.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
