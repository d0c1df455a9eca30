//! A background task that runs work periodically.

use std::{
    fmt,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{
    Error, Result,
    pending::expired::RecoveryReport,
    session::task::{self, Task},
};

/// A background task that [runs pending work](crate::Database::run_pending) periodically, made by
/// [`Database::spawn_worker`](crate::Database::spawn_worker), or that [folds](crate::action::Arrays::fold) arrays, made by
/// [`Arrays::spawn_fold_worker`](crate::action::Arrays::spawn_fold_worker).
///
/// The task stops when the `Worker` is dropped. Another process then completes the current work, as after a crash.
#[must_use = "the worker stops when this value is dropped"]
pub struct Worker {
    task: Task<()>,
    progress: Arc<Mutex<Progress>>,
}

/// The progress of a [`Worker`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Progress {
    /// The number of completed rounds.
    pub rounds: u64,
    /// The number of documents with completed work, or of folded arrays.
    pub documents: u64,
    /// The number of rounds with a failure. The next round tries again.
    pub failures: u64,
    /// The last failure.
    pub last_failure: Option<Arc<Error>>,
}

impl Progress {
    fn record_round(&mut self, report: Result<RecoveryReport>) {
        let report = report.unwrap_or_else(|error| RecoveryReport {
            first_error: Some(error),
            ..RecoveryReport::default()
        });
        self.rounds += 1;
        self.documents += report.recovered;
        if let Some(error) = report.first_error {
            tracing::warn!(target: "odm", %error, "a round of a background worker failed; the next round retries the pending work");
            self.failures += 1;
            self.last_failure = Some(Arc::new(error));
        }
    }
}

impl Worker {
    /// Starts the task. Each round is followed by the pause.
    pub(crate) fn start<F>(pause: Duration, round: impl Fn() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<RecoveryReport>> + Send,
    {
        let progress = Arc::<Mutex<Progress>>::default();
        let shared = progress.clone();
        let task = task::spawn(async move {
            loop {
                let report = round().await;
                shared
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .record_round(report);
                task::sleep(pause).await;
            }
        });
        Self { task, progress }
    }

    /// Returns the progress so far. [`Database::pending`](crate::Database::pending) returns the remaining work.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let progress = self.progress.lock();
        progress.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut output = f.debug_struct("Worker");
        output
            .field("progress", &self.progress())
            .finish_non_exhaustive()
    }
}
