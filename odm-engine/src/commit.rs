//! Group commit: writes become durable in order, and many writes share one fsync.
//!
//! A write runs in memory on the caller's thread. It runs on the state after all earlier writes, whether these are durable or
//! not. Then one thread becomes the leader and commits all gathered changes in one store transaction. The other threads find
//! their writes done. So a thread waits for at most two commits: the running commit and the next commit. A write that fails on
//! its own leaves no trace.
//!
//! [Large writes](large) and [builds of indexes](index_build) run beside these commits.

mod conflicts;
mod index_build;
mod large;
mod leader;
mod log;
mod opening;
mod outcome;
mod removal;
mod staging;
mod watchers;

use std::fs::Permissions;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use conflicts::contended_keys;
use index_build::IndexBuilds;
use large::{INTERRUPT_INTERVAL, MAX_STAGING_TIME, MAX_STAGING_TIME_OF_MANY};
use leader::CommitLeader;
use outcome::BatchOutcome;
use staging::{AddedWrite, CommitBatch, StagingArea};
use watchers::CommitWatchers;

use crate::brief;
use crate::catalog::Catalog;
use crate::compaction::CompactionReport;
use crate::durability::Durability;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::overlay::{ConflictCheck, OverlayOutcome, WriteOverlay};
use crate::store::{
    Changes, ClosedSnapshot, Snapshot, StorageUsage, Store, StoreView, snapshot_contains,
};

pub(crate) use conflicts::TransactionId;
pub use log::ChangeLogLimits;
pub(crate) use log::LogState;

/// How long after an immediate write more writes are expected.
const RECENT_WRITE_WINDOW: Duration = Duration::from_millis(10);

/// The number of changes from which a transaction claims their keys as a whole.
const MANY_CHANGES: usize = 1_000;

/// How long a deferred commit waits for a commit of another thread.
const MAX_COMMIT_DEFERRAL: Duration = Duration::from_millis(5);

/// How soon changes must be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitUrgency {
    Immediate,
    /// Together with the changes of other threads, as long as these write. A deferred commit does not start a commit that other
    /// threads would wait for.
    Deferred,
}

/// How a write is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommitOptions {
    pub(crate) urgency: CommitUrgency,
    pub(crate) durability: Durability,
}

impl CommitOptions {
    pub(crate) fn immediate(durability: Durability) -> CommitOptions {
        CommitOptions {
            urgency: CommitUrgency::Immediate,
            durability,
        }
    }
}

/// The only place where a database changes.
pub(crate) struct Committer {
    store: Box<dyn Store>,
    published: RwLock<Arc<DatabaseState>>,
    staging: Mutex<StagingArea>,
    /// The progress of commits to the store. Unlike the staging area, this lock is held only briefly.
    progress: Mutex<CommitProgress>,
    /// Notified of progress and of failure.
    committed: Condvar,
    next_collection: Arc<AtomicU32>,
    watchers: CommitWatchers,
    builds: IndexBuilds,
    /// Held by the thread that makes large commits. Locks are taken in this order: the turn of a build, the turn of a large commit, the
    /// right to lead, the staging area, the failure or the progress, the file, the log of the store. A large commit holds the file
    /// when it locks the staging area for its validation. So it gives way to a thread that holds the staging area and wants the
    /// file.
    large_turn: Mutex<()>,
    /// The number of threads that hold the staging area and want the file.
    file_waits: AtomicU32,
    /// Set while the store is not writable and the outcome of the last commit is unknown.
    failure: Mutex<Option<CommitFailure>>,
    /// Whether a compaction copies the file. Commits wait for its end.
    is_compacting: AtomicBool,
    is_closed: AtomicBool,
}

/// The permit to commit a transaction: the locked staging area.
pub(crate) struct CommitPermit<'a>(MutexGuard<'a, StagingArea>);

/// A commit with an unknown outcome.
struct CommitFailure {
    error: Error,
    /// The commits that may have been written.
    commits: Vec<FailedCommit>,
}

