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
use crate::durability::Durability;
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
        let result = self.write(Durability::Full, operation)?;
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
        for prefix in &marked {
            while self.remove_part(prefix)? {}
        }
        Ok(())
    }

    /// Removes the next keys with a marked prefix. The mark goes with the last key. Returns whether keys are left.
    ///
    /// Another thread may have removed the mark, and a build of an index may use the prefix again. The keys with the prefix stay then.
    fn remove_part(&self, prefix: &[u8]) -> Result<bool> {
        // A build writes entries only in its turn.
        let _turn = self.take_large_turn();
        let mark = key::for_removal(prefix);
        let view = self.state().view.clone();
        let is_building = self
            .builds
            .lock_prefixes()
            .iter()
            .any(|other| other == prefix);
        if is_building || view.get(&mark)?.is_none() {
            return Ok(false);
        }
        let range = KeyRange::with_prefix(prefix);
        let mut keys = view.range(range.clone(), Direction::Ascending);
        let last = keys.by_ref().take(KEYS_PER_COMMIT).last().transpose()?;
        let is_rest = keys.next().transpose()?.is_none();
        drop(keys);
        let part = last.map(|(key, _)| {
            let mut end = key.to_vec();
            end.push(0);
            KeyRange {
                end: Some(end),
                ..range
            }
        });
        // On a full disk, the commit needs the pages that the snapshot keeps.
        drop(view);
        let mut changes = Changes::new();
        if is_rest {
            changes.insert(mark.into(), None);
        }
        let commit = LargeCommit {
            bulk: Some(&|writer| {
                let part = part.as_ref();
                part.map_or(Ok(()), |part| writer.remove_range(part))
            }),
            space: SpaceUse::Frees,
            ..LargeCommit::of(&changes)
        };
        self.commit_large(&commit, None)?;
        Ok(!is_rest)
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

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;
    use crate::command::insert;
    use crate::store::memory::MemoryStore;

    fn keys(committer: &Committer, prefix: &[u8]) -> usize {
        let range = KeyRange::with_prefix(prefix);
        committer
            .state()
            .view
            .range(range, Direction::Ascending)
            .count()
    }

    /// The prefix of a failed build is marked, and the next build uses the prefix again.
    #[test]
    fn the_keys_of_a_build_and_keys_without_a_mark_stay() {
        let committer = Committer::open(Box::new(MemoryStore::default())).unwrap();
        let prefix = committer
            .write(Durability::Full, |overlay| {
                let documents = [rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }];
                insert::run_insert(overlay, "c", &documents, true)?.into_result()?;
                Ok(key::record_prefix(overlay.collection_or_create("c")?.id))
            })
            .unwrap();
        // Another thread has removed the mark.
        assert!(!committer.remove_part(&prefix).unwrap());
        let mark = || {
            let marked = committer.write(Durability::Full, |overlay| {
                overlay.put_removal_marks(std::slice::from_ref(&prefix));
                Ok(())
            });
            marked.unwrap();
        };
        mark();
        committer.builds.lock_prefixes().push(prefix.clone());
        committer.remove_marked().unwrap();
        assert!(!committer.remove_part(&prefix).unwrap());
        assert_eq!(keys(&committer, &prefix), 2);
        committer.builds.lock_prefixes().clear();
        committer.remove_marked().unwrap();
        assert_eq!(keys(&committer, &prefix), 0);
        assert!(
            key::removal_marks(&committer.state().view)
                .unwrap()
                .is_empty()
        );
        // A mark without keys.
        mark();
        committer.remove_marked().unwrap();
        assert!(
            key::removal_marks(&committer.state().view)
                .unwrap()
                .is_empty()
        );
    }
}
