//! How writes become durable, one after the other but with one fsync for many.
//!
//! A write is carried out on the thread that asks for it, against the state that all writes before it
//! leave behind, durable or not; it is short and in memory. Then it is made durable by whoever gets
//! to lead: that thread commits everything that has gathered meanwhile in one store transaction, and
//! the others find their write done. So nobody waits for more than two of these commits: that which is
//! under way, and the next. One write that fails alone leaves no trace.

mod conflicts;
mod log;
mod outcome;
mod stage;
mod watchers;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use conflicts::TransactionId;
use outcome::BatchOutcome;
use stage::{Batch, Stage};
use watchers::Watchers;

use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind, Result};
use crate::key;
use crate::overlay::{Contend, Outcome, Overlay, Steps};
use crate::store::{Bulk, Changes, Closed, CommitError, Snapshot, Store, View, holds};

pub use log::ChangeLog;
pub(crate) use log::Log;

/// The version of the layout of the stores that this engine makes.
const FORMAT_VERSION: u32 = 4;

/// The version with checksums of values and none of pages. A file of it goes on without those.
const SEALED_VERSION: u32 = 3;

/// The version without any checksums. A file of it goes on without them, and one that is older still becomes one of it: what
/// the old layout does not have, is not used there.
const UNSEALED_VERSION: u32 = 2;

/// The oldest version of the layout that this engine reads.
const OLDEST_VERSION: u32 = 1;

/// How long others are taken to go on writing behind a write.
const BUSY: Duration = Duration::from_millis(10);

/// How long what gives way to others waits at most for one of them to commit it.
const PATIENCE: Duration = Duration::from_millis(5);

/// How soon changes are to be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Haste {
    Now,
    /// Together with those of others, while these write: it begins no commit that they would have to wait for.
    BehindOthers,
}

/// The one place where a database changes.
pub(crate) struct Committer {
    store: Box<dyn Store>,
    published: RwLock<Arc<State>>,
    stage: Mutex<Stage>,
    /// How far the store is. Nobody holds it for long, unlike the stage.
    progress: Mutex<Progress>,
    /// Notified of progress, and of failure.
    committed: Condvar,
    next_collection: Arc<AtomicU32>,
    watchers: Watchers,
    /// Set while the store cannot be written to, and nobody knows whether the last commit took place.
    failure: Mutex<Option<Failure>>,
    is_closed: AtomicBool,
}

/// A commit of which nobody knows whether it took place.
struct Failure {
    error: Error,
    /// What was to be committed; `None` after a panic, which has lost it.
    batch: Option<Batch>,
}

/// A durable state of the database.
pub(crate) struct State {
    pub(crate) view: View,
    pub(crate) catalog: Catalog,
    pub(crate) log: Log,
}

/// The state that a transaction reads, and its place among the others.
pub(crate) struct Begun {
    pub(crate) state: Arc<State>,
    id: TransactionId,
}

impl Committer {
    /// Takes over a store, new or not.
    ///
    /// # Errors
    /// Newer format, damaged, I/O.
    pub(crate) fn open(store: Box<dyn Store>) -> Result<Committer> {
        check_format(store.as_ref())?;
        rebuild_outdated(store.as_ref())?;
        let view = View::new(store.snapshot()?, Changes::new());
        let catalog = Catalog::load(&view)?;
        let log = Log::load(&view)?;
        let last_collection = catalog.collections().map(|collection| collection.id).max();
        let next_collection = last_collection.map_or(0, |id| id.saturating_add(1));
        let state = Arc::new(State {
            view: view.clone(),
            catalog: catalog.clone(),
            log: log.clone(),
        });
        Ok(Committer {
            store,
            published: RwLock::new(state),
            stage: Mutex::new(Stage::new(view, catalog, log)),
            progress: Mutex::default(),
            committed: Condvar::new(),
            next_collection: Arc::new(AtomicU32::new(next_collection)),
            watchers: Watchers::default(),
            failure: Mutex::default(),
            is_closed: AtomicBool::new(false),
        })
    }

