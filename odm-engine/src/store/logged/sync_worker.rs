//! The thread that syncs the log after relaxed commits.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use super::OpenLog;

/// How long a relaxed commit waits for its sync.
const SYNC_DELAY: Duration = Duration::from_millis(100);

/// A background thread that syncs the log. The first relaxed commit starts the thread.
#[derive(Default)]
pub(super) struct SyncWorker(Arc<SyncTimer>);

#[derive(Default)]
struct SyncTimer {
    state: Mutex<SyncState>,
    changed: Condvar,
}

#[derive(Default)]
struct SyncState {
    is_running: bool,
    /// Whether a commit waits for a sync.
    is_due: bool,
    is_over: bool,
}

impl SyncWorker {
    /// Syncs the log soon. Returns `false` if the system cannot start the thread.
    pub(super) fn schedule(&self, log: &Arc<Mutex<OpenLog>>) -> bool {
        let mut state = self.0.lock_state();
        if !state.is_running {
            let (timer, log) = (Arc::clone(&self.0), Arc::downgrade(log));
            let thread = thread::Builder::new().name("odm-engine sync".into());
            state.is_running = thread.spawn(move || timer.run(&log)).is_ok();
        }
        let was_due = state.is_due;
        state.is_due = true;
        if !was_due {
            self.0.changed.notify_all();
        }
        state.is_running
    }

    /// Stops the thread.
    pub(super) fn stop(&self) {
        self.0.lock_state().is_over = true;
        self.0.changed.notify_all();
    }
}

impl SyncTimer {
    fn run(&self, log: &Weak<Mutex<OpenLog>>) {
        while self.wait_until_due() {
            let Some(log) = log.upgrade() else {
                return;
            };
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            // After an error, the next commit writes the changes again.
            let _ = log.sync();
        }
    }

    /// Waits for a commit, and then for the delay. Returns `false` if the thread must stop.
    fn wait_until_due(&self) -> bool {
        let mut state = self.lock_state();
        while !state.is_due && !state.is_over {
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let is_over = |state: &mut SyncState| !state.is_over;
        let waited = self.changed.wait_timeout_while(state, SYNC_DELAY, is_over);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_due = false;
        !state.is_over
    }

    /// Locks the state. The state is complete at every point where a thread can panic.
    fn lock_state(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
