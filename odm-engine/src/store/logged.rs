//! A store on disk with a write-ahead log in front.
//!
//! A small commit appends one record to the log, with one write and one sync. The changes since the last checkpoint are in memory,
//! on top of the last snapshot of the file. A checkpoint moves these changes to the file, in one commit of redb, together with a new
//! [start](LogStart) of the log, which makes the records of the log obsolete. A commit is a checkpoint if it does not fit into the log.
//!
//! A large commit goes to the file too. The log stays open for small commits meanwhile, and the start of the log moves to the first
//! of these records. The keys of the large commit and of these records differ, so each of them is valid without the other. The log cannot
//! be emptied before the end of the large commit, so the small commits become [slower](LoggedStore::pause_beside_large) as it fills up.
//!
//! | a process dies | the next process finds |
//! |---|---|
//! | while a record is written | no record, or the whole record |
//! | while a checkpoint or a large commit runs | the old start, and all records |
//! | after a checkpoint, before the next record | the new start, and no record |
//! | after a large commit | the new start, and the records of the small commits beside it |
//!
//! A compaction writes the content to a new file, which then has the path of the old file. Snapshots of the old file stay readable.
//!
//! On a full disk, the log must not keep changes for which the file has no room. So the store takes a reserve of disk space as the
//! log grows. If the disk has no more space, every commit is a checkpoint.

mod sync_worker;

use std::fs::Permissions;
use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use sync_worker::SyncWorker;

use super::redb::{LogStart, RedbStore, WriteAheadLog};
use super::{
    Changes, CommitError, LARGE_COMMIT_BYTES, LargeCommit, Snapshot, StorageUsage, Store, StoreView,
};
use crate::backup;
use crate::brief;
use crate::compaction::{self, CompactionReport};
use crate::durability::Durability;
use crate::error::{Error, Result};
use crate::key;

/// How many changes are moved at a time while the disk is full. Fewer changes need less space.
const SPILLED_CHANGES: [usize; 4] = [256, 32, 4, 1];

/// The used share of the log from which small commits beside a large commit pause. A large commit begins with a log below this share.
const FIRST_PAUSE_SHARE: f64 = 0.25;

/// The pause of a small commit beside a large commit in a full log.
const MAX_PAUSE: Duration = Duration::from_millis(25);

/// The average time of a durable record up to which a thread of an async runtime may wait for the record.
const MAX_PROMPT_TIME: Duration = Duration::from_micros(300);

/// The assumed average before the first records: not prompt.
const INITIAL_RECORD_NANOS: u64 = 1_000_000;

/// The weight of the average against a new time.
const AVERAGE_WEIGHT: u64 = 7;

pub(crate) struct LoggedStore {
    /// A compaction replaces the file.
    file: RwLock<Arc<RedbStore>>,
    /// Held during a commit of the file. A thread locks this mutex before the log.
    file_commit: Mutex<()>,
    log: Arc<Mutex<OpenLog>>,
    /// Whether a commit was relaxed since the file was opened.
    was_relaxed: AtomicBool,
    /// The moving average of the time that a durable record takes, in nanoseconds.
    record_nanos: AtomicU64,
    sync_worker: SyncWorker,
    /// The state after the last commit: the snapshot after the last checkpoint, and the later changes.
    current: RwLock<StoreView>,
}

#[derive(Default)]
struct OpenLog {
    /// `None` if the file has no log, or no checkpoint yet.
    log: Option<WriteAheadLog>,
    /// The commit of the file with an unknown outcome.
    unknown_commit: Option<UnknownCommit>,
    /// The changes of the records since a large commit began; `None` without a large commit.
    beside_large: Option<Changes>,
    /// Whether there is a large commit that readers may not see yet.
    is_large_unpublished: bool,
    is_closed: bool,
    /// The path of the file after a compaction, until the path is durable. After a power loss before, the path can belong to the old
    /// file.
    renamed: Option<PathBuf>,
    /// Whether a sync of the log failed. The operating system may have dropped the records, so the next commit is a checkpoint, which
    /// writes the changes of these records again.
    is_sync_lost: bool,
}