enum FailedCommit {
    Batch(CommitBatch),
    /// The changes of a large commit.
    Large(Changes),
    /// A panic has lost the batch.
    Lost,
}

/// A durable state of the database.
pub(crate) struct DatabaseState {
    pub(crate) view: StoreView,
    pub(crate) catalog: Catalog,
    pub(crate) log: LogState,
}

/// An open transaction: the state that it reads, and its id.
pub(crate) struct BegunTransaction {
    pub(crate) state: Arc<DatabaseState>,
    pub(crate) id: TransactionId,
}

impl Committer {
    /// Opens a store, new or existing.
    ///
    /// # Errors
    /// Newer format, damaged, I/O.
    pub(crate) fn open(store: Box<dyn Store>) -> Result<Committer> {
        opening::check_format(store.as_ref())?;
        opening::rebuild_outdated(store.as_ref())?;
        let view = StoreView::new(store.snapshot()?, Changes::new());
        let catalog = Catalog::load(&view)?;
        let log = LogState::load(&view)?;
        let next_collection = removal::first_free_collection(&view, &catalog)?;
        let state = Arc::new(DatabaseState {
            view: view.clone(),
            catalog: catalog.clone(),
            log: log.clone(),
        });
        Ok(Committer {
            store,
            published: RwLock::new(state),
            staging: Mutex::new(StagingArea::new(view, catalog, log)),
            progress: Mutex::default(),
            committed: Condvar::new(),
            next_collection: Arc::new(AtomicU32::new(next_collection)),
            watchers: CommitWatchers::default(),
            builds: IndexBuilds::default(),
            large_turn: Mutex::default(),
            file_waits: AtomicU32::new(0),
            failure: Mutex::default(),
            is_compacting: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Returns the last durable state.
    pub(crate) fn state(&self) -> Arc<DatabaseState> {
        let published = self.published.read();
        Arc::clone(&published.unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `operation` and commits its changes. A failed operation changes nothing. May call `operation` several times, and
    /// keeps the changes of the last call.
    pub(crate) fn write<T>(
        &self,
        durability: Durability,
        operation: impl Fn(&mut WriteOverlay) -> Result<T>,
    ) -> Result<T> {
        self.write_within(MAX_STAGING_TIME, durability, operation)
    }

    /// Runs a write that may change many documents.
    pub(crate) fn write_many<T>(
        &self,
        durability: Durability,
        operation: impl Fn(&mut WriteOverlay) -> Result<T>,
    ) -> Result<T> {
        self.write_within(MAX_STAGING_TIME_OF_MANY, durability, operation)
    }

    /// Runs a write under the lock of the staging area for at most `staging_time`, and then without the lock.
    fn write_within<T>(
        &self,
        staging_time: Duration,
        durability: Durability,
        operation: impl Fn(&mut WriteOverlay) -> Result<T>,
    ) -> Result<T> {
        self.ensure_writable()?;
        match self.stage_write(staging_time, durability, &operation)? {
            Some((result, added)) => {
                self.commit_now(&added)?;
                Ok(result)
            }
            None => self.write_beside_others(durability, &operation),
        }
    }

    /// Runs a write that is known to take long.
    pub(crate) fn write_large<T>(
        &self,
        durability: Durability,
        operation: impl Fn(&mut WriteOverlay) -> Result<T>,
    ) -> Result<T> {
        self.ensure_writable()?;
        self.write_beside_others(durability, &operation)
    }

    /// Runs a write under the lock of the staging area. Returns `None` if the write takes too long for that.
    fn stage_write<T>(
        &self,
        staging_time: Duration,
        durability: Durability,
        operation: &dyn Fn(&mut WriteOverlay) -> Result<T>,
    ) -> Result<Option<(T, AddedWrite)>> {
        loop {
            let mut stage = self.lock_staging_for_write(durability)?;
            let catalog = stage.catalog().clone();
            let mut overlay = self.new_overlay(stage.view(), catalog, stage.log());
            let result = match brief::is_active() {
                true => operation(&mut overlay)?,
                false => match brief::run_briefly(staging_time, || operation(&mut overlay)) {
                    Err(error) if error.is_would_block() => return Ok(None),
                    result => result?,
                },
            };
            let change_bytes = overlay.change_bytes();
            self.ensure_prompt_commit(&stage, change_bytes, durability)?;
            if self.is_large(change_bytes) {
                return Ok(None);
            }
            let overlay_outcome = overlay.finish();
            if stage.conflicts().must_wait_for_large(&overlay_outcome) {
                self.wait_for_large(stage)?;
                continue;
            }
            self.store
                .check_space(&overlay_outcome.changes, stage.view())?;
            let added = stage.add_write(
                overlay_outcome.changes,
                &overlay_outcome.events,
                CommitOptions::immediate(durability),
            )?;
            return Ok(Some((result, added)));
        }
    }

    /// Returns an overlay on some state. The overlay collects events if the log is on.
    pub(crate) fn new_overlay(
        &self,
        base: &StoreView,
        catalog: Catalog,
        log: &LogState,
    ) -> WriteOverlay {
        let next_collection = Arc::clone(&self.next_collection);
        WriteOverlay::new(base, catalog, next_collection, log.settings().is_some())
    }

    /// Switches the change log on, changes its limits, or switches it off.
    pub(crate) fn configure_log(&self, log: Option<ChangeLogLimits>) -> Result<()> {
        self.update_log_settings(|_| Some(log))
    }

    /// Switches the change log on if it is off, and returns the last durable state.
    pub(crate) fn state_with_log(&self) -> Result<Arc<DatabaseState>> {
        let state = self.state();
        if state.log.settings().is_some() {
            return Ok(state);
        }
        self.update_log_settings(|kept| kept.is_none().then(|| Some(ChangeLogLimits::default())))?;
        Ok(self.state())
    }

    /// Replaces the log's settings by the result of `choose`, and returns once the settings are durable.
    fn update_log_settings(
        &self,
        choose: impl FnOnce(Option<ChangeLogLimits>) -> Option<Option<ChangeLogLimits>>,
    ) -> Result<()> {
        self.ensure_writable()?;
        let mut stage = self.lock_open_staging()?;
        while stage.conflicts().has_large_claim() {
            // The events of a large write would be missing in the log.
            self.wait_for_large(stage)?;
            stage = self.lock_open_staging()?;
        }
        let chosen = choose(stage.log().settings());
        let added = stage.configure_log(chosen)?;
        drop(stage);
        self.commit_now(&added)
    }

    /// The tasks that wait for a commit.
    pub(crate) fn watchers(&self) -> &CommitWatchers {
        &self.watchers
    }

    /// Returns the error that prevents commits, if there is one.
    pub(crate) fn failure(&self) -> Option<Error> {
        if let Err(closed) = self.check_open() {
            return Some(closed);
        }
        self.lock_failure()
            .as_ref()
            .map(|failure| failure.error.clone())
    }

    /// Reopens the store if it is not writable.
    ///
    /// # Errors
    /// The store still fails; closed.
    pub(crate) fn reopen(&self) -> Result<()> {
        self.lock_open_staging().map(drop)
    }

    /// Makes all acknowledged writes durable.
    ///
    /// # Errors
    /// I/O, closed.
    pub(crate) fn sync(&self) -> Result<()> {
        self.check_open()?;
        let leader = self.become_leader();
        let mut stage = self.lock_staging();
        let _file = self.want_file();
        let synced = self.store.sync();
        // The store may have been reopened, which makes its old snapshots unreadable.
        let moved = self.store.snapshot().map(|snapshot| {
            self.publish_snapshot(&mut stage, snapshot);
        });
        drop(leader);
        synced.and(moved)
    }

    /// Makes the file shorter. Waits for running large writes and builds of indexes. Meanwhile transactions begin, write and abort, and
    /// commits wait.
    ///
    /// # Errors
    /// See [`Database::compact`](crate::Database::compact).
    pub(crate) fn compact(&self) -> Result<CompactionReport> {
        brief::ensure_may_wait()?;
        self.ensure_writable()?;
        let _build = self.builds.take_turn();
        let _large = self.take_large_turn();
        // Reopens the store after a failure.
        drop(self.lock_open_staging()?);
        let leader = self.become_leader();
        self.check_open()?;
        // Only the leader commits to the store. So the staging area stays free, and its changes are committed to the new file.
        self.is_compacting.store(true, Ordering::Release);
        let compacted = self.store.compact();
        self.is_compacting.store(false, Ordering::Release);
        let mut stage = self.lock_staging();
        // The old file is closed when its last reader ends.
        let moved = self.store.snapshot().map(|snapshot| {
            self.publish_snapshot(&mut stage, snapshot);
        });
        drop(stage);
        drop(leader);
        moved.and(compacted)
    }

    /// Publishes a snapshot with the same content as the published state.
    fn publish_snapshot(&self, stage: &mut StagingArea, snapshot: Arc<dyn Snapshot>) {
        let state = self.state();
        self.publish_state(DatabaseState {
            view: StoreView::new(Arc::clone(&snapshot), Changes::new()),
            catalog: state.catalog.clone(),
            log: state.log.clone(),
        });
        stage.move_to(snapshot);
    }

    /// Whether a thread has just written.
    pub(crate) fn has_recent_write(&self) -> bool {
        self.lock_progress().is_busy()
    }

    /// Returns how many bytes the store uses outside of the keyspace.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn storage_usage(&self) -> Result<StorageUsage> {
        self.store.usage()
    }

    /// The permissions that the file had when it was opened. A store in memory has none.
    pub(crate) fn permissions(&self) -> Option<Permissions> {
        self.store.permissions()
    }

    /// Whether the store refuses every commit.
    pub(crate) fn is_read_only(&self) -> bool {
        self.store.is_read_only()
    }

    /// Refuses writes to a database that was opened only for reads.
    ///
    /// # Errors
    /// Read-only.
    pub(crate) fn ensure_writable(&self) -> Result<()> {
        match self.is_read_only() {
            true => Err(Error::read_only()),
            false => Ok(()),
        }
    }

    /// Closes the database, after the running commit.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let leader = self.become_leader();
        let mut stage = self.lock_staging();
        let state = self.state();
        let state = self.publish_state(DatabaseState {
            view: StoreView::new(Arc::new(ClosedSnapshot), Changes::new()),
            catalog: Catalog::default(),
            log: state.log.clone(),
        });
        stage.fail_uncommitted(&state, &Error::closed());
        let file = self.want_file();
        self.store.close();
        drop(file);
        drop(stage);
        drop(leader);
        self.watchers.wake_all();
    }

    /// Returns an error if the database is closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        Ok(())
    }

    /// Begins a transaction on the last durable state.
    pub(crate) fn begin(&self) -> Result<BegunTransaction> {
        let mut stage = self.lock_open_staging()?;
        let id = stage.begin_transaction();
        Ok(BegunTransaction {
            state: self.state(),
            id,
        })
    }

    /// Returns a check that finds conflicts before a transaction writes. The check reserves nothing:
    /// [`claim_keys`](Committer::claim_keys) reserves keys.
    pub(crate) fn conflict_check(self: &Arc<Self>, id: TransactionId) -> ConflictCheck {
        let committer = Arc::clone(self);
        Box::new(move |key| {
            let mut stage = committer.lock_open_staging()?;
            let checked = stage.conflicts().check_key(id, key);
            if checked.is_err() {
                let is_large = stage.conflicts().is_key_claimed_by_large(id, key);
                committer.wait_after_conflict(stage, is_large)?;
            }
            checked
        })
    }

    /// Reserves the keys of `changes` for a transaction.
    ///
    /// # Errors
    /// Write conflict, if another open transaction has reserved a key, or a key has changed since the transaction began.
    pub(crate) fn claim_keys(&self, id: TransactionId, changes: &Changes) -> Result<()> {
        let many_keys = (changes.len() >= MANY_CHANGES).then(|| contended_keys(changes));
        let mut stage = self.lock_open_staging()?;
        let claimed = match many_keys {
            Some(keys) => stage.conflicts().claim_many_keys(id, changes, keys),
            None => stage.conflicts().claim_keys(id, changes),
        };
        if claimed.is_err() {
            let is_large = stage.conflicts().are_claimed_by_large(id, changes);
            self.wait_after_conflict(stage, is_large)?;
        }
        claimed
    }

    /// Waits after a write conflict as long as a retry would have the same conflict: until the end of a large write that has claimed
    /// the key, or until the end of a compaction, which the commit of the other write waits for.
    ///
    /// # Errors
    /// Would block, cancelled, timed out.
    fn wait_after_conflict(
        &self,
        stage: MutexGuard<'_, StagingArea>,
        is_claimed_by_large: bool,
    ) -> Result<()> {
        if is_claimed_by_large {
            return self.wait_for_large(stage);
        }
        drop(stage);
        if !self.is_compacting.load(Ordering::Acquire) {
            return Ok(());
        }
        brief::ensure_may_wait()?;
        let mut progress = self.lock_progress();
        while self.is_compacting.load(Ordering::Acquire) {
            interrupt::check_now()?;
            let waited = self.committed.wait_timeout(progress, INTERRUPT_INTERVAL);
            (progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Ends a transaction without its changes.
    pub(crate) fn abort(&self, id: TransactionId) {
        let mut stage = self.lock_staging();
        let ended = stage.conflicts().end_transaction(id);
        drop(stage);
        drop(ended);
    }

    /// Returns the permit to commit a transaction with changes of this size.
    ///
    /// # Errors
    /// Would block. The transaction stays open then.
    pub(crate) fn permit_commit(
        &self,
        options: CommitOptions,
        change_bytes: usize,
    ) -> Result<CommitPermit<'_>> {
        if options.urgency == CommitUrgency::Deferred {
            brief::ensure_may_wait()?;
        }
        let stage = brief::lock(&self.staging)?;
        self.ensure_prompt_commit(&stage, change_bytes, options.durability)?;
        Ok(CommitPermit(stage))
    }

    /// Ends a transaction with its changes.
    ///
    /// # Errors
    /// Write conflict, I/O. No data has changed then.
    pub(crate) fn commit(
        &self,
        permit: CommitPermit<'_>,
        id: TransactionId,
        overlay_outcome: &OverlayOutcome,
        options: CommitOptions,
    ) -> Result<()> {
        let ended;
        let added = {
            let CommitPermit(mut stage) = permit;
            let changes = &overlay_outcome.changes;
            if let Err(conflict) = stage.conflicts().check_outcome(id, overlay_outcome) {
                let conflicts = stage.conflicts();
                let is_large = conflicts.is_outcome_claimed_by_large(id, overlay_outcome);
                // A thread that must not wait retries.
                let _ = self.wait_after_conflict(stage, is_large);
                return Err(conflict);
            }
            self.require_open(&mut stage)?;
            self.store.check_space(changes, stage.view())?;
            ended = stage.conflicts().end_transaction(id);
            stage.add_write(changes.clone(), &overlay_outcome.events, options)?
        };
        drop(ended);
        match options.urgency {
            CommitUrgency::Immediate => self.commit_now(&added),
            CommitUrgency::Deferred => {
                self.wait_for_other_commit(&added.outcome);
                self.commit_added(&added)
            }
        }
    }

    fn commit_now(&self, added: &AddedWrite) -> Result<()> {
        self.lock_progress().last_immediate_write = Some(Instant::now());
        self.commit_added(added)
    }

    /// Waits briefly for a commit of another thread, as long as other threads write.
    fn wait_for_other_commit(&self, outcome: &BatchOutcome) {
        let deadline = Instant::now() + MAX_COMMIT_DEFERRAL;
        let mut progress = self.lock_progress();
        while !outcome.is_known() && progress.is_busy() {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return;
            }
            let waited = self.committed.wait_timeout(progress, remaining);
            (progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns once a write is as durable as it has to be. Leads a commit if no other thread leads.
    fn commit_added(&self, added: &AddedWrite) -> Result<()> {
        self.wait_for_outcome(&added.outcome)?;
        if added.must_sync_reads && !self.store.sync_log()? {
            return self.sync();
        }
        Ok(())
    }

    /// Returns once the outcome of a batch is known. Leads a commit if no other thread leads.
    fn wait_for_outcome(&self, outcome: &BatchOutcome) -> Result<()> {
        if let Some(leader) = self.become_leader_unless(|| outcome.is_known()) {
            leader.commit_gathered();
        }
        // Hold no lock: wakers run foreign code.
        self.watchers.wake_all();
        outcome.committed_result()
    }

    /// Waits until no thread leads, and makes this thread the leader.
    fn become_leader(&self) -> CommitLeader<'_> {
        loop {
            if let Some(leader) = self.become_leader_unless(|| false) {
                return leader;
            }
        }
    }

    /// Makes this thread the leader, unless `is_done` becomes true first.
    fn become_leader_unless(&self, is_done: impl Fn() -> bool) -> Option<CommitLeader<'_>> {
        let mut progress = self.lock_progress();
        while progress.has_leader && !is_done() {
            let waited = self.committed.wait(progress);
            progress = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if is_done() {
            return None;
        }
        progress.has_leader = true;
        Some(CommitLeader::new(self))
    }

    fn lock_progress(&self) -> MutexGuard<'_, CommitProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_failure(&self) -> MutexGuard<'_, Option<CommitFailure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the staging area, and makes sure that the store is writable.
    fn lock_open_staging(&self) -> Result<MutexGuard<'_, StagingArea>> {
        let mut stage = brief::lock(&self.staging)?;
        self.require_open(&mut stage)?;
        Ok(stage)
    }

    /// Locks the staging area for a write that commits at once.
    fn lock_staging_for_write(
        &self,
        durability: Durability,
    ) -> Result<MutexGuard<'_, StagingArea>> {
        let stage = self.lock_open_staging()?;
        // A store that is slow for any commit is not tried.
        self.ensure_prompt_commit(&stage, 0, durability)?;
        Ok(stage)
    }

    /// Makes sure that the commit of a thread that must not wait is prompt, and has to write only the changes of this thread.
    ///
    /// Another thread can still become the leader before this thread does. Then this thread waits for a single commit.
    fn ensure_prompt_commit(
        &self,
        stage: &StagingArea,
        change_bytes: usize,
        durability: Durability,
    ) -> Result<()> {
        if !brief::is_active() {
            return Ok(());
        }
        let is_prompt = self.store.is_prompt(change_bytes, durability)
            && stage.is_empty()
            && !self.lock_progress().has_leader;
        if is_prompt {
            Ok(())
        } else {
            Err(Error::would_block())
        }
    }

    /// Reopens a store that is not writable. No thread commits to the store before that.
    fn require_open(&self, stage: &mut StagingArea) -> Result<()> {
        self.check_open()?;
        let mut failed = self.lock_failure();
        let Some(failure) = failed.as_mut() else {
            return Ok(());
        };
        let file = self.want_file();
        let reopened = self.store.reopen();
        drop(file);
        if let Err(error) = reopened {
            failure.error = error.into_outcome_unknown();
            return Err(failure.error.clone());
        }
        let snapshot = self.store.snapshot()?;
        let state = self.state();
        let (mut catalog, mut log) = (state.catalog.clone(), state.log.clone());
        for commit in &failure.commits {
            match commit {
                FailedCommit::Batch(batch)
                    if snapshot_contains(snapshot.as_ref(), &batch.changes)? =>
                {
                    (catalog, log) = (batch.catalog.clone(), batch.log.clone());
                }
                FailedCommit::Large(changes) if snapshot_contains(snapshot.as_ref(), changes)? => {
                    let view = StoreView::new(Arc::clone(&snapshot), Changes::new());
                    catalog.apply_changes(&view, changes)?;
                }
                _ => {}
            }
        }
        let state = self.publish_state(DatabaseState {
            view: StoreView::new(snapshot, Changes::new()),
            catalog,
            log,
        });
        stage.reset_to(&state);
        *failed = None;
        Ok(())
    }

    fn publish_state(&self, state: DatabaseState) -> Arc<DatabaseState> {
        let state = Arc::new(state);
        let mut published = self
            .published
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *published = Arc::clone(&state);
        state
    }

    /// Fails all changes that are not durable, and all writes until the store is writable again.
    fn fail(&self, stage: &mut StagingArea, error: Error, commit: FailedCommit) -> Error {
        stage.fail_uncommitted(&self.state(), &error);
        let mut failure = self.lock_failure();
        let failure = failure.get_or_insert_with(|| CommitFailure {
            error: error.clone(),
            commits: Vec::new(),
        });
        failure.commits.push(commit);
        error
    }

    /// Makes a large commit give way that has not been validated: the caller holds the staging area, and waits for the file.
    fn want_file(&self) -> FileWait<'_> {
        self.file_waits.fetch_add(1, Ordering::AcqRel);
        FileWait(&self.file_waits)
    }

    /// Whether a thread holds the staging area and waits for the file.
    fn is_file_wanted(&self) -> bool {
        self.file_waits.load(Ordering::Acquire) > 0
    }

    /// Locks the staging area. An operation that panics has changed only its overlay, so the staging area stays consistent.
    fn lock_staging(&self) -> MutexGuard<'_, StagingArea> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state that committing threads share.
#[derive(Default)]
struct CommitProgress {
    /// Whether a thread leads.
    has_leader: bool,
    /// The time of the last write that was not deferred.
    last_immediate_write: Option<Instant>,
    /// The number of claims of large writes that have ended.
    ended_claims: u64,
}

impl CommitProgress {
    fn is_busy(&self) -> bool {
        self.last_immediate_write
            .is_some_and(|time| time.elapsed() < RECENT_WRITE_WINDOW)
    }
}

/// A thread that holds the staging area and waits for the file.
struct FileWait<'c>(&'c AtomicU32);

impl Drop for FileWait<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::{CommitError, LargeCommit};

    /// A store whose commits panic on demand.
    #[derive(Default)]
    struct PanickingStore {
        store: MemoryStore,
        panics: Arc<AtomicBool>,
    }

    impl Store for PanickingStore {
        fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
            self.store.snapshot()
        }

        fn commit(&self, changes: &Changes, durability: Durability) -> Result<(), CommitError> {
            assert!(!self.panics.load(Ordering::Relaxed), "the commit");
            self.store.commit(changes, durability)
        }

        fn commit_large(&self, commit: &LargeCommit<'_>) -> Result<(), CommitError> {
            self.store.commit_large(commit)
        }
    }

