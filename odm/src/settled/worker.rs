//! A task that does what is to be done every now and then.

use std::{
    fmt,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::task::JoinHandle;

use crate::{Error, Result, maintain::Finished, task};

/// A task that [settles](crate::Database::settle) every now and then, made by [`Database::settle_every`](crate::Database::settle_every), or
/// that [folds](crate::action::Arrays::fold) arrays, made by [`Arrays::fold_every`](crate::action::Arrays::fold_every).
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
    /// How often it has looked for what there is to do.
    pub rounds: u64,
    /// In how many documents it has carried out what they owed, or how many arrays it has brought back.
    pub documents: u64,
    /// In how many rounds something could not be done. It is tried again in the next one.
    pub failures: u64,
    /// Why not, the last time.
    pub last_failure: Option<Arc<Error>>,
}

impl Progress {
    fn add(&mut self, round: Result<Finished>) {
        let round = round.unwrap_or_else(|error| Finished {
            failed: Some(error),
            ..Finished::default()
        });
        self.rounds += 1;
        self.documents += round.documents;
        if let Some(error) = round.failed {
            tracing::warn!(target: "odm", %error, "a worker could not do something, and will try again");
            self.failures += 1;
            self.last_failure = Some(Arc::new(error));
        }
    }
}

impl Worker {
    /// Begins at once, and waits behind each round.
    pub(crate) fn start<F>(pause: Duration, round: impl Fn() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<Finished>> + Send,
    {
        let progress = Arc::<Mutex<Progress>>::default();
        let told = progress.clone();
        let task = task::spawn(async move {
            loop {
                let done = round().await;
                told.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .add(done);
                task::sleep(pause).await;
            }
        });
        Self { task, progress }
    }

    /// What it has done so far. What is left, [`Database::owed`](crate::Database::owed) tells.
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