/// Why a commit of the file runs beside small commits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LargeCommitKind {
    /// A large write, which readers see after the commit.
    Write,
    /// Readers see the changes already.
    MoveOfLog,
}

/// The log at the begin of a large commit.
struct LogBesideLarge {
    /// The start of the log after the commit.
    start: Option<LogStart>,
    /// The changes of the records before the start.
    logged: Changes,
}

/// Whether a large commit can begin with this log: small commits beside it need the rest.
fn has_room_beside_large(log: &WriteAheadLog) -> bool {
    log.used_share() < FIRST_PAUSE_SHARE
}

/// A commit of the file, from the start until its outcome is known.
struct UnknownCommit {
    /// The new start of the log, if the commit makes records obsolete.
    start: Option<LogStart>,
}

impl OpenLog {
    /// The pause before the next record.
    fn pause(&self) -> Duration {
        match (&self.beside_large, &self.log) {
            (Some(_), Some(log)) => pause_of(log.used_share()),
            _ => Duration::ZERO,
        }
    }

    /// Makes the path of the file durable, after a compaction.
    fn sync_path(&mut self) -> io::Result<()> {
        if let Some(path) = &self.renamed {
            backup::sync_directory(path)?;
            self.renamed = None;
        }
        Ok(())
    }

    /// Makes all records of the log durable.
    fn sync(&mut self) -> io::Result<()> {
        self.sync_path()?;
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        log.sync().inspect_err(|_| self.is_sync_lost = true)
    }
}

/// Returns the pause of a small commit beside a large commit, by the used share of the log.
fn pause_of(used_share: f64) -> Duration {
    let share = (used_share - FIRST_PAUSE_SHARE) / (1.0 - FIRST_PAUSE_SHARE);
    MAX_PAUSE.mul_f64(share.clamp(0.0, 1.0).powi(2))
}

/// A file, its log, and its content with the records of the log.
pub(crate) struct FileWithLog {
    pub(crate) file: Arc<RedbStore>,
    log: Option<WriteAheadLog>,
    content: StoreView,
}

impl FileWithLog {
    /// Reads the log of a file.
    ///
    /// # Errors
    /// Damaged, I/O.
    pub(crate) fn open(file: Arc<RedbStore>) -> Result<FileWithLog> {
        let (log, changes) = match file.open_log()? {
            Some((log, changes)) => (Some(log), changes),
            None => (None, Changes::new()),
        };
        let content = StoreView::new(file.snapshot()?, changes);
        Ok(FileWithLog { file, log, content })
    }
}

impl LoggedStore {
    /// Opens the log of a file. A file of an older format has no log, and every commit is a commit of the file.
    ///
    /// # Errors
    /// Damaged, I/O.
    pub(crate) fn open(file: Arc<RedbStore>) -> Result<LoggedStore> {
        let FileWithLog { file, log, content } = FileWithLog::open(file)?;
        Ok(LoggedStore {
            file: RwLock::new(file),
            file_commit: Mutex::default(),
            log: Arc::new(Mutex::new(OpenLog {
                log,
                ..OpenLog::default()
            })),
            was_relaxed: AtomicBool::new(false),
            record_nanos: AtomicU64::new(INITIAL_RECORD_NANOS),
            sync_worker: SyncWorker::default(),
            current: RwLock::new(content),
        })
    }

    /// Waits while the log fills up beside a large commit. When the log is full, a commit waits for the end of the large commit, which can
    /// take many seconds. Many short pauses prevent this long one, and the commits of other threads gather meanwhile.
    fn pause_beside_large(&self) {
        let pause = self.lock_log().pause();
        if !pause.is_zero() {
            thread::sleep(pause);
        }
    }