    /// The last durable state.
    pub(crate) fn state(&self) -> Arc<State> {
        let published = self.published.read();
        Arc::clone(&published.unwrap_or_else(PoisonError::into_inner))
    }

    /// Carries out `operation` and makes its changes durable. If it fails, it has changed nothing.
    pub(crate) fn write<T>(&self, operation: impl FnOnce(&mut Overlay) -> Result<T>) -> Result<T> {
        let (result, outcome) = {
            let mut stage = self.stage()?;
            let catalog = stage.catalog().clone();
            let mut overlay = self.overlay(stage.view(), catalog, stage.log());
            let result = operation(&mut overlay)?;
            let done = overlay.finish();
            self.store.admit(&done.changes, stage.view())?;
            let outcome = stage.add(done.changes, &done.events, Haste::Now)?;
            (result, outcome)
        };
        self.make_durable_now(outcome)?;
        Ok(result)
    }

    /// The same for an operation that builds or removes whole indexes or collections, which are too large for memory:
    /// their entries are written within the store's commit, and no other write is carried out meanwhile.
    pub(crate) fn write_alone<T>(
        &self,
        operation: impl FnOnce(&mut Overlay, &mut Steps) -> Result<T>,
    ) -> Result<T> {
        let lead = self.become_leader();
        let result = lead.write_alone(operation);
        drop(lead);
        self.watchers.wake_all();
        result
    }

    /// Changes on top of some state, with events if that keeps a log.
    pub(crate) fn overlay(&self, base: &View, catalog: Catalog, log: &Log) -> Overlay {
        let next_collection = Arc::clone(&self.next_collection);
        Overlay::new(base, catalog, next_collection, log.settings().is_some())
    }

    /// Switches the change log on, changes what it keeps, or switches it off.
    pub(crate) fn configure_log(&self, keep: Option<ChangeLog>) -> Result<()> {
        self.change_log(|_| Some(keep))
    }

    /// Switches the change log on unless it is, and returns the last durable state.
    pub(crate) fn with_log(&self) -> Result<Arc<State>> {
        let state = self.state();
        if state.log.settings().is_some() {
            return Ok(state);
        }
        self.change_log(|kept| kept.is_none().then(|| Some(ChangeLog::default())))?;
        Ok(self.state())
    }

    /// Gives the log the settings that `choose` makes of those it has, and returns once they are durable.
    fn change_log(
        &self,
        choose: impl FnOnce(Option<ChangeLog>) -> Option<Option<ChangeLog>>,
    ) -> Result<()> {
        let outcome = {
            let mut stage = self.stage()?;
            let chosen = choose(stage.log().settings());
            stage.configure_log(chosen)?
        };
        self.make_durable_now(outcome)
    }

    /// Those who wait for a commit.
    pub(crate) fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    /// Why nothing can be committed, if that is so.
    pub(crate) fn failure(&self) -> Option<Error> {
        if let Err(closed) = self.check_open() {
            return Some(closed);
        }
        self.failed().as_ref().map(|failure| failure.error.clone())
    }

    /// Opens the store anew if it cannot be written to.
    ///
    /// # Errors
    /// The store still fails; closed.
    pub(crate) fn reopen(&self) -> Result<()> {
        self.stage().map(drop)
    }

