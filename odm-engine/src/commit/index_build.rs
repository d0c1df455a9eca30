//! Builds of indexes beside concurrent writes.
//!
//! An index of a small collection is built under the lock of the staging area. Otherwise:
//!
//! 1. The prefixes of the new entries are [marked for removal](super::removal), so that no entry stays if the process dies.
//! 2. The entries are written for the documents of one state, in large commits. The index is not part of the definition of the
//!    collection yet, so no query reads the entries, and no write maintains them.
//! 3. The entries of documents that have changed since are written again, until few are left.
//! 4. One commit writes the last entries, adds the index to the definition, and takes the marks back.
//!
//! A transaction tells which documents have changed: it is open during a step, and conflicts with every write of a document. One build
//! runs at a time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::conflicts::ClaimedKeys;
use super::large::{LargeTurn, MAX_STAGING_TIME, OpenTransaction};
use super::staging::StagingArea;
use super::{CommitOptions, Committer, DatabaseState};
use crate::brief;
use crate::catalog::Collection;
use crate::command::indexes;
use crate::direction::Direction;
use crate::durability::Durability;
use crate::error::Result;
use crate::index::{Index, IndexState};
use crate::key;
use crate::overlay::{WriteOverlay, catch_up_index, fill_index};
use crate::store::{BulkCallback, Changes, KeyRange, LargeCommit, Snapshot, SpaceUse, StoreView};

/// The largest number of documents that a build visits under the lock of the staging area.
const MAX_STAGED_DOCUMENTS: usize = 200;

/// The largest size of documents that a build visits under the lock of the staging area, in bytes.
const MAX_STAGED_BYTES: usize = 1 << 20;

/// How often a build catches up beside concurrent writes before it excludes them.
const MAX_SHARED_ROUNDS: usize = 10;

/// The builds of indexes.
#[derive(Default)]
pub(super) struct IndexBuilds {
    /// Held during a build.
    turn: Mutex<()>,
    /// The prefixes of the entries of the running build.
    prefixes: Mutex<Vec<Vec<u8>>>,
}

impl IndexBuilds {
    /// Waits for the end of the running build, and prevents others until the drop of the guard.
    pub(super) fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_prefixes(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Committer {
    /// Creates the missing indexes. Creates either all of them or none.
    ///
    /// # Errors
    /// An error of [`indexes::add_missing`], duplicate key, documents that cannot be indexed, I/O.
    pub(crate) fn create_indexes(&self, name: &str, indexes: &[Index]) -> Result<()> {
        brief::ensure_may_wait()?;
        let _turn = self.builds.take_turn();
        // An earlier build that failed may have left entries of an index with the same number.
        self.remove_marked()?;
        loop {
            if self.write(Durability::Full, |overlay| {
                create_small(overlay, name, indexes)
            })? {
                return Ok(());
            }
            let built = self.build_beside_others(name, indexes);
            if !matches!(built, Ok(true)) {
                // Ignore the error: the next drop or build tries again.
                let _ = self.remove_marked();
            }
            if built? {
                return Ok(());
            }
        }
    }

    /// Builds indexes beside concurrent writes. Returns `false` if the build must start again, because the collection was dropped or its
    /// indexes have changed meanwhile.
    fn build_beside_others(&self, name: &str, indexes: &[Index]) -> Result<bool> {
        let state = self.state();
        let scratch = self.new_overlay(&state.view, state.catalog.clone(), &state.log);
        let Some((collection, added)) = added_indexes(scratch, name, indexes)? else {
            return Ok(false);
        };
        drop(state);
        let marks: Vec<_> = added
            .iter()
            .flat_map(|index| {
                let markers = key::multikey_prefix(collection.id, index.id);
                [index.prefix.clone(), markers]
            })
            .collect();
        let _prefixes = BuildPrefixes::register(&self.builds, &marks);
        self.write(Durability::Full, |overlay| {
            overlay.put_removal_marks(&marks);
            Ok(())
        })?;
        let (since, start) = OpenTransaction::begin(self)?;
        let mut build = IndexBuild {
            committer: self,
            collection,
            added,
            marks,
            start,
            since,
        };
        build.fill()?;
        for _ in 0..MAX_SHARED_ROUNDS {
            match build.finish(name, indexes, Finish::BesideOthers)? {
                Finished::Built => return Ok(true),
                Finished::StartAgain => return Ok(false),
                Finished::TooManyChanges => {}
            }
            build.catch_up(&self.take_large_turn())?;
        }
        let turn = self.take_large_turn();
        turn.claim(None, ClaimedKeys::All);
        self.wait_until_committed()?;
        build.catch_up(&turn)?;
        let finished = build.finish(name, indexes, Finish::Alone)?;
        Ok(finished == Finished::Built)
    }
}

/// How a build ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Finish {
    /// Only if the rest takes a short time.
    BesideOthers,
    /// No other write runs.
    Alone,
}

/// The result of the last step of a build.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Finished {
    Built,
    TooManyChanges,
    /// The collection was dropped, or its indexes have changed.
    StartAgain,
}

