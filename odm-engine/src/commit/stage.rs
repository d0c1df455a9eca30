use std::mem;
use std::sync::Arc;

use super::conflicts::{Conflicts, TransactionId};
use super::{ChangeLog, Haste, Log};
use crate::catalog::Catalog;
use crate::change::Event;
use crate::error::Result;
use crate::store::{Changes, Snapshot, View};

/// The state that the next write starts from: durable or on its way there.
pub(super) struct Stage {
    /// The last durable snapshot, with everything since on top.
    view: View,
    catalog: Catalog,
    log: Log,
    /// What no leader has taken yet.
    gathered: Changes,
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
    pub(super) ticket: u64,
}

impl Stage {
    pub(super) fn new(view: View, catalog: Catalog, log: Log) -> Stage {
        Stage {
            view,
            catalog,
            log,
            gathered: Changes::new(),
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
    ) -> Result<u64> {
        let mut log = self.log.clone();
        log.add(&self.view, &mut changes, events)?;
        self.add_logged(changes, log, haste)
    }

    /// Gives the log other settings, if they are chosen; the result is what to wait for.
    pub(super) fn configure_log(&mut self, chosen: Option<Option<ChangeLog>>) -> Result<u64> {
        let Some(keep) = chosen else {
            return Ok(self.added);
        };
        let mut log = self.log.clone();
        let changes = log.configure(&self.view, keep)?;
        self.add_logged(changes, log, Haste::Now)
    }

    fn add_logged(&mut self, changes: Changes, log: Log, haste: Haste) -> Result<u64> {
        if changes.is_empty() {
            return Ok(self.added);
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
        Ok(self.added)
    }

    /// Hands everything that has gathered to a leader.
    pub(super) fn take(&mut self) -> Batch {
        self.is_wanted = false;
        Batch {
            changes: mem::take(&mut self.gathered),
            catalog: self.catalog.clone(),
            log: self.log.clone(),
            ticket: self.added,
        }
    }

    /// The same, if that is less than `changes`, and somebody wants some of it now.
    pub(super) fn take_fewer_than(&mut self, changes: usize) -> Option<Batch> {
        let is_due = self.is_wanted && (1..changes).contains(&self.gathered.len());
        is_due.then(|| self.take())
    }

    /// Whether there is nothing for a leader to take.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.gathered.is_empty()
    }

    /// Notes that what was taken is durable now and part of `snapshot`.
    pub(super) fn committed(&mut self, snapshot: Arc<dyn Snapshot>, ticket: u64) {
        self.view = View::new(snapshot, self.gathered.clone());
        self.durable = ticket;
    }
}
