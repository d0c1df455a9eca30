use std::mem;
use std::sync::Arc;

use super::conflicts::{Conflicts, TransactionId};
use super::outcome::BatchOutcome;
use super::{ChangeLog, Haste, Log, State};
use crate::catalog::Catalog;
use crate::change::Event;
use crate::error::{Error, Result};
use crate::store::{Changes, Snapshot, View};

/// The state that the next write starts from: durable or on its way there.
pub(super) struct Stage {
    /// The last durable snapshot, with everything since on top.
    view: View,
    catalog: Catalog,
    log: Log,
    /// What no leader has taken yet.
    gathered: Changes,
    /// What becomes of that, and of what a leader has taken.
    gathering: Arc<BatchOutcome>,
    taken: Option<Arc<BatchOutcome>>,
    /// Whether some of that is not to wait for others.
    is_wanted: bool,
    conflicts: Conflicts,
    /// The number of the last write that was added, and of the last one that is durable.
    added: u64,
    durable: u64,
}

/// What a leader commits.
pub(super) struct Batch {
    pub(super) changes: Changes,
    pub(super) catalog: Catalog,
    pub(super) log: Log,
    pub(super) outcome: Arc<BatchOutcome>,
    /// The number of the last write in it.
    last: u64,
}

impl Stage {
    pub(super) fn new(view: View, catalog: Catalog, log: Log) -> Stage {
        Stage {
            view,
            catalog,
            log,
            gathered: Changes::new(),
            gathering: Arc::default(),
            taken: None,
            is_wanted: false,
            conflicts: Conflicts::default(),
            added: 0,
            durable: 0,
        }
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    pub(super) fn conflicts(&mut self) -> &mut Conflicts {
        &mut self.conflicts
    }

    /// Registers a transaction that reads the last durable state.
    pub(super) fn begin(&mut self) -> TransactionId {
        // What is not durable yet is not in that state, so that it counts as changed later.
        self.conflicts
            .begin(self.durable, self.added, self.view.changes())
    }

    /// Adds the changes of one write, with its events; the result is what to wait for.
    pub(super) fn add(
        &mut self,
        mut changes: Changes,
        events: &[Event],
        haste: Haste,
    ) -> Result<Arc<BatchOutcome>> {
        let mut log = self.log.clone();
        log.add(&self.view, &mut changes, events)?;
        self.add_logged(changes, log, haste)
    }

    /// Gives the log other settings, if they are chosen; the result is what to wait for.
    pub(super) fn configure_log(
        &mut self,
        chosen: Option<Option<ChangeLog>>,
    ) -> Result<Arc<BatchOutcome>> {
        let Some(keep) = chosen else {
            return Ok(self.latest());
        };
        let mut log = self.log.clone();
        let changes = log.configure(&self.view, keep)?;
        self.add_logged(changes, log, Haste::Now)
    }

    fn add_logged(
        &mut self,
        changes: Changes,
        log: Log,
        haste: Haste,
    ) -> Result<Arc<BatchOutcome>> {
        if changes.is_empty() {
            return Ok(self.latest());
        }
        let mut view = self.view.clone();
        view.apply(&changes);
        self.catalog.apply(&view, &changes)?;
        self.view = view;
        self.log = log;
        self.added += 1;
        self.is_wanted |= haste == Haste::Now;
        self.conflicts.record(&changes, self.added);
        if self.gathered.is_empty() {
            self.gathered = changes;
        } else {
            self.gathered.extend(changes);
        }
        Ok(Arc::clone(&self.gathering))
    }

    /// What becomes of the last write that the stage shows.
    fn latest(&self) -> Arc<BatchOutcome> {
        match &self.taken {
            _ if !self.gathered.is_empty() => Arc::clone(&self.gathering),
            Some(taken) => Arc::clone(taken),
            None => Arc::new(BatchOutcome::durable()),
        }
    }

    /// Hands everything that has gathered to a leader.
    pub(super) fn take(&mut self) -> Option<Batch> {
        if self.gathered.is_empty() {
            return None;
        }
        self.is_wanted = false;
        let outcome = mem::take(&mut self.gathering);
        self.taken = Some(Arc::clone(&outcome));
        Some(Batch {
            changes: mem::take(&mut self.gathered),
            catalog: self.catalog.clone(),
            log: self.log.clone(),
            outcome,
            last: self.added,
        })
    }

    /// The same, if that is less than `changes`, and somebody wants some of it now.
    pub(super) fn take_fewer_than(&mut self, changes: usize) -> Option<Batch> {
        let is_due = self.is_wanted && self.gathered.len() < changes;
        if is_due { self.take() } else { None }
    }

    /// Whether there is nothing for a leader to take.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.gathered.is_empty()
    }

    /// Notes that what was taken is durable now and part of `snapshot`.
    pub(super) fn committed(&mut self, snapshot: Arc<dyn Snapshot>, batch: &Batch) {
        self.view = View::new(snapshot, self.gathered.clone());
        self.durable = batch.last;
        self.taken = None;
        batch.outcome.set(Ok(()));
    }

    /// Forgets everything that is not durable: it stands on a commit that has failed.
    pub(super) fn fail(&mut self, durable: &State, error: &Error) {
        let failed = [self.taken.take(), Some(mem::take(&mut self.gathering))];
        for outcome in failed.into_iter().flatten() {
            outcome.set(Err(error.clone()));
        }
        self.gathered = Changes::new();
        self.is_wanted = false;
        self.reset(durable);
    }

    /// Starts from a durable state.
    pub(super) fn reset(&mut self, durable: &State) {
        self.view = durable.view.clone();
        self.catalog = durable.catalog.clone();
        self.log = durable.log.clone();
        // Transactions that begin now see that all writes before have failed.
        self.durable = self.added;
    }
}