    /// Ends the database, once the commit that is under way is done.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let lead = self.become_leader();
        let mut stage = self.locked_stage();
        let state = self.state();
        let state = self.publish(State {
            view: View::new(Arc::new(Closed), Changes::new()),
            catalog: Catalog::default(),
            log: state.log.clone(),
        });
        stage.fail(&state, &Error::closed());
        self.store.close();
        drop(stage);
        drop(lead);
        self.watchers.wake_all();
    }

    /// Refuses to read or write once the database is closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        Ok(())
    }

    /// Begins a transaction on the last durable state.
    pub(crate) fn begin(&self) -> Result<Begun> {
        let mut stage = self.stage()?;
        let id = stage.begin();
        Ok(Begun {
            state: self.state(),
            id,
        })
    }

    /// What tells a transaction's overlay of conflicts before they are written. Nothing is reserved
    /// by that: [`claim`](Committer::claim) does it.
    pub(crate) fn contend(self: &Arc<Self>, begun: &Begun) -> Contend {
        let (committer, id) = (Arc::clone(self), begun.id);
        Box::new(move |key| committer.stage()?.conflicts().check_key(id, key))
    }

    /// Reserves the keys of `changes` for a transaction.
    ///
    /// # Errors
    /// Write conflict, if another transaction has reserved one or someone has changed one since.
    pub(crate) fn claim(&self, begun: &Begun, changes: &Changes) -> Result<()> {
        self.stage()?.conflicts().claim(begun.id, changes)
    }

    /// Ends a transaction without its changes.
    pub(crate) fn abort(&self, begun: &Begun) {
        self.locked_stage().conflicts().end(begun.id);
    }

    /// Ends a transaction with its changes.
    ///
    /// # Errors
    /// Write conflict, I/O. Nothing has been changed then.
    pub(crate) fn commit(&self, begun: &Begun, done: Outcome, haste: Haste) -> Result<()> {
        let outcome = {
            let mut stage = self.locked_stage();
            let checked = stage.conflicts().check(begun.id, &done);
            stage.conflicts().end(begun.id);
            checked?;
            self.require_open(&mut stage)?;
            self.store.admit(&done.changes, stage.view())?;
            stage.add(done.changes, &done.events, haste)?
        };
        match haste {
            Haste::Now => self.make_durable_now(outcome),
            Haste::BehindOthers => {
                self.go_along(&outcome);
                self.make_durable(&outcome)
            }
        }
    }

    fn make_durable_now(&self, outcome: Arc<BatchOutcome>) -> Result<()> {
        self.progress().wanted = Some(Instant::now());
        self.make_durable(&outcome)
    }

    /// Waits for others to make it durable, while they write, and not for long.
    fn go_along(&self, outcome: &BatchOutcome) {
        let until = Instant::now() + PATIENCE;
        let mut progress = self.progress();
        while !outcome.is_known() && progress.is_busy() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.committed.wait_timeout(progress, left);
            (progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns once it is known what became of a write, and leads if nobody else does.
    fn make_durable(&self, outcome: &BatchOutcome) -> Result<()> {
        if let Some(lead) = self.become_leader_unless(|| outcome.is_known()) {
            lead.commit_gathered();
        }
        // Without any lock, as this runs what others have written.
        self.watchers.wake_all();
        outcome.known()
    }

    /// Waits until nobody leads; then this thread does.
    fn become_leader(&self) -> Lead<'_> {
        loop {
            if let Some(lead) = self.become_leader_unless(|| false) {
                return lead;
            }
        }
    }

    /// The same, unless what it is to lead for has come about.
    fn become_leader_unless(&self, is_done: impl Fn() -> bool) -> Option<Lead<'_>> {
        let mut progress = self.progress();
        while progress.is_led && !is_done() {
            let waited = self.committed.wait(progress);
            progress = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if is_done() {
            return None;
        }
        progress.is_led = true;
        Some(Lead {
            committer: self,
            is_committing: Cell::new(false),
        })
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, Option<Failure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stage of a store that can be written to.
    fn stage(&self) -> Result<MutexGuard<'_, Stage>> {
        let mut stage = self.locked_stage();
        self.require_open(&mut stage)?;
        Ok(stage)
    }

    /// Makes sure that the store can be written to. Nobody commits to it while it cannot.
    fn require_open(&self, stage: &mut Stage) -> Result<()> {
        self.check_open()?;
        let mut failed = self.failed();
        let Some(failure) = failed.as_mut() else {
            return Ok(());
        };
        if let Err(error) = self.store.reopen() {
            failure.error = error.unknown();
            return Err(failure.error.clone());
        }
        let snapshot = self.store.snapshot()?;
        let state = self.state();
        let (catalog, log) = match failure.batch.take() {
            Some(batch) if holds(snapshot.as_ref(), &batch.changes)? => (batch.catalog, batch.log),
            _ => (state.catalog.clone(), state.log.clone()),
        };
        let state = self.publish(State {
            view: View::new(snapshot, Changes::new()),
            catalog,
            log,
        });
        stage.reset(&state);
        *failed = None;
        Ok(())
    }

    fn publish(&self, state: State) -> Arc<State> {
        let state = Arc::new(state);
        let mut published = self
            .published
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *published = Arc::clone(&state);
        state
    }

    /// An operation that panics has changed only its overlay, so the stage is never left half-way.
    fn locked_stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the threads that commit tell each other.
#[derive(Default)]
struct Progress {
    /// Whether a thread leads.
    is_led: bool,
    /// When somebody last wrote who did not give way to others.
    wanted: Option<Instant>,
}

impl Progress {
    fn is_busy(&self) -> bool {
        self.wanted.is_some_and(|wanted| wanted.elapsed() < BUSY)
    }
}

/// The thread that commits to the store: one at a time.
struct Lead<'c> {
    committer: &'c Committer,
    /// Whether it is between the two ends of a commit.
    is_committing: Cell<bool>,
}