    /// Appends the changes to the log. Returns `false` if the commit must be a checkpoint.
    fn append(
        &self,
        state: &mut OpenLog,
        changes: &Changes,
        durability: Durability,
    ) -> Result<bool, CommitError> {
        if state.is_sync_lost || state.is_closed || state.renamed.is_some() {
            return Ok(false);
        }
        let Some(log) = &mut state.log else {
            return Ok(false);
        };
        let Some(record) = log.record_of(changes) else {
            return Ok(false);
        };
        if !self.file().has_room_for_log(log.len() + record.len()) {
            return Ok(false);
        }
        // A power loss may keep a large commit, and so must not lose a record beside it, which is the earlier write for readers.
        let is_synced = durability == Durability::Full || state.is_large_unpublished;
        let start = Instant::now();
        if let Err(error) = log.append(&record, is_synced) {
            state.is_sync_lost = log.has_unsynced_records();
            let error = self.file().convert_io(error);
            return match log.erase_unknown_record() {
                Ok(()) if error.is_storage_full() => Ok(false),
                Ok(()) => Err(CommitError::Undone(error.into_rolled_back())),
                Err(_) => Err(CommitError::Unknown(error.into_outcome_unknown())),
            };
        }
        if is_synced {
            self.record_time(start.elapsed());
        } else {
            self.was_relaxed.store(true, Ordering::Release);
            if !self.sync_worker.schedule(&self.log) {
                // After an error, the next commit writes the changes again.
                let _ = state.sync();
            }
        }
        self.current_mut(|current| current.apply_changes(changes));
        if let Some(beside_large) = &mut state.beside_large {
            beside_large.extend(changes.clone());
        }
        Ok(true)
    }

    /// Commits the changes of the log and further changes to the file.
    fn checkpoint(&self, state: &mut OpenLog, changes: &Changes) -> Result<(), CommitError> {
        let logged = self.current().changes().clone();
        let all = match logged.is_empty() {
            true => changes.clone(),
            false => changes.clone().union(logged),
        };
        let is_log_in_use = state.log.as_ref().is_none_or(|log| log.end() > 0);
        let start = (self.file().has_log() && is_log_in_use).then(LogStart::of_new_generation);
        self.commit_to_file(state, all, start, Changes::new(), |changes| {
            self.file().commit(changes)
        })
    }

    /// Commits changes to the file. The current state becomes the snapshot of the file, with `remaining` changes of the log on top. A
    /// new start makes records of the log obsolete.
    fn commit_to_file(
        &self,
        state: &mut OpenLog,
        mut changes: Changes,
        start: Option<LogStart>,
        remaining: Changes,
        commit: impl FnOnce(&Changes) -> Result<(), CommitError>,
    ) -> Result<(), CommitError> {
        insert_start(&mut changes, start);
        state.unknown_commit = Some(UnknownCommit { start });
        let committed = commit(&changes);
        self.finish_file_commit(state, committed, start, remaining)
    }

    /// Moves the current state to the file after a commit of the file. After an unknown outcome, [`reopen`](Store::reopen) does this.
    fn finish_file_commit(
        &self,
        state: &mut OpenLog,
        committed: Result<(), CommitError>,
        start: Option<LogStart>,
        remaining: Changes,
    ) -> Result<(), CommitError> {
        let (remaining, start) = match &committed {
            Ok(()) => (remaining, start),
            Err(CommitError::Undone(_)) => (self.current().changes().clone(), None),
            Err(CommitError::Unknown(_)) => return committed,
        };
        // The file may have been reopened, which makes its old snapshots unreadable, also after an error.
        let moved = self.move_to_file_snapshot(remaining);
        moved.map_err(CommitError::Unknown)?;
        self.move_log_start(state, start);
        state.unknown_commit = None;
        state.beside_large = None;
        committed
    }

