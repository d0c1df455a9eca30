//! How writes become durable, one after the other but with one fsync for many.
//!
//! A write is carried out on the thread that asks for it, against the state that all writes before it
//! leave behind, durable or not; it is short and in memory. Then it is made durable by whoever gets
//! to lead: that thread commits everything that has gathered meanwhile in one store transaction, and
//! the others find their write done. So nobody waits for more than two of these commits: that which is
//! under way, and the next. One write that fails alone leaves no trace.

mod conflicts;
mod log;
mod stage;
mod watchers;

use std::cell::Cell;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use conflicts::TransactionId;
use stage::{Batch, Stage};
use watchers::Watchers;

use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind, Result};
use crate::key;
use crate::overlay::{Contend, Outcome, Overlay};
use crate::store::{Changes, Store, View};

pub use log::ChangeLog;
pub(crate) use log::Log;

/// The version of the layout of the stores that this engine makes.
const FORMAT_VERSION: u32 = 3;

/// The version without checksums. A file of it goes on without them, and one that is older still becomes one of it: what the
/// old layout does not have, is not used there.
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
    /// Set once the store has failed: what it holds is then unknown until it is opened again.
    failure: OnceLock<Error>,
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
            failure: OnceLock::new(),
        })
    }

    /// The last durable state.
    pub(crate) fn state(&self) -> Arc<State> {
        let published = self.published.read();
        Arc::clone(&published.unwrap_or_else(PoisonError::into_inner))
    }

    /// Carries out `operation` and makes its changes durable. If it fails, it has changed nothing.
    pub(crate) fn write<T>(&self, operation: impl FnOnce(&mut Overlay) -> Result<T>) -> Result<T> {
        let (result, ticket) = {
            let mut stage = self.stage()?;
            let catalog = stage.catalog().clone();
            let mut overlay = self.overlay(stage.view(), catalog, stage.log());
            let result = operation(&mut overlay)?;
            let outcome = overlay.finish();
            let ticket = stage.add(outcome.changes, &outcome.events, Haste::Now)?;
            (result, ticket)
        };
        self.make_durable_now(ticket)?;
        Ok(result)
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
        let ticket = {
            let mut stage = self.stage()?;
            let chosen = choose(stage.log().settings());
            stage.configure_log(chosen)?
        };
        self.make_durable_now(ticket)
    }

    /// Those who wait for a commit.
    pub(crate) fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    /// Why nothing will be committed any more, if that is so.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
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
        self.stage_even_if_failed().conflicts().end(begun.id);
    }

    /// Ends a transaction with its changes.
    ///
    /// # Errors
    /// Write conflict, I/O. Nothing has been changed then.
    pub(crate) fn commit(&self, begun: &Begun, outcome: Outcome, haste: Haste) -> Result<()> {
        let ticket = {
            let mut stage = self.stage_even_if_failed();
            let checked = stage.conflicts().check(begun.id, &outcome);
            stage.conflicts().end(begun.id);
            checked?;
            self.require_sound()?;
            stage.add(outcome.changes, &outcome.events, haste)?
        };
        match haste {
            Haste::Now => self.make_durable_now(ticket),
            Haste::BehindOthers => {
                self.go_along(ticket);
                self.make_durable(ticket)
            }
        }
    }

    fn make_durable_now(&self, ticket: u64) -> Result<()> {
        self.progress().wanted = Some(Instant::now());
        self.make_durable(ticket)
    }

    /// Waits for others to make it durable, while they write, and not for long.
    fn go_along(&self, ticket: u64) {
        let until = Instant::now() + PATIENCE;
        let mut progress = self.progress();
        while progress.durable < ticket && progress.is_busy() && self.failure.get().is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.committed.wait_timeout(progress, left);
            (progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns once everything up to `ticket` is durable, and leads if nobody else does.
    fn make_durable(&self, ticket: u64) -> Result<()> {
        let result = self.lead(ticket);
        // Without any lock, as this runs what others have written.
        self.watchers.wake_all();
        result
    }

    fn lead(&self, ticket: u64) -> Result<()> {
        let Some((lead, batch)) = self.become_leader(ticket)? else {
            return Ok(());
        };
        let mut waiting = lead.commit(batch)?;
        // It is durable before this thread writes as much again. If that fails, it is told to those who wait.
        while let Some(batch) = waiting {
            waiting = lead.commit(batch).unwrap_or_default();
        }
        Ok(())
    }

    /// Waits until `ticket` is durable, or nobody leads; then this thread does, with what it is to commit.
    fn become_leader(&self, ticket: u64) -> Result<Option<(Lead<'_>, Batch)>> {
        let mut progress = self.progress();
        while progress.is_led && progress.durable < ticket && self.failure.get().is_none() {
            let waited = self.committed.wait(progress);
            progress = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if progress.durable >= ticket {
            return Ok(None);
        }
        self.require_sound()?;
        progress.is_led = true;
        drop(progress);
        let lead = Lead {
            committer: self,
            is_committing: Cell::new(false),
        };
        let batch = self.stage()?.take();
        Ok(Some((lead, batch)))
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn require_sound(&self) -> Result<()> {
        self.failure.get().cloned().map_or(Ok(()), Err)
    }

    fn stage(&self) -> Result<MutexGuard<'_, Stage>> {
        let stage = self.stage_even_if_failed();
        self.require_sound()?;
        Ok(stage)
    }

    /// An operation that panics has changed only its overlay, so the stage is never left half-way.
    fn stage_even_if_failed(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far the store is.
#[derive(Default)]
struct Progress {
    /// The last write that is durable, and published.
    durable: u64,
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
    /// Makes a batch durable and publishes the state behind it, or fails all writes from now on. Gives what has gathered
    /// meanwhile, if that is less and somebody wants it now: it has waited for more than it brings. Whoever gets it commits it.
    fn commit(&self, batch: Batch) -> Result<Option<Batch>> {
        let committer = self.committer;
        self.is_committing.set(true);
        let committed = committer.store.commit(&batch.changes);
        self.is_committing.set(false);
        let snapshot = match committed.and_then(|()| committer.store.snapshot()) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                self.fail(error.clone());
                return Err(error);
            }
        };
        let state = State {
            view: View::new(Arc::clone(&snapshot), Changes::new()),
            catalog: batch.catalog,
            log: batch.log,
        };
        let mut stage = committer.stage_even_if_failed();
        *committer
            .published
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
        stage.committed(snapshot, batch.ticket);
        let next = stage.take_fewer_than(batch.changes.len());
        drop(stage);
        committer.progress().durable = batch.ticket;
        committer.committed.notify_all();
        Ok(next)
    }

    /// Fails all writes from now on: nothing is known of the store any more.
    fn fail(&self, error: Error) {
        // Nobody else sets it: a store that has failed is not committed to again.
        let _set = self.committer.failure.set(error);
    }
}

impl Drop for Lead<'_> {
    /// Lets another thread lead.
    fn drop(&mut self) {
        if self.is_committing.get() {
            self.fail(Error::damaged("a commit has panicked"));
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
    let mut is_changed = false;
    for collection in catalog.collections() {
        for state in &collection.indexes {
            if state.rules == state.current_rules() {
                continue;
            }
            // Another index of it may have been made anew.
            let Some(collection) = overlay.collection(&collection.name) else {
                continue;
            };
            overlay.rebuild_index(&collection, state).map_err(|error| {
                match error.is_duplicate_key() {
                    true => equal_by_now(&collection.name, &state.index.name, error),
                    false => error,
                }
            })?;
            is_changed = true;
        }
    }
    if is_changed {
        store.commit(&overlay.finish().changes)?;
    }
    Ok(())
}

fn equal_by_now(collection: &str, index: &str, error: Error) -> Error {
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
        store.commit(view.changes())
    };
    let Some(version) = store.snapshot()?.get(&key::format())? else {
        return write_version(FORMAT_VERSION);
    };
    let version = version
        .first_chunk()
        .map(|bytes| u32::from_be_bytes(*bytes));
    match version {
        Some(FORMAT_VERSION | UNSEALED_VERSION) => Ok(()),
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

        fn commit(&self, changes: &Changes) -> Result<()> {
            assert!(!self.panics.load(Ordering::Relaxed), "the commit");
            self.store.commit(changes)
        }
    }

    fn create(committer: &Committer, name: &str) -> Result<()> {
        committer.write(|overlay| overlay.collection_or_create(name).map(drop))
    }

    #[test]
    fn a_commit_that_panics_fails_all_writes_behind_it() {
        let store = Panicking::default();
        let panics = Arc::clone(&store.panics);
        let committer = Committer::open(Box::new(store)).unwrap();
        create(&committer, "a").unwrap();
        panics.store(true, Ordering::Relaxed);
        let caught = catch_unwind(AssertUnwindSafe(|| create(&committer, "b")));
        assert!(caught.is_err());
        // What it took is lost: to go on without it would be to answer for what is not there.
        panics.store(false, Ordering::Relaxed);
        assert!(create(&committer, "c").is_err());
        assert!(committer.failure().is_some());
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

        fn commit(&self, changes: &Changes) -> Result<()> {
            self.commits.fetch_add(1, Ordering::Relaxed);
            self.store.commit(changes)
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
