//! A task that carries out what other processes have left.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::task::JoinHandle;

use crate::{Database, Error, Result, maintain::Finished, schema::Schema};

/// A task that [settles](Database::settle) every now and then; made by [`Database::settle_every`].
///
/// It ends when this is dropped. What it is at then is left to the next one, as when a process dies.
#[must_use = "it ends when this is dropped"]
pub struct Worker {
    task: JoinHandle<()>,
    progress: Arc<Mutex<Progress>>,
}

/// What a [`Worker`] has done so far.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Progress {
    /// How often it has looked for what is overdue.
    pub rounds: u64,
    /// In how many documents it has carried out what they owed.
    pub documents: u64,
    /// In how many rounds something could not be carried out. It is tried again in the next one.
    pub failures: u64,
    /// Why not, the last time.
    pub last_failure: Option<Arc<Error>>,
}

impl Progress {
    fn add(&mut self, settled: Result<Finished>) {
        let settled = settled.unwrap_or_else(|error| Finished {
            failed: Some(error),
            ..Finished::default()
        });
        self.rounds += 1;
        self.documents += settled.documents;
        if let Some(error) = settled.failed {
            tracing::warn!(target: "odm", %error, "what is owed could not be carried out, and will be tried again");
            self.failures += 1;
            self.last_failure = Some(Arc::new(error));
        }
    }
}

impl Worker {
    pub(crate) fn start<S: Schema>(database: Database<S>, pause: Duration) -> Self {
        let progress = Arc::<Mutex<Progress>>::default();
        let told = progress.clone();
        let task = tokio::spawn(async move {
            loop {
                let settled = database.settle_all().await;
                told.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .add(settled);
                tokio::time::sleep(pause).await;
            }
        });
        Self { task, progress }
    }

    /// What it has done so far. What is left, [`Database::owed`] tells.
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
        let mut told = f.debug_struct("Worker");
        told.field("progress", &self.progress())
            .finish_non_exhaustive()
    }
}