    fn create_collection(committer: &Committer, name: &str) -> Result<()> {
        committer.write(Durability::Full, |overlay| {
            overlay.collection_or_create(name).map(drop)
        })
    }

    #[test]
    fn a_panic_in_a_commit_writes_nothing() {
        let store = PanickingStore::default();
        let panics = Arc::clone(&store.panics);
        let committer = Committer::open(Box::new(store)).unwrap();
        create_collection(&committer, "a").unwrap();
        panics.store(true, Ordering::Relaxed);
        let caught = catch_unwind(AssertUnwindSafe(|| create_collection(&committer, "b")));
        assert!(caught.is_err());
        assert!(committer.failure().is_some());
        // The batch of the panicked commit is lost. Keeping the state in memory would show data that the store lacks.
        panics.store(false, Ordering::Relaxed);
        create_collection(&committer, "c").unwrap();
        assert!(committer.failure().is_none());
        assert!(!collection_exists(&committer, "b") && collection_exists(&committer, "c"));
    }

    /// A store that counts its commits.
    #[derive(Default)]
    struct CountingStore {
        store: MemoryStore,
        commits: Arc<AtomicU32>,
    }

    impl Store for CountingStore {
        fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
            self.store.snapshot()
        }

        fn commit(&self, changes: &Changes, durability: Durability) -> Result<(), CommitError> {
            self.commits.fetch_add(1, Ordering::Relaxed);
            self.store.commit(changes, durability)
        }

