//! The removal of dropped data.
//!
//! A drop of an index or a collection changes the definition, and marks the prefixes of the keys for removal. Nobody reads or
//! writes these keys any more. The thread of the drop then removes them, beside the commits of other writes. If the process dies
//! before, the marks stay, and the next drop or build of an index removes the keys. The numbers of dropped collections and indexes are
//! not used again meanwhile.

use super::Committer;
use crate::brief;
use crate::catalog::Catalog;
use crate::error::Result;
use crate::key;
use crate::overlay::WriteOverlay;
use crate::store::{Changes, KeyRange, LargeCommit, StoreView};

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
        let _turn = self.take_large_turn();
        let marked = key::removal_marks(&self.state().view)?;
        let marked: Vec<_> = marked
            .into_iter()
            .filter(|prefix| !self.builds.has(prefix))
            .collect();
        if marked.is_empty() {
            return Ok(());
        }
        let mut changes = Changes::new();
        for prefix in &marked {
            changes.insert(key::for_removal(prefix).into(), None);
        }
        self.commit_large(&LargeCommit {
            changes: &changes,
            bulk: Some(&|writer| {
                let mut prefixes = marked.iter();
                prefixes.try_for_each(|prefix| writer.remove_range(&KeyRange::with_prefix(prefix)))
            }),
            validate: None,
        })
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
