//! The leader: the thread that commits the gathered changes of all threads.

use std::cell::Cell;
use std::sync::Arc;

use super::staging::{CommitBatch, StagingArea};
use super::{Committer, DatabaseState, FailedCommit};
use crate::error::{Error, Result};
use crate::store::{Changes, CommitError, StoreView};

/// The thread that commits to the store. There is at most one leader.
pub(super) struct CommitLeader<'c> {
    committer: &'c Committer,
    /// Whether a store commit is running. Tells the destructor about a panic inside of a commit.
    is_committing: Cell<bool>,
}

impl<'c> CommitLeader<'c> {
    /// Returns the leader. The caller has set `has_leader`.
    pub(super) fn new(committer: &'c Committer) -> CommitLeader<'c> {
        CommitLeader {
            committer,
            is_committing: Cell::new(false),
        }
    }

    /// Commits all gathered changes. Then commits the changes that gathered meanwhile, if they are fewer and a thread waits for
    /// them: that thread has already waited for a larger commit than its own.
    pub(super) fn commit_gathered(&self) {
        let mut stage = self.committer.lock_staging();
        let mut next = stage.take_batch();
        drop(stage);
        while let Some(batch) = next {
            let (size, durability) = (batch.changes.len(), batch.durability);
            let mut committed = self.commit(&batch);
            stage = self.committer.lock_staging();
            if is_storage_full(&committed) {
                committed = self.commit_after_spill(&mut stage, &batch, committed);
            }
            // If the commit failed, the waiting threads get the error from their outcome.
            let result = self.finish_commit(&mut stage, batch, committed);
            next = result
                .ok()
                .and_then(|()| stage.take_smaller_batch(size, durability));
            drop(stage);
        }
    }

    /// Commits to the store.
    fn commit(&self, batch: &CommitBatch) -> Result<(), CommitError> {
        self.is_committing.set(true);
        let committed = self
            .committer
            .store
            .commit(&batch.changes, batch.durability);
        self.is_committing.set(false);
        committed
    }

    /// Moves the write-ahead log to its final place, and commits again.
    fn commit_after_spill(
        &self,
        stage: &mut StagingArea,
        batch: &CommitBatch,
        failed: Result<(), CommitError>,
    ) -> Result<(), CommitError> {
        if !self.spill(stage)? {
            return failed;
        }
        let committer = self.committer;
        // The spill may have used the reserve. The rest is for writes that free space.
        let state = committer.state();
        let checked = committer.store.check_space(&batch.changes, &state.view);
        checked.map_err(CommitError::Undone)?;
        let _file = committer.want_file();
        self.commit(batch)
    }

    /// Moves the write-ahead log to its final place in small parts. Each part can use the space that the parts before have freed,
    /// because the published state and the staging area move to the snapshot after the part. Returns whether there was a log.
    pub(super) fn spill(&self, stage: &mut StagingArea) -> Result<bool, CommitError> {
        let committer = self.committer;
        let _file = committer.want_file();
        let mut has_spilled = false;
        while committer.store.spill()? {
            has_spilled = true;
            let snapshot = committer.store.snapshot().map_err(CommitError::Unknown)?;
            committer.publish_snapshot(stage, snapshot);
        }
        Ok(has_spilled)
    }

    /// Publishes a successful commit, or fails all changes that are not durable.
    fn finish_commit(
        &self,
        stage: &mut StagingArea,
        batch: CommitBatch,
        committed: Result<(), CommitError>,
    ) -> Result<()> {
        let committer = self.committer;
        // Take the snapshot under the lock of the staging area: an earlier snapshot may lack a large commit that was published since.
        let committed =
            committed.and_then(|()| committer.store.snapshot().map_err(CommitError::Unknown));
        let result = match committed {
            Ok(snapshot) => {
                // Publish before the waiting threads wake up: they must be able to read their own writes.
                committer.publish_state(DatabaseState {
                    view: StoreView::new(Arc::clone(&snapshot), Changes::new()),
                    catalog: batch.catalog.clone(),
                    log: batch.log.clone(),
                });
                stage.mark_committed(snapshot, &batch);
                Ok(())
            }
            Err(CommitError::Undone(error)) => match committer.store.snapshot() {
                Ok(snapshot) => {
                    // The store may have been reopened, which makes its old snapshots unreadable.
                    let state = committer.state();
                    let state = committer.publish_state(DatabaseState {
                        view: StoreView::new(snapshot, Changes::new()),
                        catalog: state.catalog.clone(),
                        log: state.log.clone(),
                    });
                    stage.fail_uncommitted(&state, &error);
                    Err(error)
                }
                Err(_) => Err(committer.fail(stage, error, FailedCommit::Lost)),
            },
            Err(CommitError::Unknown(error)) => {
                Err(committer.fail(stage, error, FailedCommit::Batch(batch)))
            }
        };
        committer.committed.notify_all();
        result
    }
}

pub(super) fn is_storage_full(committed: &Result<(), CommitError>) -> bool {
    matches!(committed, Err(CommitError::Undone(error)) if error.is_storage_full())
}

impl Drop for CommitLeader<'_> {
    /// Lets another thread lead.
    fn drop(&mut self) {
        if self.is_committing.get() {
            let error = Error::damaged("a commit panicked");
            let mut stage = self.committer.lock_staging();
            self.committer.fail(&mut stage, error, FailedCommit::Lost);
        }
        self.committer.lock_progress().has_leader = false;
        self.committer.committed.notify_all();
    }
}