    /// Adds the time of a durable record to the average. Only the thread that holds the log calls this function.
    fn record_time(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX >> 8);
        let average = self.record_nanos.load(Ordering::Relaxed);
        let average = (average * AVERAGE_WEIGHT).saturating_add(nanos) / (AVERAGE_WEIGHT + 1);
        self.record_nanos.store(average, Ordering::Relaxed);
    }

    fn move_log_start(&self, state: &mut OpenLog, start: Option<LogStart>) {
        let Some(start) = start else {
            return;
        };
        let log = state.log.get_or_insert_with(|| self.file().new_log(start));
        log.move_start(start);
        if log.len() == 0 {
            state.is_sync_lost = false;
            self.file().end_log_reserve();
        }
    }

    /// Makes the last snapshot of the file, with changes on top, the current state.
    fn move_to_file_snapshot(&self, changes: Changes) -> Result<()> {
        let snapshot = self.file().snapshot()?;
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

    /// Refuses a commit of a closed store, and a commit before the outcome of an earlier one is known.
    fn ensure_ready(&self, state: &mut OpenLog) -> Result<(), CommitError> {
        if state.is_closed {
            return Err(CommitError::Undone(Error::closed()));
        }
        let log = state.log.as_ref();
        if state.unknown_commit.is_some() || log.is_some_and(WriteAheadLog::has_unknown_record) {
            let error = io::Error::other("an earlier write has failed");
            let error = self.file().convert_io(error).into_outcome_unknown();
            return Err(CommitError::Unknown(error));
        }
        state.sync_path().map_err(|error| {
            let error = self.file().convert_io(error).into_rolled_back();
            CommitError::Undone(error)
        })
    }

    /// Begins a large commit: from now on, the records of the log belong to the state after the commit. Returns the start of the log
    /// after the commit, and the changes of the records before.
    fn begin_large(&self, kind: LargeCommitKind) -> Result<LogBesideLarge, CommitError> {
        let state = &mut *self.lock_log();
        self.ensure_ready(state)?;
        let has_room = state.log.as_ref().is_none_or(has_room_beside_large);
        if kind == LargeCommitKind::Write && (state.is_sync_lost || !has_room) {
            self.checkpoint(state, &Changes::new())?;
        }
        let start = state.log.as_ref().map(WriteAheadLog::next_start);
        state.beside_large = Some(Changes::new());
        state.is_large_unpublished |= kind == LargeCommitKind::Write;
        state.unknown_commit = Some(UnknownCommit { start });
        Ok(LogBesideLarge {
            start,
            logged: self.current().changes().clone(),
        })
    }

    /// Commits large changes to the file, together with the changes of the log, beside small commits. The caller holds the file.
    fn commit_beside_small(
        &self,
        commit: &LargeCommit<'_>,
        kind: LargeCommitKind,
    ) -> Result<(), CommitError> {
        let LogBesideLarge { start, logged } = self.begin_large(kind)?;
        let mut changes = commit.changes.clone();
        insert_start(&mut changes, start);
        let committed = self.file().commit_large(&LargeCommit {
            changes: &changes,
            bulk: Some(&|writer| {
                LargeCommit::of(&logged).write_to(writer)?;
                commit.bulk.map_or(Ok(()), |bulk| bulk(writer))
            }),
            ..*commit
        });
        let state = &mut *self.lock_log();
        let beside_large = state.beside_large.clone().unwrap_or_default();
        self.finish_file_commit(state, committed, start, beside_large)
    }

    /// Whether the log has much content, and no room for the records beside a large commit.
    fn must_empty_log(&self) -> bool {
        let state = self.lock_log();
        let log = state.log.as_ref();
        !state.is_sync_lost && log.is_some_and(|log| !has_room_beside_large(log))
    }

    fn file(&self) -> Arc<RedbStore> {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&file)
    }

    fn lock_file(&self) -> MutexGuard<'_, ()> {
        self.file_commit
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_log(&self) -> MutexGuard<'_, OpenLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for LoggedStore {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(self.current()))
    }

    fn commit(&self, changes: &Changes, durability: Durability) -> Result<(), CommitError> {
        if self.is_read_only() {
            return Err(CommitError::Undone(Error::read_only()));
        }
        self.pause_beside_large();
        if self.append(&mut self.lock_log(), changes, durability)? {
            return Ok(());
        }
        let _file = self.lock_file();
        let state = &mut *self.lock_log();
        self.ensure_ready(state)?;
        // A commit of the file may have emptied the log meanwhile.
        if self.append(state, changes, durability)? {
            return Ok(());
        }
        self.checkpoint(state, changes)
    }

    fn commit_large(&self, commit: &LargeCommit<'_>) -> Result<(), CommitError> {
        if self.is_read_only() {
            return Err(CommitError::Undone(Error::read_only()));
        }
        let _file = self.lock_file();
        if self.must_empty_log() {
            // Small commits wait for a checkpoint of a full log, so most of its content is moved beside them first.
            let nothing = Changes::new();
            let moved =
                self.commit_beside_small(&LargeCommit::of(&nothing), LargeCommitKind::MoveOfLog);
            // If the move was undone, the commit itself empties the log.
            if let Err(error @ CommitError::Unknown(_)) = moved {
                return Err(error);
            }
        }
        self.commit_beside_small(commit, LargeCommitKind::Write)
    }

    fn end_large_commit(&self) {
        self.lock_log().is_large_unpublished = false;
    }

    fn large_commit_bytes(&self) -> usize {
        // A test can choose a small log, and so a small limit.
        match self.file().log_bytes() {
            0 => LARGE_COMMIT_BYTES,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        }
    }

    fn is_prompt(&self, change_bytes: usize, durability: Durability) -> bool {
        let average = Duration::from_nanos(self.record_nanos.load(Ordering::Relaxed));
        let time_left = brief::brief_time_left().unwrap_or(MAX_PROMPT_TIME);
        let is_relaxed = durability == Durability::Relaxed;
        let is_fast = is_relaxed || average <= time_left.min(MAX_PROMPT_TIME);
        // The log is locked during a sync of relaxed commits.
        is_fast
            && self.log.try_lock().is_ok_and(|state| {
                let has_room = |log: &WriteAheadLog| {
                    // The sync of a relaxed record may take longer than the sync of this record.
                    let is_synced = is_relaxed || !log.has_unsynced_records();
                    is_synced && log.has_room_for(change_bytes)
                };
                let is_ready = !state.is_sync_lost && state.pause().is_zero();
                is_ready && state.log.as_ref().is_some_and(has_room)
            })
    }

    fn sync_log(&self) -> Result<bool> {
        if !self.was_relaxed.load(Ordering::Acquire) {
            return Ok(true);
        }
        let state = &mut *self.lock_log();
        if state.is_sync_lost {
            return Ok(false);
        }
        let synced = state.sync();
        synced.map_err(|error| self.file().convert_io(error))?;
        Ok(true)
    }

    fn sync(&self) -> Result<()> {
        if self.sync_log()? {
            return Ok(());
        }
        let _file = self.lock_file();
        let synced = self.checkpoint(&mut self.lock_log(), &Changes::new());
        synced.map_err(CommitError::into_error)
    }

    fn compact(&self) -> Result<CompactionReport> {
        if self.is_read_only() {
            return Err(Error::read_only());
        }
        let _file = self.lock_file();
        {
            let state = &mut *self.lock_log();
            self.ensure_ready(state).map_err(CommitError::into_error)?;
            // After a power loss before the new path is durable, the path belongs to the old file.
            if !state.is_sync_lost {
                let synced = state.sync();
                synced.map_err(|error| self.file().convert_io(error))?;
            }
        }
        let original = self.file();
        // The log is not locked: `usage` reads its length meanwhile.
        let (compact, report) = compaction::replace_file(&original, &self.current())?;
        let state = &mut *self.lock_log();
        state.renamed = compact.file.path();
        (state.log, state.is_sync_lost) = (compact.log, false);
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = compact.file;
        self.current_mut(|current| *current = compact.content);
        // The last snapshot of the old file closes that file.
        original.mark_replaced();
        drop(original);
        let synced = state.sync_path();
        synced.map_err(|error| self.file().convert_io(error))?;
        Ok(report)
    }

    fn new_format(&self) -> u32 {
        self.file().new_format()
    }

    fn spill(&self) -> Result<bool, CommitError> {
        let _file = self.lock_file();
        let state = &mut *self.lock_log();
        // The order of the moved changes is not the order of the commits. A power loss after a part of a relaxed commit was moved must
        // find the rest in the log.
        let sizes = match state.is_sync_lost || state.sync().is_err() {
            true => &[usize::MAX][..],
            false => &SPILLED_CHANGES,
        };
        let mut committed = Ok(());
        for &size in sizes {
            let moved = self.next_spill(size);
            if moved.is_empty() {
                return Ok(false);
            }
            // The log keeps the records. After a crash, they have the same effect again.
            let logged = self.current().changes().clone();
            let remaining = logged.relative_complement(moved.clone());
            let start = remaining.is_empty().then(LogStart::of_new_generation);
            committed = self.commit_to_file(state, moved, start, remaining, |changes| {
                self.file().commit_from_reserve(changes)
            });
            match &committed {
                Err(CommitError::Undone(error)) if error.is_storage_full() => {}
                _ => break,
            }
        }
        committed.map(|()| true)
    }

    fn reopen(&self) -> Result<()> {
        let _file = self.lock_file();
        let state = &mut *self.lock_log();
        if let Some(log) = &mut state.log {
            let erased = log.erase_unknown_record();
            erased.map_err(|error| self.file().convert_io(error))?;
        }
        let Some(unknown) = &state.unknown_commit else {
            return Ok(());
        };
        self.file().reopen()?;
        let stored = self.file().snapshot()?.get(&key::for_log_start())?;
        let stored = stored.as_deref().and_then(LogStart::from_bytes);
        let start = unknown.start.filter(|new| stored == Some(*new));
        self.move_to_file_snapshot(match start {
            Some(_) => state.beside_large.clone().unwrap_or_default(),
            None => self.current().changes().clone(),
        })?;
        self.move_log_start(state, start);
        state.unknown_commit = None;
        state.beside_large = None;
        Ok(())
    }

    fn check_space(&self, changes: &Changes, base: &dyn Snapshot) -> Result<()> {
        self.file().check_space(changes, base)
    }

    fn usage(&self) -> Result<StorageUsage> {
        let state = self.lock_log();
        Ok(StorageUsage {
            file_bytes: Some(self.file().file_bytes()?),
            log_bytes: state.log.as_ref().map(WriteAheadLog::len),
        })
    }

    fn permissions(&self) -> Option<Permissions> {
        self.file().permissions()
    }

    fn is_read_only(&self) -> bool {
        self.file().is_read_only()
    }

    fn close(&self) {
        self.sync_worker.stop();
        let _file = self.lock_file();
        let state = &mut *self.lock_log();
        let has_records = state.log.as_ref().is_some_and(|log| log.len() > 0);
        if state.unknown_commit.is_none() && has_records && !self.is_read_only() {
            // Ignore the error: the next process finds the changes in the log.
            let _ = self.checkpoint(state, &Changes::new());
        }
        state.is_closed = true;
        self.current_mut(|current| {
            *current = StoreView::new(Arc::new(super::ClosedSnapshot), Changes::new());
        });
        self.file().close();
    }
}

