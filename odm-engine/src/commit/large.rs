//! Large writes, which do not stop other writes.
//!
//! A write runs under the lock of the staging area, where no other write can change the data that it reads. A write that takes
//! longer than [`MAX_STAGING_TIME`] runs again without the lock, like a transaction, on the last durable state. Large changes
//! are written to the file beside the commits of other writes, and are validated at the end: if another write has changed one of
//! the keys, the large write runs again.
//!
//! | time | the large write | other writes |
//! |---|---|---|
//! | preparation | computes its changes on a snapshot, and writes them to the file | go on; a change of the same key makes the large write run again |
//! | from the validation to the end of the commit | [claims](super::conflicts::ClaimedKeys) its keys | of a claimed key: a plain write waits, and a transaction gets a write conflict |
//! | second run | claims the keys of the first run from the beginning | as above |
//! | run [`MAX_SHARED_RUNS`] + 1 | claims all keys | wait |
//!
//! As for a transaction, the write sees one state, and no other write changes its keys in between. While the change log is on, a
//! large write is committed like a small one, because the events of all writes have one order.

use std::cell::Cell;
use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use super::conflicts::{ClaimedKeys, TransactionId};
use super::staging::StagingArea;
use super::{
    BegunTransaction, CommitFailure, CommitUrgency, Committer, DatabaseState, FailedCommit,
    is_storage_full,
};
use crate::brief;
use crate::error::{Error, Result};
use crate::overlay::{OverlayOutcome, WriteOverlay};
use crate::store::{Changes, CommitError, LargeCommit, StoreView};

/// How long a write may hold the staging area.
pub(super) const MAX_STAGING_TIME: Duration = Duration::from_millis(20);

/// How often a write runs beside other writes before it excludes them.
const MAX_SHARED_RUNS: usize = 4;

/// How long the validation waits between two attempts to lock the staging area.
const LOCK_INTERVAL: Duration = Duration::from_micros(50);

impl Committer {
    /// Runs a write on the last durable state, without the lock of the staging area. Runs it again after a conflict.
    pub(super) fn write_beside_others<T>(
        &self,
        operation: &dyn Fn(&mut WriteOverlay) -> Result<T>,
    ) -> Result<T> {
        brief::ensure_may_wait()?;
        let mut repeated: Option<LargeTurn<'_>> = None;
        let mut keys = None;
        let mut runs = 0;
        loop {
            let run = RunningWrite::begin(self)?;
            let state = &run.transaction.state;
            if let Some(turn) = &repeated {
                turn.set_owner(run.transaction.id);
            }
            let mut overlay = self.new_overlay(&state.view, state.catalog.clone(), &state.log);
            let result = operation(&mut overlay)?;
            let change_bytes = overlay.change_bytes();
            let outcome = overlay.finish();
            let turn = repeated.as_ref();
            match self.commit_transaction(&run.transaction, &outcome, change_bytes, turn) {
                Err(error) if error.is_write_conflict() => {}
                committed => return committed.map(|()| result),
            }
            drop(run);
            runs += 1;
            let claimed = match keys {
                _ if runs >= MAX_SHARED_RUNS => ClaimedKeys::All,
                Some(keys) => ClaimedKeys::and(keys, &outcome),
                None => ClaimedKeys::of(&outcome),
            };
            let turn = repeated.unwrap_or_else(|| self.take_large_turn());
            turn.claim(None, claimed.clone());
            // A staged write may have changed the keys before the claim.
            self.wait_until_durable()?;
            (repeated, keys) = (Some(turn), Some(claimed));
        }
    }

    /// Commits a transaction. Large changes are written beside the commits of other writes.
    ///
    /// # Errors
    /// Write conflict, I/O. No data has changed then.
    pub(crate) fn commit_transaction(
        &self,
        transaction: &BegunTransaction,
        outcome: &OverlayOutcome,
        change_bytes: usize,
        turn: Option<&LargeTurn<'_>>,
    ) -> Result<()> {
        if !self.is_large(change_bytes) {
            let permit = self.permit_commit(CommitUrgency::Immediate, change_bytes)?;
            return self.commit(permit, transaction, outcome, CommitUrgency::Immediate);
        }
        let own_turn = match turn {
            Some(_) => None,
            None => Some(self.take_large_turn()),
        };
        let Some(turn) = turn.or(own_turn.as_ref()) else {
            return Err(Error::write_conflict());
        };
        let id = transaction.id;
        self.store
            .check_space(&outcome.changes, &transaction.state.view)?;
        self.commit_large(&LargeCommit {
            changes: &outcome.changes,
            bulk: None,
            validate: Some(&|| {
                let mut stage = self.lock_staging_beside_others()?;
                stage.conflicts().check_outcome(id, outcome)?;
                let keys = ClaimedKeys::of(outcome);
                turn.claim_locked(&mut stage, Some(id), keys);
                Ok(())
            }),
        })
    }

    /// Whether changes of this size are written beside the commits of other writes.
    pub(crate) fn is_large(&self, change_bytes: usize) -> bool {
        change_bytes >= self.store.large_commit_bytes() && self.state().log.settings().is_none()
    }

    /// Whether an insert of so many bytes takes too long for the staging area.
    pub(crate) fn is_long_insert(&self, document_bytes: usize) -> bool {
        // The changes of an insert take at least twice the bytes of the documents.
        !brief::is_active() && self.is_large(2 * document_bytes)
    }

