use std::mem;
use std::sync::Arc;

use super::conflicts::{ConflictTable, KeySet, TransactionId};
use super::outcome::BatchOutcome;
use super::{ChangeLogLimits, CommitOptions, CommitUrgency, DatabaseState, LogState};
use crate::catalog::Catalog;
use crate::change::ChangeEvent;
use crate::durability::Durability;
use crate::error::{Error, Result};
use crate::store::{Changes, Snapshot, StoreView};

/// The staging area for writes. Holds the state that the next write starts from, durable or not.
pub(super) struct StagingArea {
    /// The last durable snapshot, with all later writes on top.
    view: StoreView,
    catalog: Catalog,
    log: LogState,
    /// The changes that no leader has taken yet.
    gathered: Changes,
    /// The outcome of the gathered changes.
    gathering_outcome: Arc<BatchOutcome>,
    /// The outcome of the batch that a leader is committing.
    committing_outcome: Option<Arc<BatchOutcome>>,
    /// Whether a gathered change must not wait for other writes.
    is_urgent: bool,
    /// Whether a gathered change returns when it is on the disk.
    must_sync: bool,
    conflicts: ConflictTable,
    /// The number of the last added write.
    added: u64,
    /// The number of the last durable write.
    durable: u64,
}

/// An added write.
pub(super) struct AddedWrite {
    /// The outcome to wait for.
    pub(super) outcome: Arc<BatchOutcome>,
    /// Whether the write has no changes, and returns when the state that it has read is on the disk.
    pub(super) must_sync_reads: bool,
}

/// The changes that a leader commits.
pub(super) struct CommitBatch {
    pub(super) changes: Changes,
    pub(super) catalog: Catalog,
    pub(super) log: LogState,
    pub(super) durability: Durability,
    pub(super) outcome: Arc<BatchOutcome>,
    /// The number of the last write in the batch.
    last: u64,
}

impl StagingArea {
    pub(super) fn new(view: StoreView, catalog: Catalog, log: LogState) -> StagingArea {
        StagingArea {
            view,
            catalog,
            log,
            gathered: Changes::new(),
            gathering_outcome: Arc::default(),
            committing_outcome: None,
            is_urgent: false,
            must_sync: false,
            conflicts: ConflictTable::default(),
            added: 0,
            durable: 0,
        }
    }