/// Adds the new start of the log to the changes of a commit of the file.
fn insert_start(changes: &mut Changes, start: Option<LogStart>) {
    if let Some(start) = start {
        changes.insert(key::for_log_start().into(), Some(start.to_bytes().into()));
    }
}

impl Drop for LoggedStore {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::super::redb::LOG_BYTES;
    use super::*;

    #[test]
    fn a_commit_within_the_limit_is_prompt() {
        let file = RedbStore::open_storage(InMemoryBackend::new(), LOG_BYTES).unwrap();
        let store = LoggedStore::open(file).unwrap();
        // The first commit creates the log.
        store.commit(&Changes::new(), Durability::Full).unwrap();
        let is_prompt = |durability, average_micros: u64, limit_micros: u64| {
            let nanos = average_micros * 1_000;
            store.record_nanos.store(nanos, Ordering::Relaxed);
            let limit = Duration::from_micros(limit_micros);
            brief::run_briefly(limit, || store.is_prompt(100, durability))
        };
        assert!(is_prompt(Durability::Full, 200, 1_000_000));
        assert!(!is_prompt(Durability::Full, 200, 100));
        assert!(!is_prompt(Durability::Full, 400, 1_000_000));
        assert!(is_prompt(Durability::Relaxed, 400, 100));
    }