/// Says which prefixes belong to the running build, until the drop.
struct BuildPrefixes<'b>(&'b IndexBuilds);

impl<'b> BuildPrefixes<'b> {
    fn register(builds: &'b IndexBuilds, prefixes: &[Vec<u8>]) -> BuildPrefixes<'b> {
        *builds.lock_prefixes() = prefixes.to_vec();
        BuildPrefixes(builds)
    }
}

impl Drop for BuildPrefixes<'_> {
    fn drop(&mut self) {
        self.0.lock_prefixes().clear();
    }
}

/// A running build.
struct IndexBuild<'c> {
    committer: &'c Committer,
    collection: Arc<Collection>,
    /// The new indexes.
    added: Vec<Arc<IndexState>>,
    /// The prefixes that are marked for removal.
    marks: Vec<Vec<u8>>,
    /// The entries belong to the documents of this state.
    start: Arc<DatabaseState>,
    /// Knows which documents have changed since.
    since: OpenTransaction<'c>,
}

impl IndexBuild<'_> {
    /// Writes the entries of all documents, in several commits.
    fn fill(&self) -> Result<()> {
        let Collection { id, name, .. } = &*self.collection;
        let documents = &self.start.view;
        for index in &self.added {
            fill_index(*id, name, index, documents, &mut |write| {
                self.commit_entries(&self.committer.take_large_turn(), write)
            })?;
        }
        Ok(())
    }

    /// Writes the entries of the documents that have changed since the last step.
    fn catch_up(&mut self, turn: &LargeTurn<'_>) -> Result<()> {
        let committer = self.committer;
        let (since, next) = OpenTransaction::begin(committer)?;
        // A document that has changed after the new state too does no harm.
        let changed = self.changed_documents(&mut *committer.lock_open_staging()?);
        let old = &self.start.view;
        let new = &next.view;
        self.commit_entries(turn, &|writer| {
            let mut added = self.added.iter();
            added.try_for_each(|index| {
                catch_up_index(&self.collection, index, old, new, &changed, writer)
            })
        })?;
        (self.since, self.start) = (since, next);
        Ok(())
    }

    /// Writes the last entries and adds the indexes to the definition.
    fn finish(&self, name: &str, indexes: &[Index], how: Finish) -> Result<Finished> {
        let committer = self.committer;
        loop {
            let mut stage = committer.lock_open_staging()?;
            let changed = self.changed_documents(&mut stage);
            if how == Finish::BesideOthers && changed.len() > MAX_STAGED_DOCUMENTS {
                return Ok(Finished::TooManyChanges);
            }
            let catalog = stage.catalog().clone();
            let mut overlay = committer.new_overlay(stage.view(), catalog, stage.log());
            let mut add = || self.add_to(&mut overlay, name, indexes, &changed);
            let added = match how {
                Finish::Alone => add(),
                Finish::BesideOthers => brief::run_briefly(MAX_STAGING_TIME, add),
            };
            match added {
                Ok(true) => {}
                Ok(false) => return Ok(Finished::StartAgain),
                Err(error) if error.is_would_block() => return Ok(Finished::TooManyChanges),
                Err(error) => return Err(error),
            }
            let outcome = overlay.finish();
            if how == Finish::BesideOthers && stage.conflicts().must_wait_for_large(&outcome) {
                committer.wait_for_large(stage)?;
                continue;
            }
            committer
                .store
                .check_space(&outcome.changes, stage.view())?;
            let options = CommitOptions::immediate(Durability::Full);
            let added = stage.add_write(outcome.changes, &outcome.events, options)?;
            drop(stage);
            committer.commit_now(&added)?;
            return Ok(Finished::Built);
        }
    }

    /// Adds the indexes to the definition, the last entries, and takes back the marks. Returns `false` if the build must start again.
    fn add_to(
        &self,
        overlay: &mut WriteOverlay,
        name: &str,
        indexes: &[Index],
        changed: &BTreeSet<Arc<[u8]>>,
    ) -> Result<bool> {
        let old = &self.start.view;
        let new = overlay.view().clone();
        let added = indexes::add_missing(overlay, name, indexes)?;
        let collection = overlay.collection_or_create(name)?;
        let numbers = |indexes: &[Arc<IndexState>]| -> Vec<u32> {
            indexes.iter().map(|index| index.id).collect()
        };
        if collection.id != self.collection.id || numbers(&added) != numbers(&self.added) {
            return Ok(false);
        }
        for index in &added {
            catch_up_index(&collection, index, old, &new, changed, overlay)?;
        }
        for mark in &self.marks {
            overlay.remove_removal_mark(mark);
        }
        Ok(true)
    }

    /// The keys of the documents that have changed since the last step.
    fn changed_documents(&self, stage: &mut StagingArea) -> BTreeSet<Arc<[u8]>> {
        let documents = key::record_prefix(self.collection.id);
        let id = self.since.id;
        stage.conflicts().changed_since_begin(id, &documents)
    }

    fn commit_entries(&self, _turn: &LargeTurn<'_>, write: BulkCallback<'_>) -> Result<()> {
        // After a failure, a new value of a mark tells if the commit was written.
        let number: [u8; 8] = rand::random();
        let mut changes = Changes::new();
        if let Some(prefix) = self.marks.first() {
            let mark = key::for_removal(prefix);
            changes.insert(mark.into(), Some(number.as_slice().into()));
        }
        let commit = LargeCommit {
            bulk: Some(write),
            space: SpaceUse::Grows,
            ..LargeCommit::of(&changes)
        };
        self.committer.commit_large(&commit, Some(self.since.id))
    }
}