impl Lead<'_> {
    /// Makes everything durable that has gathered, and what gathers meanwhile, if that is less and somebody wants it
    /// now: it has waited for more than it brings.
    fn commit_gathered(&self) {
        let mut stage = self.committer.locked_stage();
        let mut next = stage.take();
        drop(stage);
        while let Some(batch) = next {
            let size = batch.changes.len();
            let committed = self.commit(&batch, &|_| Ok(()));
            stage = self.committer.locked_stage();
            // If it has failed, those who wait are told.
            let concluded = self.conclude(&mut stage, batch, committed);
            next = concluded.ok().and_then(|()| stage.take_fewer_than(size));
            drop(stage);
        }
    }

    /// See [`Committer::write_alone`].
    fn write_alone<T>(
        &self,
        operation: impl FnOnce(&mut Overlay, &mut Steps) -> Result<T>,
    ) -> Result<T> {
        let committer = self.committer;
        // Nothing gathers while this holds the stage.
        let mut stage = committer.stage()?;
        if let Some(batch) = stage.take() {
            let committed = self.commit(&batch, &|_| Ok(()));
            if self.conclude(&mut stage, batch, committed).is_err() {
                committer.require_open(&mut stage)?;
            }
        }
        let before = stage.view().clone();
        let mut overlay = committer.overlay(&before, stage.catalog().clone(), stage.log());
        let mut steps = Steps::default();
        let result = operation(&mut overlay, &mut steps)?;
        let done = overlay.finish();
        committer.store.admit(&done.changes, &before)?;
        stage.add(done.changes, &done.events, Haste::Now)?;
        if let Some(batch) = stage.take() {
            let committed = self.commit(&batch, &|writer| steps.write(&before, writer));
            self.conclude(&mut stage, batch, committed)?;
        }
        Ok(result)
    }

    /// Commits to the store; the result is its state behind the commit.
    fn commit(&self, batch: &Batch, bulk: Bulk<'_>) -> Result<Arc<dyn Snapshot>, CommitError> {
        let store = &self.committer.store;
        self.is_committing.set(true);
        let committed = store.commit(&batch.changes, bulk);
        self.is_committing.set(false);
        committed.and_then(|()| store.snapshot().map_err(CommitError::Unknown))
    }

    /// Publishes what was committed, or fails everything that is not durable.
    fn conclude(
        &self,
        stage: &mut Stage,
        batch: Batch,
        committed: Result<Arc<dyn Snapshot>, CommitError>,
    ) -> Result<()> {
        let committer = self.committer;
        let concluded = match committed {
            Ok(snapshot) => {
                // Before those who wait are told: they read what they have written.
                committer.publish(State {
                    view: View::new(Arc::clone(&snapshot), Changes::new()),
                    catalog: batch.catalog.clone(),
                    log: batch.log.clone(),
                });
                stage.committed(snapshot, &batch);
                Ok(())
            }
            Err(CommitError::Undone(error)) => match committer.store.snapshot() {
                Ok(snapshot) => {
                    // The store may have been opened anew: nobody can read its former states to the end.
                    let state = committer.state();
                    let state = committer.publish(State {
                        view: View::new(snapshot, Changes::new()),
                        catalog: state.catalog.clone(),
                        log: state.log.clone(),
                    });
                    stage.fail(&state, &error);
                    Err(error)
                }
                Err(_) => Err(self.fail(stage, error, None)),
            },
            Err(CommitError::Unknown(error)) => Err(self.fail(stage, error, Some(batch))),
        };
        committer.committed.notify_all();
        concluded
    }

    /// Fails everything that is not durable, and all writes until the store can be written to again.
    fn fail(&self, stage: &mut Stage, error: Error, batch: Option<Batch>) -> Error {
        let committer = self.committer;
        stage.fail(&committer.state(), &error);
        *committer.failed() = Some(Failure {
            error: error.clone(),
            batch,
        });
        error
    }
}