        fn commit_large(&self, commit: &LargeCommit<'_>) -> Result<(), CommitError> {
            self.store.commit_large(commit)
        }
    }

    fn create_deferred(committer: &Committer, name: &str) -> Result<()> {
        let transaction = committer.begin()?;
        let state = &transaction.state;
        let mut overlay = committer.new_overlay(&state.view, state.catalog.clone(), &state.log);
        overlay.collection_or_create(name)?;
        let options = CommitOptions {
            urgency: CommitUrgency::Deferred,
            durability: Durability::Full,
        };
        let permit = committer.permit_commit(options, 0)?;
        committer.commit(permit, transaction.id, &overlay.finish(), options)
    }

    fn collection_exists(committer: &Committer, name: &str) -> bool {
        let state = committer.state();
        state
            .catalog
            .collections()
            .any(|collection| collection.name == name)
    }

    /// A brief write waits neither for a leader nor for changes that another thread has gathered.
    #[test]
    fn a_brief_write_commits_nothing_of_other_threads() {
        let committer = Committer::open(Box::new(MemoryStore::default())).unwrap();
        let create_briefly = |name| {
            brief::run_briefly(Duration::from_secs(60), || {
                create_collection(&committer, name)
            })
        };
        let leader = committer.become_leader();
        assert!(create_briefly("a").unwrap_err().is_would_block());
        drop(leader);
        let mut overlay = {
            let stage = committer.lock_open_staging().unwrap();
            committer.new_overlay(stage.view(), stage.catalog().clone(), stage.log())
        };
        overlay.collection_or_create("gathered").unwrap();
        let gathered = overlay.finish();
        let added = committer.lock_open_staging().unwrap().add_write(
            gathered.changes,
            &gathered.events,
            CommitOptions::immediate(Durability::Full),
        );
        assert!(create_briefly("a").unwrap_err().is_would_block());
        committer.commit_now(&added.unwrap()).unwrap();
        create_briefly("a").unwrap();
        assert!(collection_exists(&committer, "a") && collection_exists(&committer, "gathered"));
    }

    #[test]
    fn a_deferred_commit_is_durable_without_other_writes() {
        let committer = Committer::open(Box::new(MemoryStore::default())).unwrap();
        create_deferred(&committer, "a").unwrap();
        assert!(collection_exists(&committer, "a"));
        create_collection(&committer, "b").unwrap();
        // Another thread has just written and does not write again.
        create_deferred(&committer, "c").unwrap();
        assert!(collection_exists(&committer, "c"));
    }

    #[test]
    fn a_deferred_commit_shares_the_commit_of_another_write() {
        let store = CountingStore::default();
        let commits = Arc::clone(&store.commits);
        let committer = Committer::open(Box::new(store)).unwrap();
        // A thread that the scheduler pauses for long may miss the other thread's commit, so try several times.
        let share_commit = (0..100).any(|round| {
            create_collection(&committer, &format!("first{round}")).unwrap();
            let before = commits.load(Ordering::Relaxed);
            let (deferred, immediate) = (format!("deferred{round}"), format!("immediate{round}"));
            std::thread::scope(|scope| {
                let deferred_write = scope.spawn(|| create_deferred(&committer, &deferred));
                while committer.lock_open_staging().unwrap().is_empty()
                    && !deferred_write.is_finished()
                {
                    std::thread::yield_now();
                }
                create_collection(&committer, &immediate).unwrap();
                deferred_write.join().unwrap().unwrap();
            });
            assert!(
                collection_exists(&committer, &deferred)
                    && collection_exists(&committer, &immediate)
            );
            commits.load(Ordering::Relaxed) == before + 1
        });
        assert!(
            share_commit,
            "the deferred write was never committed with the immediate write"
        );
    }
}