    fn change(number: u32, bytes: usize) -> Changes {
        let mut changes = Changes::new();
        let value = vec![1_u8; bytes];
        changes.insert(number.to_be_bytes().as_slice().into(), Some(value.into()));
        changes
    }

    /// The log fills up before and beside the large commit.
    #[test]
    fn a_large_commit_begins_with_an_empty_log() {
        let file = RedbStore::open_storage(InMemoryBackend::new(), 256 << 10).unwrap();
        let store = LoggedStore::open(file).unwrap();
        let used_share = || store.lock_log().log.as_ref().unwrap().used_share();
        store.commit(&Changes::new(), Durability::Full).unwrap();
        let mut number = 0;
        while !store.must_empty_log() {
            number += 1;
            store
                .commit(&change(number, 1_000), Durability::Full)
                .unwrap();
        }
        let before = number;
        assert!((FIRST_PAUSE_SHARE..0.3).contains(&used_share()));
        assert_eq!(store.lock_log().pause(), Duration::ZERO);
        let large = change(u32::MAX, 1_000_000);
        let beside = std::cell::Cell::new(0);
        let commit = LargeCommit {
            bulk: Some(&|_| {
                assert!(used_share() < FIRST_PAUSE_SHARE);
                let mut last = Duration::ZERO;
                while used_share() < 0.9 {
                    beside.set(beside.get() + 1);
                    let pause = store.lock_log().pause();
                    assert!((last..MAX_PAUSE).contains(&pause), "{pause:?}");
                    last = pause;
                    // As a commit, without its pause.
                    let appended = store.append(
                        &mut store.lock_log(),
                        &change(before + beside.get(), 8_000),
                        Durability::Full,
                    );
                    assert!(appended.unwrap());
                }
                assert!(last > MAX_PAUSE / 2, "{last:?}");
                Ok(())
            }),
            ..LargeCommit::of(&large)
        };
        store.commit_large(&commit).unwrap();
        store.end_large_commit();
        assert_eq!(store.lock_log().pause(), Duration::ZERO);
        let snapshot = store.snapshot().unwrap();
        for number in (1..=before + beside.get()).chain([u32::MAX]) {
            assert!(
                snapshot.get(&number.to_be_bytes()).unwrap().is_some(),
                "{number}"
            );
        }
        store
            .commit_large(&LargeCommit::of(&change(0, 1_000_000)))
            .unwrap();
        assert!(used_share() < FIRST_PAUSE_SHARE);
    }

    #[test]
    fn the_pause_grows_with_the_log() {
        let pauses = [0.0, 0.25, 0.5, 0.75, 1.0, 1.1].map(pause_of);
        assert_eq!(pauses[..2], [Duration::ZERO; 2]);
        assert!(pauses.is_sorted());
        assert_eq!(pauses[4..], [MAX_PAUSE; 2]);
    }
}
