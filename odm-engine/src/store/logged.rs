//! A store on disk with a write-ahead log in front.
//!
//! A small commit appends one record to the log, with one write and one sync. The changes since the last checkpoint are in memory,
//! on top of the last snapshot of the file. A checkpoint moves these changes to the file, in one commit of redb, together with a new
//! [generation](Generation), which makes the records of the log obsolete. A commit is a checkpoint if it is large, has bulk steps, or
//! finds the log full.
//!
//! | a process dies | the next process finds |
//! |---|---|
//! | while a record is written | no record, or the whole record |
//! | while a checkpoint runs | the old generation, and all records |
//! | after a checkpoint, before the next record | the new generation, and no record of it |
//!
//! On a full disk, the log must not keep changes for which the file has no room. So the store takes a reserve of disk space as the log
//! grows. If the disk has no more space, every commit is a checkpoint.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::redb::{Generation, RedbStore, WriteAheadLog};
use super::{BulkCallback, Changes, CommitError, Snapshot, Store, StoreView};
use crate::error::{Error, Result};
use crate::key;

/// How many changes are moved at a time while the disk is full. Fewer changes need less space.
const SPILLED_CHANGES: [usize; 3] = [256, 32, 4];

pub(crate) struct LoggedStore {
    file: RedbStore,
    log: Mutex<LogState>,
    /// The state after the last commit: the snapshot after the last checkpoint, and the later changes.
    current: RwLock<StoreView>,
}

#[derive(Default)]
struct LogState {
    /// `None` if the file has no log, or no checkpoint yet.
    log: Option<WriteAheadLog>,
    /// The generation of a checkpoint with an unknown outcome.
    unknown_checkpoint: Option<Generation>,
}

impl LoggedStore {
    /// Opens the log of a file. A file of an older format has no log, and every commit is a commit of the file.
    ///
    /// # Errors
    /// Damaged, I/O.
    pub(crate) fn open(file: RedbStore) -> Result<LoggedStore> {
        let (log, changes) = match file.open_log()? {
            Some((log, changes)) => (Some(log), changes),
            None => (None, Changes::new()),
        };
        let current = StoreView::new(file.snapshot()?, changes);
        Ok(LoggedStore {
            file,
            log: Mutex::new(LogState {
                log,
                ..LogState::default()
            }),
            current: RwLock::new(current),
        })
    }

    /// Appends the changes to the log. Returns `false` if the commit must be a checkpoint.
    fn append(&self, state: &mut LogState, changes: &Changes) -> Result<bool, CommitError> {
        let Some(log) = &mut state.log else {
            return Ok(false);
        };
        let Some(record) = log.record_of(changes) else {
            return Ok(false);
        };
        if !self.file.has_room_for_log(log.len() + record.len()) {
            return Ok(false);
        }
        let Err(error) = log.append(&record) else {
            self.current_mut(|current| current.apply_changes(changes));
            return Ok(true);
        };
        let error = self.file.convert_io(error);
        match log.erase_unknown_record() {
            Ok(()) if error.is_storage_full() => Ok(false),
            Ok(()) => Err(CommitError::Undone(error.into_rolled_back())),
            Err(_) => Err(CommitError::Unknown(error.into_outcome_unknown())),
        }
    }

    /// Commits the changes of the log and further changes to the file.
    fn checkpoint(
        &self,
        state: &mut LogState,
        changes: &Changes,
        bulk: Option<BulkCallback<'_>>,
    ) -> Result<(), CommitError> {
        let logged = self.current().changes().clone();
        if bulk.is_some() && !logged.is_empty() {
            // The bulk steps follow the changes of the log.
            self.checkpoint(state, &Changes::new(), None)?;
            return self.checkpoint(state, changes, bulk);
        }
        let mut all = match logged.is_empty() {
            true => changes.clone(),
            false => changes.clone().union(logged),
        };
        let is_log_in_use = state.log.as_ref().is_none_or(|log| log.len() > 0);
        let generation = (self.file.has_log() && is_log_in_use).then(Generation::random);
        if let Some(generation) = generation {
            add_generation(&mut all, generation);
        }
        match self.file.commit(&all, bulk) {
            Ok(()) => {
                self.finish_checkpoint(state, generation);
                self.move_to_file_snapshot(Changes::new())
            }
            Err(CommitError::Undone(error)) => {
                // The file may have been reopened, which makes its old snapshots unreadable.
                self.move_to_file_snapshot(self.current().changes().clone())?;
                Err(CommitError::Undone(error))
            }
            Err(unknown) => {
                state.unknown_checkpoint = generation;
                Err(unknown)
            }
        }
    }