/// Creates the missing indexes of a collection with few documents. Returns `false` and changes nothing if there are many.
fn create_small(overlay: &mut WriteOverlay, name: &str, indexes: &[Index]) -> Result<bool> {
    let before = overlay.savepoint();
    let added = indexes::add_missing(overlay, name, indexes)?;
    let collection = overlay.collection_or_create(name)?;
    if !added.is_empty() && has_many_documents(overlay.view(), &collection)? {
        overlay.restore_savepoint(before);
        return Ok(false);
    }
    overlay.fill_indexes(&collection, &added)?;
    Ok(true)
}

/// The collection with the new indexes, and the new indexes.
type AddedIndexes = (Arc<Collection>, Vec<Arc<IndexState>>);

/// Returns the missing indexes and their collection; `None` if none is missing.
fn added_indexes(
    mut overlay: WriteOverlay,
    name: &str,
    indexes: &[Index],
) -> Result<Option<AddedIndexes>> {
    let added = indexes::add_missing(&mut overlay, name, indexes)?;
    let collection = overlay.collection_or_create(name)?;
    Ok((!added.is_empty()).then_some((collection, added)))
}

/// Whether the build of an index takes long: the collection has many documents, or large documents.
fn has_many_documents(view: &StoreView, collection: &Collection) -> Result<bool> {
    let documents = KeyRange::with_prefix(&key::record_prefix(collection.id));
    let mut bytes = 0;
    for (count, entry) in view.range(documents, Direction::Ascending).enumerate() {
        bytes += entry?.1.len();
        if count >= MAX_STAGED_DOCUMENTS || bytes > MAX_STAGED_BYTES {
            return Ok(true);
        }
    }
    Ok(false)
}
