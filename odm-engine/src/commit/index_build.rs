//! Builds of indexes beside other writes.
//!
//! An index of a small collection is built under the lock of the staging area. Otherwise:
//!
//! 1. The prefixes of the new entries are [marked for removal](super::removal), so that no entry stays if the process dies.
//! 2. The entries are written for the documents of one state, in a large commit. The index is not part of the definition of the
//!    collection, so nobody reads the entries, and no write maintains them.
//! 3. The entries of documents that have changed since are written again, until few are left.
//! 4. One commit writes the last entries, adds the index to the definition, and takes the marks back.
//!
//! A transaction tells which documents have changed: it is open during a step, and conflicts with every write of a document. One build
//! runs at a time.

use std::collections::BTreeSet;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::conflicts::ClaimedKeys;
use super::staging::StagingArea;
use super::{BegunTransaction, CommitUrgency, Committer};
use crate::brief;
use crate::catalog::Collection;
use crate::command::indexes;
use crate::direction::Direction;
use crate::error::Result;
use crate::index::{Index, IndexState};
use crate::key;
use crate::overlay::{WriteOverlay, catch_up_index, fill_index};
use crate::store::{BulkCallback, Changes, KeyRange, LargeCommit, Snapshot, StoreView};

/// The largest number of documents that a build visits under the lock of the staging area.
const MAX_STAGED_DOCUMENTS: usize = 200;

/// How often a build catches up beside other writes before it excludes them.
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
    /// Whether a running build writes keys with this prefix.
    pub(super) fn has(&self, prefix: &[u8]) -> bool {
        self.lock_prefixes()
            .iter()
            .any(|building| building == prefix)
    }

    fn lock_prefixes(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
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
        let turn = self.builds.turn.lock();
        let _turn = turn.unwrap_or_else(PoisonError::into_inner);
        // An earlier build that failed may have left entries of an index with the same number.
        self.remove_marked()?;
        loop {
            let is_created = self.write(|overlay| create_small(overlay, name, indexes))?;
            if is_created {
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

    /// Builds indexes beside other writes. Returns `false` if the build must start again, because the collection was dropped or its
    /// indexes have changed meanwhile.
    fn build_beside_others(&self, name: &str, indexes: &[Index]) -> Result<bool> {
        let state = self.state();
        let scratch = self.new_overlay(&state.view, state.catalog.clone(), &state.log);
        let Some((collection, added)) = added_indexes(scratch, name, indexes)? else {
            return Ok(false);
        };
        let marks: Vec<_> = added
            .iter()
            .flat_map(|index| {
                [
                    index.prefix.clone(),
                    key::multikey_prefix(collection.id, index.id),
                ]
            })
            .collect();
        let _running = RunningBuild::new(&self.builds, &marks);
        self.write(|overlay| {
            overlay.put_removal_marks(&marks);
            Ok(())
        })?;
        let mut build = IndexBuild {
            committer: self,
            collection,
            added,
            marks,
            start: self.begin()?,
        };
        build.fill()?;
        for round in 0.. {
            if let Some(is_built) = build.finish(name, indexes)? {
                return Ok(is_built);
            }
            build.catch_up(round >= MAX_SHARED_ROUNDS)?;
        }
        Ok(false)
    }
}

/// Says which prefixes belong to the running build, until the drop.
struct RunningBuild<'b>(&'b IndexBuilds);

impl<'b> RunningBuild<'b> {
    fn new(builds: &'b IndexBuilds, prefixes: &[Vec<u8>]) -> RunningBuild<'b> {
        *builds.lock_prefixes() = prefixes.to_vec();
        RunningBuild(builds)
    }
}

impl Drop for RunningBuild<'_> {
    fn drop(&mut self) {
        self.0.lock_prefixes().clear();
    }
}

/// A build of indexes. The drop ends its transaction.
struct IndexBuild<'c> {
    committer: &'c Committer,
    collection: Arc<Collection>,
    /// The new indexes.
    added: Vec<Arc<IndexState>>,
    /// The prefixes that are marked for removal.
    marks: Vec<Vec<u8>>,
    /// The entries belong to the documents of this state. The transaction knows which documents have changed since.
    start: BegunTransaction,
}

