//! Large writes, which do not stop concurrent writes.
//!
//! A write runs under the lock of the staging area, where no other write can change the data that it reads. A write that takes
//! longer than [`MAX_STAGING_TIME`] runs again without the lock, like a transaction, on the last durable state. A write of many
//! documents has [`MAX_STAGING_TIME_OF_MANY`]. Large changes are written to the file beside the commits of small writes, and are
//! validated at the end: if another write has changed one of the keys, the large write runs again.
//!
//! | time | the large write | concurrent writes |
//! |---|---|---|
//! | preparation | computes its changes on a snapshot, and writes them to the file | go on; a change of the same key makes the large write run again |
//! | from the validation to the end of the commit | [claims](super::conflicts::ClaimedKeys) its keys | of a claimed key: a plain write waits, and a transaction gets a write conflict |
//! | second run | claims the keys of the first run from the beginning | as above |
//! | run [`MAX_SHARED_RUNS`] + 1 | claims all keys | wait |
//!
//! As for a transaction, the write sees one state, and no other write changes its keys in between. While the change log is on, a
//! large write is committed like a small one, because the events of all writes have one order.

use std::cell::Cell;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use super::conflicts::{ClaimedKeys, HistoryPosition, KeySet, TransactionId, contended_keys};
use super::leader::is_storage_full;
use super::staging::StagingArea;
use super::{BegunTransaction, CommitOptions, Committer, DatabaseState, FailedCommit};
use crate::brief;
use crate::durability::Durability;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::overlay::{OverlayOutcome, WriteOverlay};
use crate::store::{Changes, CommitError, LargeCommit, SpaceUse, StoreView};

/// How long a write may hold the staging area.
pub(super) const MAX_STAGING_TIME: Duration = Duration::from_millis(20);

/// How long a write of many documents may hold the staging area. Such a write is often long, and its work until the limit is lost.
pub(super) const MAX_STAGING_TIME_OF_MANY: Duration = Duration::from_millis(1);

/// The number of documents from which an insert takes no lock. An insert of so many takes about half of [`MAX_STAGING_TIME`].
const LONG_INSERT_DOCUMENTS: usize = 2_000;

/// How often a write runs beside concurrent writes before it excludes them.
const MAX_SHARED_RUNS: usize = 4;

/// How often a thread that waits for a large write or a compaction checks its interrupts.
pub(super) const INTERRUPT_INTERVAL: Duration = Duration::from_millis(20);

/// How many keys of concurrent writes a large write copies under the lock of the staging area, for a comparison without the lock.
const COMPARED_KEYS: usize = 1_000;

/// How long the validation waits between two attempts to lock the staging area.
const LOCK_INTERVAL: Duration = Duration::from_micros(50);