    /// Waits for the end of another large write, and begins a large write.
    pub(super) fn take_large_turn(&self) -> LargeTurn<'_> {
        LargeTurn {
            _turn: self
                .large_turn
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
            committer: self,
            has_claim: Cell::new(false),
        }
    }

    /// Writes a large commit to the store, and publishes it. The caller has the [turn](LargeTurn).
    pub(super) fn commit_large(&self, commit: &LargeCommit<'_>) -> Result<()> {
        let mut committed = self.store.commit_large(commit);
        if is_storage_full(&committed) && self.spill_beside_others()? {
            committed = self.store.commit_large(commit);
        }
        self.finish_large(committed, commit.changes)
    }

    /// Moves the write-ahead log to its final place in small parts. Returns whether there was a log to move.
    fn spill_beside_others(&self) -> Result<bool> {
        let leader = self.become_leader();
        let mut stage = self.lock_staging();
        let spilled = leader.spill(&mut stage);
        spilled.map_err(CommitError::into_error)
    }

    /// Publishes a successful commit.
    fn finish_large(&self, committed: Result<(), CommitError>, changes: &Changes) -> Result<()> {
        let mut stage = self.lock_staging();
        let finished = self.finish_large_locked(&mut stage, committed, changes);
        drop(stage);
        self.watchers.wake_all();
        finished
    }

    fn finish_large_locked(
        &self,
        stage: &mut StagingArea,
        committed: Result<(), CommitError>,
        changes: &Changes,
    ) -> Result<()> {
        if self.check_open().is_err() {
            // The close has published that there is no data.
            return committed.map_err(CommitError::into_error);
        }
        let (result, snapshot) = match committed {
            Ok(()) => (Ok(()), self.store.snapshot()),
            Err(CommitError::Undone(error)) => (Err(error), self.store.snapshot()),
            Err(CommitError::Unknown(error)) => (Err(error.clone()), Err(error)),
        };
        let snapshot = match snapshot {
            Ok(snapshot) => snapshot,
            Err(error) => {
                stage.fail_uncommitted(&self.state(), &error);
                *self.lock_failure() = Some(CommitFailure {
                    error: error.clone(),
                    commit: FailedCommit::Large(changes.clone()),
                });
                return Err(error);
            }
        };
        if result.is_err() {
            // The store may have been reopened, which makes its old snapshots unreadable.
            self.publish_snapshot(stage, snapshot);
            return result;
        }
        let state = self.state();
        let mut catalog = state.catalog.clone();
        stage.add_large(snapshot.clone(), changes, &mut catalog)?;
        self.publish_state(DatabaseState {
            view: StoreView::new(snapshot, Changes::new()),
            catalog,
            log: state.log.clone(),
        });
        Ok(())
    }

    /// Locks the staging area while the file is written. A thread that holds the staging area and needs the file goes first.
    ///
    /// # Errors
    /// Write conflict, if such a thread waits or the store has failed. Closed.
    pub(super) fn lock_staging_beside_others(&self) -> Result<MutexGuard<'_, StagingArea>> {
        loop {
            self.check_open()?;
            if self.is_file_wanted() || self.lock_failure().is_some() {
                return Err(Error::write_conflict());
            }
            match self.staging.try_lock() {
                Ok(stage) => return Ok(stage),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => thread::sleep(LOCK_INTERVAL),
            }
        }
    }

    /// Returns once all staged writes are durable or have failed.
    pub(super) fn wait_until_durable(&self) -> Result<()> {
        let outcome = self.lock_open_staging()?.latest_outcome();
        // A failed write is no part of the state.
        let _ = self.make_durable(&outcome);
        Ok(())
    }

    /// Waits for the end of the claim of a large write.
    ///
    /// # Errors
    /// Would block.
    pub(super) fn wait_for_large(&self, stage: MutexGuard<'_, StagingArea>) -> Result<()> {
        brief::ensure_may_wait()?;
        // The end of a claim needs the staging area, so it cannot happen before this thread waits.
        let mut progress = self.lock_progress();
        drop(stage);
        let ended = progress.ended_claims;
        while progress.ended_claims == ended {
            let waited = self.committed.wait(progress);
            progress = waited.unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}

/// The right to make large commits. One thread has this right at a time.
pub(crate) struct LargeTurn<'c> {
    _turn: MutexGuard<'c, ()>,
    committer: &'c Committer,
    has_claim: Cell<bool>,
}

impl LargeTurn<'_> {
    /// Claims keys until the turn ends. The transaction `owner` may write the keys.
    pub(super) fn claim(&self, owner: Option<TransactionId>, keys: ClaimedKeys) {
        self.claim_locked(&mut self.committer.lock_staging(), owner, keys);
    }

    fn claim_locked(&self, stage: &mut StagingArea, owner: Option<TransactionId>, keys: ClaimedKeys) {
        self.has_claim.set(true);
        stage.conflicts().claim_large(owner, keys);
    }

    fn set_owner(&self, owner: TransactionId) {
        let mut stage = self.committer.lock_staging();
        stage.conflicts().set_claim_owner(owner);
    }
}

impl Drop for LargeTurn<'_> {
    fn drop(&mut self) {
        if !self.has_claim.get() {
            return;
        }
        let mut stage = self.committer.lock_staging();
        stage.conflicts().end_large();
        self.committer.lock_progress().ended_claims += 1;
        drop(stage);
        self.committer.committed.notify_all();
    }
}

/// A plain write that runs like a transaction. The drop ends the transaction.
struct RunningWrite<'c> {
    committer: &'c Committer,
    transaction: BegunTransaction,
}

impl<'c> RunningWrite<'c> {
    fn begin(committer: &'c Committer) -> Result<RunningWrite<'c>> {
        Ok(RunningWrite {
            transaction: committer.begin()?,
            committer,
        })
    }
}

impl Drop for RunningWrite<'_> {
    fn drop(&mut self) {
        self.committer.abort(&self.transaction);
    }
}