impl Drop for Lead<'_> {
    /// Lets another thread lead.
    fn drop(&mut self) {
        if self.is_committing.get() {
            let error = Error::damaged("a commit has panicked");
            self.fail(&mut self.committer.locked_stage(), error, None);
        }
        self.committer.progress().is_led = false;
        self.committer.committed.notify_all();
    }
}

/// Makes the keys of indexes anew whose collations had other rules when they were made.
///
/// # Errors
/// Two documents that a unique index keeps apart by the old rules are equal by the new ones.
fn rebuild_outdated(store: &dyn Store) -> Result<()> {
    let view = View::new(store.snapshot()?, Changes::new());
    let catalog = Catalog::load(&view)?;
    let mut overlay = Overlay::new(&view, catalog.clone(), Arc::default(), false);
    let mut steps = Steps::default();
    for collection in catalog.collections() {
        for state in &collection.indexes {
            if state.rules == state.current_rules() {
                continue;
            }
            // Another index of it may have been made anew.
            let Some(collection) = overlay.collection(&collection.name) else {
                continue;
            };
            overlay.rebuild_index(&mut steps, &collection, state)?;
        }
    }
    let changes = overlay.finish().changes;
    if changes.is_empty() {
        return Ok(());
    }
    commit(store, &changes, &|writer| steps.write(&view, writer)).map_err(|error| {
        match error.duplicate_key() {
            Some(duplicate) => equal_by_now(duplicate.collection(), duplicate.index(), &error),
            None => error,
        }
    })
}

/// Commits before there is anybody who could go on after an error.
fn commit(store: &dyn Store, changes: &Changes, bulk: Bulk<'_>) -> Result<()> {
    match store.commit(changes, bulk) {
        Ok(()) => Ok(()),
        Err(CommitError::Undone(error) | CommitError::Unknown(error)) => Err(error),
    }
}

fn equal_by_now(collection: &str, index: &str, error: &Error) -> Error {
    let message = format!(
        "the rules of the collation of the unique index {index} of {collection} have changed with this version of the \
         program, and two documents are equal by them; nothing was changed: open the database with the version before, \
         and change a document or drop the index ({error})"
    );
    Error::server(crate::error::code::DUPLICATE_KEY, message)
}