impl IndexBuild<'_> {
    /// Writes the entries of all documents.
    fn fill(&self) -> Result<()> {
        let Collection { id, name, .. } = &*self.collection;
        self.commit_entries(&|writer| {
            let mut added = self.added.iter();
            added.try_for_each(|index| fill_index(*id, name, index, &self.start.state.view, writer))
        })
    }

    /// Writes the entries of the documents that have changed since the last step. With `excludes_others`, other writes wait for the
    /// end of the step.
    fn catch_up(&mut self, excludes_others: bool) -> Result<()> {
        let committer = self.committer;
        let turn = committer.take_large_turn();
        if excludes_others {
            turn.claim(None, ClaimedKeys::All);
            committer.wait_until_durable()?;
        }
        let next = committer.begin()?;
        // A document that has changed after the new state too does no harm.
        let changed = self.changed_documents(&mut *committer.lock_open_staging()?);
        let (old, new) = (&self.start.state.view, &next.state.view);
        let written = self.commit_entries_in_turn(&|writer| {
            let mut added = self.added.iter();
            added.try_for_each(|index| {
                catch_up_index(&self.collection, index, old, new, &changed, writer)
            })
        });
        let ended = match written {
            Ok(()) => mem::replace(&mut self.start, next),
            Err(_) => next,
        };
        committer.abort(&ended);
        written
    }

    /// Writes the last entries and adds the indexes to the definition. Returns `None` if too many documents have changed, and
    /// `Some(false)` if the build must start again.
    fn finish(&self, name: &str, indexes: &[Index]) -> Result<Option<bool>> {
        let committer = self.committer;
        loop {
            let mut stage = committer.lock_open_staging()?;
            let changed = self.changed_documents(&mut stage);
            if changed.len() > MAX_STAGED_DOCUMENTS {
                return Ok(None);
            }
            let view = stage.view().clone();
            let mut overlay = committer.new_overlay(&view, stage.catalog().clone(), stage.log());
            let added = indexes::add_missing(&mut overlay, name, indexes)?;
            let collection = overlay.collection_or_create(name)?;
            let numbers = |indexes: &[Arc<IndexState>]| -> Vec<u32> {
                indexes.iter().map(|index| index.id).collect()
            };
            if collection.id != self.collection.id || numbers(&added) != numbers(&self.added) {
                return Ok(Some(false));
            }
            let old = &self.start.state.view;
            for index in &added {
                catch_up_index(&collection, index, old, &view, &changed, &mut overlay)?;
            }
            for mark in &self.marks {
                overlay.remove_removal_mark(mark);
            }
            let outcome = overlay.finish();
            if stage.conflicts().must_wait_for_large(&outcome) {
                committer.wait_for_large(stage)?;
                continue;
            }
            committer.store.check_space(&outcome.changes, &view)?;
            let staged =
                stage.add_write(outcome.changes, &outcome.events, CommitUrgency::Immediate)?;
            drop(stage);
            committer.make_durable_now(&staged)?;
            return Ok(Some(true));
        }
    }

    /// The keys of the documents that have changed since the last step.
    fn changed_documents(&self, stage: &mut StagingArea) -> BTreeSet<Arc<[u8]>> {
        let documents = key::record_prefix(self.collection.id);
        stage
            .conflicts()
            .changed_since_begin(self.start.id, &documents)
    }

    fn commit_entries(&self, write: BulkCallback<'_>) -> Result<()> {
        let _turn = self.committer.take_large_turn();
        self.commit_entries_in_turn(write)
    }

    fn commit_entries_in_turn(&self, write: BulkCallback<'_>) -> Result<()> {
        // After a failure, a new value of a mark tells if the commit was written.
        let number: [u8; 8] = rand::random();
        let mut changes = Changes::new();
        if let Some(prefix) = self.marks.first() {
            let mark = key::for_removal(prefix);
            changes.insert(mark.into(), Some(number.as_slice().into()));
        }
        self.committer.commit_large(&LargeCommit {
            changes: &changes,
            bulk: Some(write),
            validate: None,
        })
    }
}

impl Drop for IndexBuild<'_> {
    fn drop(&mut self) {
        self.committer.abort(&self.start);
    }
}

/// Creates the missing indexes of a collection with few documents. Returns `false` and changes nothing if there are many.
fn create_small(overlay: &mut WriteOverlay, name: &str, indexes: &[Index]) -> Result<bool> {
    let before = overlay.savepoint();
    let added = indexes::add_missing(overlay, name, indexes)?;
    let collection = overlay.collection_or_create(name)?;
    if !added.is_empty() && has_many_documents(overlay.view(), &collection) {
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

fn has_many_documents(view: &StoreView, collection: &Collection) -> bool {
    let documents = KeyRange::with_prefix(&key::record_prefix(collection.id));
    let documents = view.range(documents, Direction::Ascending);
    documents.take(MAX_STAGED_DOCUMENTS + 1).count() > MAX_STAGED_DOCUMENTS
}