impl Committer {
    /// Runs a write on the last durable state, without the lock of the staging area. Runs it again after a conflict.
    pub(super) fn write_beside_others<T>(
        &self,
        durability: Durability,
        operation: &dyn Fn(&mut WriteOverlay) -> Result<T>,
    ) -> Result<T> {
        brief::ensure_may_wait()?;
        let mut repeated: Option<LargeTurn<'_>> = None;
        let mut keys = None;
        let mut runs = 0;
        loop {
            let (run, state) = OpenTransaction::begin(self)?;
            if let Some(turn) = &repeated {
                turn.set_owner(run.id);
            }
            let mut overlay = self.new_overlay(&state.view, state.catalog.clone(), &state.log);
            let result = operation(&mut overlay)?;
            let change_bytes = overlay.change_bytes();
            let outcome = overlay.finish();
            // On a full disk, the commit needs the pages that the snapshot keeps.
            drop(state);
            // A second evaluation could take the turn twice.
            let committed = match (&repeated, self.is_large(change_bytes)) {
                (Some(turn), true) => self.commit_in_turn(turn, run.id, &outcome),
                (None, true) => self.commit_in_turn(&self.take_large_turn(), run.id, &outcome),
                (_, false) => self.commit_small(run.id, &outcome, change_bytes, durability),
            };
            match committed {
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
            self.wait_until_committed()?;
            (repeated, keys) = (Some(turn), Some(claimed));
        }
    }

    /// Commits a transaction. Large changes are written beside the commits of small writes.
    ///
    /// # Errors
    /// Write conflict, I/O. No data has changed then.
    pub(crate) fn commit_transaction(
        &self,
        id: TransactionId,
        outcome: &OverlayOutcome,
        change_bytes: usize,
        durability: Durability,
    ) -> Result<()> {
        if self.is_large(change_bytes) {
            return self.commit_in_turn(&self.take_large_turn(), id, outcome);
        }
        self.commit_small(id, outcome, change_bytes, durability)
    }

    fn commit_small(
        &self,
        id: TransactionId,
        outcome: &OverlayOutcome,
        change_bytes: usize,
        durability: Durability,
    ) -> Result<()> {
        let options = CommitOptions::immediate(durability);
        let permit = self.permit_commit(options, change_bytes)?;
        self.commit(permit, id, outcome, options)
    }

    fn commit_in_turn(
        &self,
        turn: &LargeTurn<'_>,
        id: TransactionId,
        outcome: &OverlayOutcome,
    ) -> Result<()> {
        self.store
            .check_space(&outcome.changes, &self.state().view)?;
        let commit = LargeCommit {
            validate: Some(&|| {
                let compared = self.compare_beside_others(id, outcome)?;
                let mut stage = self.lock_staging_beside_others()?;
                stage
                    .conflicts()
                    .check_outcome_from(id, outcome, compared)?;
                let keys = ClaimedKeys::of(outcome);
                turn.claim_locked(&mut stage, Some(id), keys);
                Ok(())
            }),
            ..LargeCommit::of(&outcome.changes)
        };
        self.commit_large(&commit, Some(id))
    }

    /// Compares an outcome with the keys of concurrent writes, and holds the lock of the staging area only briefly. Returns the position
    /// of the last compared key, for the rest of the comparison under the lock.
    ///
    /// # Errors
    /// Write conflict.
    fn compare_beside_others(
        &self,
        id: TransactionId,
        outcome: &OverlayOutcome,
    ) -> Result<Option<HistoryPosition>> {
        let mut compared = None;
        loop {
            let (keys, last) = {
                let mut stage = self.lock_staging_beside_others()?;
                stage.conflicts().unseen_keys(id, compared, COMPARED_KEYS)
            };
            if keys.iter().any(|key| outcome.changes.contains_key(key)) {
                return Err(Error::write_conflict());
            }
            compared = last;
            if keys.len() < COMPARED_KEYS {
                return Ok(compared);
            }
        }
    }

    /// Whether changes of this size are written beside the commits of small writes.
    pub(crate) fn is_large(&self, change_bytes: usize) -> bool {
        change_bytes >= self.store.large_commit_bytes() && self.state().log.settings().is_none()
    }

    /// Whether an insert takes too long for the staging area.
    pub(crate) fn is_long_insert(&self, documents: usize, document_bytes: usize) -> bool {
        // The changes of an insert take at least twice the bytes of the documents.
        let is_long = documents >= LONG_INSERT_DOCUMENTS || self.is_large(2 * document_bytes);
        is_long && !brief::is_active()
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

    /// Writes a large commit to the store, and publishes it. The caller has the [turn](LargeTurn). `own` is the transaction of the
    /// commit.
    pub(super) fn commit_large(
        &self,
        commit: &LargeCommit<'_>,
        own: Option<TransactionId>,
    ) -> Result<()> {
        self.check_open()?;
        let mut committed = self.store.commit_large(commit);
        let may_repeat = commit.space != SpaceUse::Grows;
        if is_storage_full(&committed) && may_repeat {
            match self.spill_beside_others() {
                Ok(true) => committed = self.store.commit_large(commit),
                Ok(false) => {}
                Err(error) => committed = Err(error),
            }
        }
        self.finish_large(committed, commit.changes, own)
    }

    /// Moves the write-ahead log to its final place in small parts. Returns whether there was a log to move.
    fn spill_beside_others(&self) -> Result<bool, CommitError> {
        let leader = self.become_leader();
        let mut stage = self.lock_staging();
        leader.spill(&mut stage)
    }

    /// Publishes a successful commit.
    fn finish_large(
        &self,
        committed: Result<(), CommitError>,
        changes: &Changes,
        own: Option<TransactionId>,
    ) -> Result<()> {
        // Open transactions conflict with the commit. To collect the keys takes long, so it happens without a lock if possible.
        let has_others = self.lock_staging().conflicts().has_others(own);
        let keys = has_others.then(|| contended_keys(changes));
        // While this thread leads, no batch is being committed, so the snapshot matches the published definitions.
        let leader = self.become_leader();
        let finished = {
            let stage = &mut *self.lock_staging();
            let has_others = stage.conflicts().has_others(own);
            let keys = keys.or_else(|| has_others.then(|| contended_keys(changes)));
            let finished = self.finish_large_locked(stage, committed, changes, keys);
            self.store.end_large_commit();
            finished
        };
        drop(leader);
        self.watchers.wake_all();
        finished
    }

    fn finish_large_locked(
        &self,
        stage: &mut StagingArea,
        committed: Result<(), CommitError>,
        changes: &Changes,
        keys: Option<KeySet>,
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
                return Err(self.fail(stage, error, FailedCommit::Large(changes.clone())));
            }
        };
        if result.is_err() {
            // The store may have been reopened, which makes its old snapshots unreadable.
            self.publish_snapshot(stage, snapshot);
            return result;
        }
        let state = self.state();
        let mut catalog = state.catalog.clone();
        stage.add_large(Arc::clone(&snapshot), changes, &mut catalog, keys)?;
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
            if self.is_file_wanted() {
                return Err(Error::write_conflict());
            }
            let stage = match self.staging.try_lock() {
                Ok(stage) => stage,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    thread::sleep(LOCK_INTERVAL);
                    continue;
                }
            };
            return match *self.lock_failure() {
                Some(_) => Err(Error::write_conflict()),
                None => Ok(stage),
            };
        }
    }

    /// Returns once all staged writes are committed or have failed.
    pub(super) fn wait_until_committed(&self) -> Result<()> {
        let outcome = self.lock_open_staging()?.latest_outcome();
        // A failed write is no part of the state.
        let _ = self.wait_for_outcome(&outcome);
        Ok(())
    }

    /// Waits for the end of the claim of a large write.
    ///
    /// # Errors
    /// Would block, cancelled, timed out.
    pub(super) fn wait_for_large(&self, stage: MutexGuard<'_, StagingArea>) -> Result<()> {
        brief::ensure_may_wait()?;
        // The end of a claim needs the staging area, so it cannot happen before this thread waits.
        let mut progress = self.lock_progress();
        drop(stage);
        let ended = progress.ended_claims;
        while progress.ended_claims == ended {
            interrupt::check_now()?;
            let waited = self.committed.wait_timeout(progress, INTERRUPT_INTERVAL);
            (progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
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

    fn claim_locked(
        &self,
        stage: &mut StagingArea,
        owner: Option<TransactionId>,
        keys: ClaimedKeys,
    ) {
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
        let claim = stage.conflicts().end_large();
        self.committer.lock_progress().ended_claims += 1;
        drop(stage);
        drop(claim);
        self.committer.committed.notify_all();
    }
}

/// A transaction of the engine itself. The drop ends the transaction.
pub(super) struct OpenTransaction<'c> {
    committer: &'c Committer,
    pub(super) id: TransactionId,
}

impl<'c> OpenTransaction<'c> {
    /// Begins a transaction on the last durable state, and returns that state too.
    pub(super) fn begin(
        committer: &'c Committer,
    ) -> Result<(OpenTransaction<'c>, Arc<DatabaseState>)> {
        let BegunTransaction { id, state } = committer.begin()?;
        Ok((OpenTransaction { committer, id }, state))
    }
}

impl Drop for OpenTransaction<'_> {
    fn drop(&mut self) {
        self.committer.abort(self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use bson::{RawDocumentBuf, rawdoc};

    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::{Snapshot, Store};
    use crate::{Count, Database, Delete, Direction, Find, Index, Update};

    type Hook = Box<dyn Fn(&Database) + Send + Sync>;

    /// The calls of a test during commits, each of them once.
    #[derive(Default)]
    struct Hooks {
        database: Option<Database>,
        /// During a small commit.
        committed: Option<Hook>,
        written: Option<Hook>,
        validated: Option<Hook>,
    }

    /// A store in memory that calls hooks during a large commit. A commit is soon large.
    #[derive(Default)]
    struct HookedStore {
        store: MemoryStore,
        hooks: Arc<Mutex<Hooks>>,
    }

    impl HookedStore {
        fn call(&self, choose: impl Fn(&mut Hooks) -> &mut Option<Hook>) {
            let mut hooks = self.hooks.lock().unwrap();
            let (database, hook) = (hooks.database.clone(), choose(&mut hooks).take());
            drop(hooks);
            if let (Some(database), Some(hook)) = (database, hook) {
                hook(&database);
            }
        }
    }

    impl Store for HookedStore {
        fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
            self.store.snapshot()
        }

        fn commit(&self, changes: &Changes, durability: Durability) -> Result<(), CommitError> {
            self.call(|hooks| &mut hooks.committed);
            self.store.commit(changes, durability)
        }

        fn commit_large(&self, commit: &LargeCommit<'_>) -> Result<(), CommitError> {
            self.store.commit_large(&LargeCommit {
                validate: Some(&|| {
                    self.call(|hooks| &mut hooks.written);
                    commit.validate.map_or(Ok(()), |validate| validate())?;
                    self.call(|hooks| &mut hooks.validated);
                    Ok(())
                }),
                ..*commit
            })
        }

        fn large_commit_bytes(&self) -> usize {
            10_000
        }
    }

    /// Returns a database with a thousand documents `{ _id, n: 0 }`, and its hooks.
    fn hooked() -> (Database, Arc<Mutex<Hooks>>) {
        let store = HookedStore::default();
        let hooks = Arc::clone(&store.hooks);
        let database = Database::open_store(Box::new(store)).unwrap();
        let documents = (0..1000).map(|id| rawdoc! { "_id": id, "n": 0 }).collect();
        insert(&database, documents);
        hooks.lock().unwrap().database = Some(database.clone());
        (database, hooks)
    }

    fn insert(database: &Database, documents: Vec<RawDocumentBuf>) {
        let inserted = database.insert("c", documents).unwrap();
        inserted.into_result().unwrap();
    }

    fn add(database: &Database, filter: RawDocumentBuf, n: i32) -> u64 {
        let update = Update {
            filter,
            update: rawdoc! { "$inc": { "n": n } },
            multi: true,
            ..Update::default()
        };
        database.update("c", &update).unwrap().modified
    }

    fn count(database: &Database, filter: RawDocumentBuf) -> u64 {
        let count = Count {
            filter,
            ..Count::default()
        };
        database.count("c", &count).unwrap()
    }

    /// Ends the cycle between the store and the database.
    fn finish(database: &Database, hooks: &Mutex<Hooks>) {
        *hooks.lock().unwrap() = Hooks::default();
        database.validate().unwrap();
    }

    /// A write of many documents holds the staging area only for a short time.
    #[test]
    fn a_write_of_many_documents_soon_runs_beside_others() {
        let (database, hooks) = hooked();
        let runs = Cell::new(0);
        let written = database
            .committer()
            .write_many(Durability::Full, |overlay| {
                runs.set(runs.get() + 1);
                thread::sleep(2 * MAX_STAGING_TIME_OF_MANY);
                brief::check_deadline()?;
                // The staging area is free for another write.
                insert(&database, vec![rawdoc! { "_id": 2000, "n": 0 }]);
                overlay.collection_or_create("many").map(drop)
            });
        written.unwrap();
        assert_eq!(runs.get(), 2);
        assert_eq!(count(&database, rawdoc! { "_id": 2000 }), 1);
        finish(&database, &hooks);
    }

    #[test]
    fn other_writes_go_on() {
        let (database, hooks) = hooked();
        let write = |id: i32| -> Hook {
            Box::new(move |database| insert(database, vec![rawdoc! { "_id": id, "n": 0 }]))
        };
        hooks.lock().unwrap().written = Some(write(2000));
        hooks.lock().unwrap().validated = Some(write(3000));
        assert_eq!(add(&database, rawdoc! {}, 1), 1000);
        assert_eq!(count(&database, rawdoc! { "n": 1 }), 1000);
        assert_eq!(
            count(&database, rawdoc! { "_id": { "$gte": 2000 }, "n": 0 }),
            2
        );
        finish(&database, &hooks);
    }

    #[test]
    fn a_write_runs_again_after_a_conflict() {
        let (database, hooks) = hooked();
        hooks.lock().unwrap().written = Some(Box::new(|database| {
            assert_eq!(add(database, rawdoc! { "_id": 5 }, 10), 1);
        }));
        assert_eq!(add(&database, rawdoc! {}, 1), 1000);
        assert_eq!(count(&database, rawdoc! { "n": 1 }), 999);
        assert_eq!(count(&database, rawdoc! { "_id": 5, "n": 11 }), 1);
        finish(&database, &hooks);
    }

    /// Another thread changes one document without a pause. The large write claims the document, and so ends.
    #[test]
    fn a_write_ends_beside_conflicting_writes() {
        let (database, hooks) = hooked();
        let (stop, stopped) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let database = &database;
            let adding = scope.spawn(move || {
                let mut added = 0;
                while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                    added += add(database, rawdoc! { "_id": 5 }, 10);
                }
                added
            });
            for _ in 0..20 {
                assert_eq!(add(database, rawdoc! {}, 1), 1000);
            }
            drop(stop);
            let added = i64::try_from(adding.join().unwrap()).unwrap();
            assert_eq!(count(database, rawdoc! { "n": 20 }), 999);
            let expected = rawdoc! { "_id": 5, "n": 20 + 10 * added };
            assert_eq!(count(database, expected), 1);
        });
        finish(&database, &hooks);
    }

    /// After the validation, a plain write of a claimed key waits, and a transaction gets a conflict.
    #[test]
    fn writes_of_claimed_keys_wait() {
        let (database, hooks) = hooked();
        let (started, starts) = mpsc::channel();
        hooks.lock().unwrap().validated = Some(Box::new(move |_| started.send(()).unwrap()));
        thread::scope(|scope| {
            let set = |n: i32| Update {
                filter: rawdoc! { "_id": 5 },
                update: rawdoc! { "$set": { "n": n } },
                ..Update::default()
            };
            let transaction = database.begin().unwrap();
            let transaction_set = set(100);
            let plain = scope.spawn({
                let database = &database;
                move || {
                    starts.recv().unwrap();
                    assert_eq!(add(database, rawdoc! { "_id": 5 }, 10), 1);
                }
            });
            assert_eq!(add(&database, rawdoc! {}, 1), 1000);
            plain.join().unwrap();
            let error = transaction.update("c", &transaction_set).unwrap_err();
            assert!(error.is_write_conflict());
        });
        assert_eq!(count(&database, rawdoc! { "_id": 5, "n": 11 }), 1);
        finish(&database, &hooks);
    }

    #[test]
    fn a_large_transaction_commits_beside_other_writes() {
        let (database, hooks) = hooked();
        hooks.lock().unwrap().validated = Some(Box::new(|database| {
            let other = database
                .insert("other", vec![rawdoc! { "_id": 1 }])
                .unwrap();
            other.into_result().unwrap();
        }));
        let transaction = database.begin().unwrap();
        let documents = (0..1000).map(|id| rawdoc! { "_id": id }).collect();
        let inserted = transaction.insert("new", documents).unwrap();
        inserted.into_result().unwrap();
        transaction.commit().unwrap();
        assert_eq!(database.count("new", &Count::default()).unwrap(), 1000);
        assert_eq!(database.count("other", &Count::default()).unwrap(), 1);
        // The record numbers of the new collection go on.
        let inserted = database.insert("new", vec![rawdoc! { "_id": -1 }]).unwrap();
        inserted.into_result().unwrap();
        assert_eq!(database.count("new", &Count::default()).unwrap(), 1001);
        finish(&database, &hooks);
    }

    /// Two transactions with many keys in common conflict.
    #[test]
    fn large_transactions_conflict() {
        let (database, hooks) = hooked();
        let (first, second) = (database.begin().unwrap(), database.begin().unwrap());
        let all = Delete {
            multi: true,
            ..Delete::default()
        };
        assert_eq!(first.delete("c", &all).unwrap().deleted, 1000);
        let conflict = second.delete("c", &all).unwrap_err();
        assert!(conflict.is_write_conflict());
        first.commit().unwrap();
        assert_eq!(count(&database, rawdoc! {}), 0);
        finish(&database, &hooks);
    }

    fn index_on_n(database: &Database, is_unique: bool) -> Result<()> {
        let index = Index::new([("n", Direction::Ascending)]);
        let index = if is_unique { index.unique() } else { index };
        database.create_indexes("c", &[index])
    }

    /// Changes documents while the entries of an index are written: an insert, an update, a delete, and a key that moves from a
    /// document to another document.
    #[test]
    fn an_index_has_the_entries_of_changes_during_the_build() {
        for is_unique in [false, true] {
            let (database, hooks) = hooked();
            let unique = Update {
                update: rawdoc! { "$set": { "n": 0 } },
                pipeline: Some(vec![rawdoc! { "$set": { "n": "$_id" } }]),
                multi: true,
                ..Update::default()
            };
            assert_eq!(database.update("c", &unique).unwrap().modified, 999);
            hooks.lock().unwrap().written = Some(Box::new(|database| {
                insert(database, vec![rawdoc! { "_id": 2000, "n": [-1, -2] }]);
                add(database, rawdoc! { "_id": 5 }, 10_000);
                let one = Delete {
                    filter: rawdoc! { "_id": 6 },
                    ..Delete::default()
                };
                database.delete("c", &one).unwrap();
                add(database, rawdoc! { "_id": 7 }, -1);
                insert(database, vec![rawdoc! { "_id": 2001, "n": 7 }]);
            }));
            index_on_n(&database, is_unique).unwrap();
            finish(&database, &hooks);
            let find = |n: i32| {
                let find = Find {
                    filter: rawdoc! { "n": n },
                    ..Find::default()
                };
                let found = database.find("c", &find).unwrap();
                let ids = found.map(|document| document.unwrap().get_i32("_id").unwrap());
                ids.collect::<Vec<_>>()
            };
            assert_eq!(
                (find(-2), find(5), find(10_005)),
                (vec![2000], vec![], vec![5])
            );
            assert_eq!((find(6), find(7)), (vec![7], vec![2001]));
            assert_eq!(database.list_indexes("c").unwrap().len(), 2);
        }
    }

    /// A build catches up beside concurrent writes if many documents have changed.
    #[test]
    fn an_index_catches_up_with_many_changes() {
        let (database, hooks) = hooked();
        hooks.lock().unwrap().written = Some(Box::new(|database| {
            for id in 0..600 {
                add(database, rawdoc! { "_id": id }, id);
            }
        }));
        index_on_n(&database, false).unwrap();
        finish(&database, &hooks);
        assert_eq!(count(&database, rawdoc! { "n": 0 }), 401);
        assert_eq!(count(&database, rawdoc! { "n": { "$gt": 0 } }), 599);
    }

    /// A failed build leaves no index and no entries.
    #[test]
    fn a_duplicate_during_a_build_undoes_the_build() {
        let (database, hooks) = hooked();
        assert!(index_on_n(&database, true).unwrap_err().is_duplicate_key());
        let unique = Update {
            update: rawdoc! {},
            pipeline: Some(vec![rawdoc! { "$set": { "n": "$_id" } }]),
            multi: true,
            ..Update::default()
        };
        assert_eq!(database.update("c", &unique).unwrap().modified, 999);
        hooks.lock().unwrap().written = Some(Box::new(|database| {
            add(database, rawdoc! { "_id": 8 }, 1);
        }));
        assert!(index_on_n(&database, true).unwrap_err().is_duplicate_key());
        assert_eq!(database.list_indexes("c").unwrap().len(), 1);
        let marks = crate::key::removal_marks(&database.committer().state().view);
        assert_eq!(marks.unwrap(), Vec::<Vec<u8>>::new());
        finish(&database, &hooks);
    }

    /// The collection is dropped and created again while its index is built.
    #[test]
    fn a_build_starts_again_after_a_drop() {
        let (database, hooks) = hooked();
        hooks.lock().unwrap().written = Some(Box::new(|database| {
            let drop_all = database.committer().write(Durability::Full, |overlay| {
                crate::command::collections::drop(overlay, "c")
            });
            drop_all.unwrap();
            insert(database, vec![rawdoc! { "_id": 1, "n": 1 }]);
        }));
        index_on_n(&database, false).unwrap();
        assert_eq!(count(&database, rawdoc! { "n": 1 }), 1);
        assert_eq!(database.list_indexes("c").unwrap().len(), 2);
        finish(&database, &hooks);
    }

    /// A large write ends while a small write is being committed and a transaction is open. Later large writes of the same documents
    /// do not conflict with it.
    #[test]
    fn a_large_write_beside_a_small_commit_ends() {
        let (database, hooks) = hooked();
        let transaction = database.begin().unwrap();
        thread::scope(|scope| {
            let (start, starts) = mpsc::channel();
            let (written, is_written) = mpsc::channel();
            {
                let mut hooks = hooks.lock().unwrap();
                hooks.written = Some(Box::new(move |_| written.send(()).unwrap()));
                let is_written = Mutex::new(is_written);
                hooks.committed = Some(Box::new(move |_| {
                    start.send(()).unwrap();
                    is_written.lock().unwrap().recv().unwrap();
                    // The large write now waits for this commit.
                    thread::sleep(Duration::from_millis(20));
                }));
            }
            let database = &database;
            let large = scope.spawn(move || {
                starts.recv().unwrap();
                add(database, rawdoc! {}, 1)
            });
            let inserted = database
                .insert("other", vec![rawdoc! { "_id": 1 }])
                .unwrap();
            inserted.into_result().unwrap();
            assert_eq!(large.join().unwrap(), 1000);
        });
        for _ in 0..3 {
            assert_eq!(add(&database, rawdoc! {}, 1), 1000);
        }
        assert_eq!(count(&database, rawdoc! { "n": 4 }), 1000);
        transaction.abort().unwrap();
        finish(&database, &hooks);
    }

    /// A write whose changes are complete only after the close.
    #[test]
    fn a_large_write_after_a_close_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.odm");
        let database = Database::open(&path).unwrap();
        insert(&database, vec![rawdoc! { "_id": 1 }]);
        let length = || std::fs::metadata(&path).unwrap().len();
        let length_after_close = Cell::new(0);
        let written = database
            .committer()
            .write_large(Durability::Full, |overlay| {
                let collection = overlay.collection_or_create("c")?;
                let text = "x".repeat(10 << 20);
                overlay.insert(&collection, &rawdoc! { "_id": 2, "text": text })?;
                database.close();
                length_after_close.set(length());
                Ok(())
            });
        assert!(written.unwrap_err().is_closed());
        assert_eq!(length(), length_after_close.get());
        let database = Database::open(&path).unwrap();
        assert_eq!(count(&database, rawdoc! {}), 1);
        database.validate().unwrap();
    }

    /// A drop with few keys, whose changes are large for this store, and a drop with many keys.
    #[test]
    fn a_dropped_collection_can_be_created_again() {
        for kept in [200, 1000] {
            let (database, hooks) = hooked();
            let rest = Delete {
                filter: rawdoc! { "_id": { "$gte": kept } },
                multi: true,
                ..Delete::default()
            };
            database.delete("c", &rest).unwrap();
            database.drop_collection("c").unwrap();
            assert_eq!(database.list_collections().unwrap(), Vec::<String>::new());
            insert(&database, vec![rawdoc! { "_id": 1 }]);
            assert_eq!(count(&database, rawdoc! {}), 1);
            finish(&database, &hooks);
        }
    }

    #[test]
    fn dropped_data_is_removed_beside_other_writes() {
        let (database, hooks) = hooked();
        index_on_n(&database, false).unwrap();
        hooks.lock().unwrap().written = Some(Box::new(|database| {
            insert(database, vec![rawdoc! { "_id": 1 }]);
            // The dropped data is known until it is removed.
            database.validate().unwrap();
        }));
        database.drop_collection("c").unwrap();
        assert_eq!(count(&database, rawdoc! {}), 1);
        finish(&database, &hooks);
    }
}