fn check_format(store: &dyn Store) -> Result<()> {
    let mut view = View::new(store.snapshot()?, Changes::new());
    let mut write_version = |version: u32| {
        view.put(key::format(), version.to_be_bytes());
        commit(store, view.changes(), &|_| Ok(()))
    };
    let Some(version) = store.snapshot()?.get(&key::format())? else {
        return write_version(FORMAT_VERSION);
    };
    let version = version
        .first_chunk()
        .map(|bytes| u32::from_be_bytes(*bytes));
    match version {
        Some(FORMAT_VERSION | SEALED_VERSION | UNSEALED_VERSION) => Ok(()),
        Some(OLDEST_VERSION..UNSEALED_VERSION) => write_version(UNSEALED_VERSION),
        Some(newer) if newer > FORMAT_VERSION => {
            let message = format!(
                "the database has format {newer} and this version of the engine knows formats up \
                 to {FORMAT_VERSION}; upgrade the program"
            );
            Err(Error::new(ErrorKind::NewerFormat, None, message))
        }
        _ => Err(Error::damaged("it has no valid format version")),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::store::Snapshot;
    use crate::store::memory::MemoryStore;

    /// A store whose commits panic once it is told to.
    #[derive(Default)]
    struct Panicking {
        store: MemoryStore,
        panics: Arc<AtomicBool>,
    }

    impl Store for Panicking {
        fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
            self.store.snapshot()
        }

        fn commit(&self, changes: &Changes, bulk: Bulk<'_>) -> Result<(), CommitError> {
            assert!(!self.panics.load(Ordering::Relaxed), "the commit");
            self.store.commit(changes, bulk)
        }
    }

    fn create(committer: &Committer, name: &str) -> Result<()> {
        committer.write(|overlay| overlay.collection_or_create(name).map(drop))
    }

    #[test]
    fn a_commit_that_panics_has_written_nothing() {
        let store = Panicking::default();
        let panics = Arc::clone(&store.panics);
        let committer = Committer::open(Box::new(store)).unwrap();
        create(&committer, "a").unwrap();
        panics.store(true, Ordering::Relaxed);
        let caught = catch_unwind(AssertUnwindSafe(|| create(&committer, "b")));
        assert!(caught.is_err());
        assert!(committer.failure().is_some());
        // What it took is lost: to go on from it would be to answer for what is not there.
        panics.store(false, Ordering::Relaxed);
        create(&committer, "c").unwrap();
        assert!(committer.failure().is_none());
        assert!(!is_there(&committer, "b") && is_there(&committer, "c"));
    }

    /// A store that counts its commits.
    #[derive(Default)]
    struct Counting {
        store: MemoryStore,
        commits: Arc<AtomicU32>,
    }

    impl Store for Counting {
        fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
            self.store.snapshot()
        }

        fn commit(&self, changes: &Changes, bulk: Bulk<'_>) -> Result<(), CommitError> {
            self.commits.fetch_add(1, Ordering::Relaxed);
            self.store.commit(changes, bulk)
        }
    }

    fn create_behind_others(committer: &Committer, name: &str) -> Result<()> {
        let begun = committer.begin()?;
        let state = &begun.state;
        let mut overlay = committer.overlay(&state.view, state.catalog.clone(), &state.log);
        overlay.collection_or_create(name)?;
        committer.commit(&begun, overlay.finish(), Haste::BehindOthers)
    }

    fn is_there(committer: &Committer, name: &str) -> bool {
        let state = committer.state();
        state.catalog.collections().any(|one| one.name == name)
    }

    #[test]
    fn what_gives_way_is_durable_though_nobody_else_writes() {
        let committer = Committer::open(Box::new(MemoryStore::default())).unwrap();
        create_behind_others(&committer, "a").unwrap();
        assert!(is_there(&committer, "a"));
        create(&committer, "b").unwrap();
        // Others have just written, and do not go on.
        create_behind_others(&committer, "c").unwrap();
        assert!(is_there(&committer, "c"));
    }

    #[test]
    fn what_gives_way_is_committed_with_what_others_write() {
        let store = Counting::default();
        let commits = Arc::clone(&store.commits);
        let committer = Committer::open(Box::new(store)).unwrap();
        // Whoever is kept from running for long may miss the other.
        let are_together = (0..100).any(|round| {
            create(&committer, &format!("first{round}")).unwrap();
            let before = commits.load(Ordering::Relaxed);
            let (own, other) = (format!("own{round}"), format!("other{round}"));
            std::thread::scope(|scope| {
                let behind = scope.spawn(|| create_behind_others(&committer, &own));
                while committer.stage().unwrap().is_empty() && !behind.is_finished() {
                    std::thread::yield_now();
                }
                create(&committer, &other).unwrap();
                behind.join().unwrap().unwrap();
            });
            assert!(is_there(&committer, &own) && is_there(&committer, &other));
            commits.load(Ordering::Relaxed) == before + 1
        });
        assert!(are_together, "each had a commit of its own");
    }
}
