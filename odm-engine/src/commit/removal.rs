//! The removal of dropped data.
//!
//! A drop of an index or a collection changes the definition, and marks the prefixes of the keys for removal. No operation
//! reads or writes these keys any more. The thread of the drop then removes them in parts, beside the commits of small writes. If the process
//! dies before, the marks stay, and the next drop or build of an index removes the keys. The numbers of dropped collections and
//! indexes are not used again meanwhile.

use super::Committer;
use crate::brief;
use crate::catalog::Catalog;
use crate::direction::Direction;
use crate::error::Result;
use crate::key;
use crate::overlay::WriteOverlay;
use crate::store::{Changes, KeyRange, LargeCommit, Snapshot, SpaceUse, StoreView};

/// How many keys one commit removes.
const KEYS_PER_COMMIT: usize = 50_000;

impl Committer {
    /// Runs an operation that drops collections or indexes, and removes their keys. A failed operation changes nothing.
    ///
    /// # Errors
    /// The error of the operation. An error of the removal is no error: the next drop tries again.
    pub(crate) fn drop_data<T>(
        &self,
        operation: impl Fn(&mut WriteOverlay) -> Result<T>,
    ) -> Result<T> {
        brief::ensure_may_wait()?;
        let result = self.write(operation)?;
        let _ = self.remove_marked();
        Ok(result)
    }

    /// Removes the keys with the marked prefixes, except for the keys of running builds of indexes.
    ///
    /// # Errors
    /// I/O.
    pub(super) fn remove_marked(&self) -> Result<()> {
        // Reopens the store after a failure.
        drop(self.lock_open_staging()?);
        let marked = {
            // A build takes back its marks before it takes back its prefixes.
            let building = self.builds.lock_prefixes();
            let mut marked = key::removal_marks(&self.state().view)?;
            marked.retain(|prefix| !building.contains(prefix));
            marked
        };
        if marked.is_empty() {
            return Ok(());
        }
        for prefix in &marked {
            while let Some(part) = self.next_part(prefix)? {
                self.commit_removal(std::slice::from_ref(prefix), Some(&part))?;
            }
        }
        self.commit_removal(&marked, None)
    }

    /// Returns the range of the next keys with a prefix; `None` if no keys are left.
    fn next_part(&self, prefix: &[u8]) -> Result<Option<KeyRange>> {
        let range = KeyRange::with_prefix(prefix);
        let keys = self.state().view.range(range.clone(), Direction::Ascending);
        let Some(last) = keys.take(KEYS_PER_COMMIT).last().transpose()? else {
            return Ok(None);
        };
        let mut end = last.0.to_vec();
        end.push(0);
        let end = Some(end);
        Ok(Some(KeyRange { end, ..range }))
    }

    /// Removes a part of the keys with marked prefixes, or the marks. Another thread may have removed the marks meanwhile, and a build of
    /// an index may use the same prefixes again: then the keys stay.
    fn commit_removal(&self, prefixes: &[Vec<u8>], part: Option<&KeyRange>) -> Result<()> {
        // A build writes entries only in its turn.
        let _turn = self.take_large_turn();
        let mut marks = Changes::new();
        {
            let building = self.builds.lock_prefixes();
            let view = &self.state().view;
            for prefix in prefixes.iter().filter(|prefix| !building.contains(prefix)) {
                let mark = key::for_removal(prefix);
                if view.get(&mark)?.is_some() {
                    marks.insert(mark.into(), None);
                }
            }
        }
        if marks.is_empty() {
            return Ok(());
        }
        let changes = match part {
            Some(_) => Changes::new(),
            None => marks,
        };
        let commit = LargeCommit {
            bulk: Some(&|writer| part.map_or(Ok(()), |part| writer.remove_range(part))),
            space: SpaceUse::Frees,
            ..LargeCommit::of(&changes)
        };
        self.commit_large(&commit, None)
    }
}

/// Returns the first number that no collection has, and no keys that are marked for removal.
pub(super) fn first_free_collection(view: &StoreView, catalog: &Catalog) -> Result<u32> {
    let mut last = catalog.collections().map(|collection| collection.id).max();
    for prefix in key::removal_marks(view)? {
        last = last.max(key::collection_of_prefix(&prefix));
    }
    Ok(last.map_or(0, |id| id.saturating_add(1)))
}