    pub(super) fn view(&self) -> &StoreView {
        &self.view
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(super) fn log(&self) -> &LogState {
        &self.log
    }

    pub(super) fn conflicts(&mut self) -> &mut ConflictTable {
        &mut self.conflicts
    }

    /// Registers a transaction that reads the last durable state.
    pub(super) fn begin_transaction(&mut self) -> TransactionId {
        // Writes that are not durable yet are missing from that state. The conflict table treats them as later writes.
        self.conflicts
            .begin(self.durable, self.added, self.view.changes())
    }

    /// Adds the changes and events of one write.
    pub(super) fn add_write(
        &mut self,
        mut changes: Changes,
        events: &[ChangeEvent],
        options: CommitOptions,
    ) -> Result<AddedWrite> {
        let mut log = self.log.clone();
        log.add_events(&self.view, &mut changes, events)?;
        self.add_logged(changes, log, options)
    }

    /// Changes the settings of the log, if `chosen` has any.
    pub(super) fn configure_log(
        &mut self,
        chosen: Option<Option<ChangeLogLimits>>,
    ) -> Result<AddedWrite> {
        let mut log = self.log.clone();
        let changes = match chosen {
            Some(limits) => log.configure(&self.view, limits)?,
            None => Changes::new(),
        };
        let options = CommitOptions::immediate(Durability::Full);
        self.add_logged(changes, log, options)
    }

    fn add_logged(
        &mut self,
        changes: Changes,
        log: LogState,
        options: CommitOptions,
    ) -> Result<AddedWrite> {
        let must_sync = options.durability == Durability::Full;
        if changes.is_empty() {
            return Ok(AddedWrite {
                outcome: self.latest_outcome(),
                must_sync_reads: must_sync,
            });
        }
        let mut view = self.view.clone();
        view.apply_changes(&changes);
        self.catalog.apply_changes(&view, &changes)?;
        self.view = view;
        self.log = log;
        self.added += 1;
        self.is_urgent |= options.urgency == CommitUrgency::Immediate;
        self.must_sync |= must_sync;
        self.conflicts.record_write(&changes, self.added);
        if self.gathered.is_empty() {
            self.gathered = changes;
        } else {
            self.gathered.extend(changes);
        }
        Ok(AddedWrite {
            outcome: Arc::clone(&self.gathering_outcome),
            must_sync_reads: false,
        })
    }

    /// Returns the outcome of the last write that the staged state contains.
    pub(super) fn latest_outcome(&self) -> Arc<BatchOutcome> {
        match &self.committing_outcome {
            _ if !self.gathered.is_empty() => Arc::clone(&self.gathering_outcome),
            Some(outcome) => Arc::clone(outcome),
            None => Arc::new(BatchOutcome::already_durable()),
        }
    }

    /// Hands all gathered changes to a leader.
    pub(super) fn take_batch(&mut self) -> Option<CommitBatch> {
        if self.gathered.is_empty() {
            return None;
        }
        self.is_urgent = false;
        let durability = match mem::take(&mut self.must_sync) {
            true => Durability::Full,
            false => Durability::Relaxed,
        };
        let outcome = mem::take(&mut self.gathering_outcome);
        self.committing_outcome = Some(Arc::clone(&outcome));
        Some(CommitBatch {
            changes: mem::take(&mut self.gathered),
            catalog: self.catalog.clone(),
            log: self.log.clone(),
            durability,
            outcome,
            last: self.added,
        })
    }

    /// Hands the gathered changes to a leader that has committed changes of this number and durability, if they are fewer and a thread
    /// waits for them. The leader of relaxed changes does not wait for the disk.
    pub(super) fn take_smaller_batch(
        &mut self,
        changes: usize,
        durability: Durability,
    ) -> Option<CommitBatch> {
        let is_smaller = self.gathered.len() < changes;
        let is_slower = self.must_sync && durability == Durability::Relaxed;
        let is_ready = self.is_urgent && is_smaller && !is_slower;
        if is_ready { self.take_batch() } else { None }
    }

    /// Whether there are no gathered changes.
    pub(super) fn is_empty(&self) -> bool {
        self.gathered.is_empty()
    }

    /// Marks a batch as durable, and as part of `snapshot`.
    pub(super) fn mark_committed(&mut self, snapshot: Arc<dyn Snapshot>, batch: &CommitBatch) {
        self.view = StoreView::new(snapshot, self.gathered.clone());
        self.durable = batch.last;
        self.committing_outcome = None;
        batch.outcome.set(Ok(()));
    }

    /// Adds a large commit, which `snapshot` contains. Its keys differ from the keys of the gathered changes. No batch is being
    /// committed. Applies the definitions of the commit to `published`, the catalog of the published state. `keys` are recorded for the
    /// open transactions.
    pub(super) fn add_large(
        &mut self,
        snapshot: Arc<dyn Snapshot>,
        changes: &Changes,
        published: &mut Catalog,
        keys: Option<KeySet>,
    ) -> Result<()> {
        self.move_to(snapshot);
        for name in self.catalog.apply_changes(&self.view, changes)? {
            published.set(&name, self.catalog.get(&name).cloned());
        }
        self.added += 1;
        if let Some(keys) = keys {
            self.conflicts.record_large(keys, self.added);
        }
        if self.gathered.is_empty() {
            self.durable = self.added;
        }
        Ok(())
    }

    /// Moves the staged changes to a different snapshot with the same content.
    pub(super) fn move_to(&mut self, snapshot: Arc<dyn Snapshot>) {
        self.view = StoreView::new(snapshot, self.view.changes().clone());
    }

    /// Drops all changes that are not durable, because they are based on a failed commit.
    pub(super) fn fail_uncommitted(&mut self, durable: &DatabaseState, error: &Error) {
        let failed = [
            self.committing_outcome.take(),
            Some(mem::take(&mut self.gathering_outcome)),
        ];
        for outcome in failed.into_iter().flatten() {
            outcome.set(Err(error.clone()));
        }
        self.gathered = Changes::new();
        self.is_urgent = false;
        self.must_sync = false;
        self.reset_to(durable);
    }

    /// Resets the staged state to a durable state.
    pub(super) fn reset_to(&mut self, durable: &DatabaseState) {
        self.view = durable.view.clone();
        self.catalog = durable.catalog.clone();
        self.log = durable.log.clone();
        // All earlier writes have failed, so they must not conflict with transactions that begin now.
        self.durable = self.added;
    }
}