    fn finish_checkpoint(&self, state: &mut LogState, generation: Option<Generation>) {
        let Some(generation) = generation else {
            return;
        };
        match &mut state.log {
            Some(log) => log.restart(generation),
            None => state.log = Some(self.file.new_log(generation)),
        }
    }

    /// Makes the last snapshot of the file, with changes on top, the current state.
    fn move_to_file_snapshot(&self, changes: Changes) -> Result<(), CommitError> {
        let snapshot = self.file.snapshot().map_err(CommitError::Unknown)?;
        self.current_mut(|current| *current = StoreView::new(snapshot, changes));
        Ok(())
    }

    /// Returns the part of the log that is moved next on a full disk. Removals come first, because they free space.
    fn next_spill(&self, size: usize) -> Changes {
        let current = self.current();
        let changes = current.changes();
        let removals = changes.iter().filter(|(_, value)| value.is_none());
        let others = changes.iter().filter(|(_, value)| value.is_some());
        let ordered = removals.chain(others).take(size);
        ordered
            .map(|(key, value)| (Arc::clone(key), value.clone()))
            .collect()
    }

    fn current(&self) -> StoreView {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    fn current_mut(&self, change: impl FnOnce(&mut StoreView)) {
        // Work on a copy, so that a reader never waits for the change.
        let mut changed = self.current();
        change(&mut changed);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let previous = mem::replace(&mut *current, changed);
        drop(current);
        drop(previous);
    }

    fn lock_log(&self) -> MutexGuard<'_, LogState> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add_generation(changes: &mut Changes, generation: Generation) {
    let value = Some(generation.as_bytes().into());
    changes.insert(key::for_log_generation().into(), value);
}

impl Store for LoggedStore {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(self.current()))
    }

    fn commit(&self, changes: &Changes, bulk: Option<BulkCallback<'_>>) -> Result<(), CommitError> {
        let state = &mut *self.lock_log();
        if bulk.is_none() && self.append(state, changes)? {
            return Ok(());
        }
        self.checkpoint(state, changes, bulk)
    }

    fn spill(&self) -> Result<bool, CommitError> {
        let state = &mut *self.lock_log();
        let mut full = None;
        for size in SPILLED_CHANGES {
            let mut moved = self.next_spill(size);
            if moved.is_empty() {
                return Ok(false);
            }
            let logged = self.current().changes().clone();
            let remaining = logged.relative_complement(moved.clone());
            let generation = remaining.is_empty().then(Generation::random);
            if let Some(generation) = generation {
                add_generation(&mut moved, generation);
            }
            match self.file.commit_from_reserve(&moved) {
                // The log keeps the records. After a crash, they have the same effect again.
                Ok(()) => {
                    self.finish_checkpoint(state, generation);
                    return self.move_to_file_snapshot(remaining).map(|()| true);
                }
                Err(CommitError::Undone(error)) if error.is_storage_full() => {
                    self.move_to_file_snapshot(self.current().changes().clone())?;
                    full = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(CommitError::Undone(full.unwrap_or_else(Error::closed)))
    }

    fn reopen(&self) -> Result<()> {
        let state = &mut *self.lock_log();
        self.file.reopen()?;
        if let Some(log) = &mut state.log {
            let erased = log.erase_unknown_record();
            erased.map_err(|error| self.file.convert_io(error))?;
        }
        let mut changes = self.current().changes().clone();
        if let Some(generation) = state.unknown_checkpoint {
            let stored = self.file.snapshot()?.get(&key::for_log_generation())?;
            if stored.as_deref() == Some(generation.as_bytes()) {
                self.finish_checkpoint(state, Some(generation));
                changes = Changes::new();
            }
            state.unknown_checkpoint = None;
        }
        match self.move_to_file_snapshot(changes) {
            Ok(()) => Ok(()),
            Err(CommitError::Undone(error) | CommitError::Unknown(error)) => Err(error),
        }
    }

    fn check_space(&self, changes: &Changes, base: &dyn Snapshot) -> Result<()> {
        self.file.check_space(changes, base)
    }

    fn close(&self) {
        let state = &mut *self.lock_log();
        let has_changes = !self.current().changes().is_empty();
        if state.unknown_checkpoint.is_none() && has_changes {
            // Ignore the error: the next process finds the changes in the log.
            let _ = self.checkpoint(state, &Changes::new(), None);
        }
        self.current_mut(|current| {
            *current = StoreView::new(Arc::new(super::ClosedSnapshot), Changes::new());
        });
        self.file.close();
    }
}

impl Drop for LoggedStore {
    fn drop(&mut self) {
        self.close();
    }
}
