//! The steps before the first use of a store: the format version, and indexes with outdated collation rules.

use std::sync::Arc;

use crate::catalog::{Catalog, Collection};
use crate::durability::Durability;
use crate::error::{Error, ErrorKind, Result, code};
use crate::key;
use crate::overlay::{WriteOverlay, fill_index};
use crate::store::{
    Changes, CommitError, FORMAT_VERSION, KeyRange, LargeCommit, PAGE_CHECKSUMS_VERSION, SpaceUse,
    Store, StoreView, VALUE_CHECKSUMS_VERSION, read_format_version,
};

/// The format version without checksums. Files of this version stay without checksums.
///
/// A file of an older version is upgraded to this version. Features that the old layout lacks are not used in such a file.
const NO_CHECKSUMS_VERSION: u32 = 2;

/// The oldest format version that this engine reads.
const OLDEST_VERSION: u32 = 1;

/// Rebuilds the indexes whose collation rules have changed since the index was built.
///
/// # Errors
/// Two documents that differ under the old rules of a unique index are equal under the new rules.
pub(super) fn rebuild_outdated(store: &dyn Store) -> Result<()> {
    let view = StoreView::new(store.snapshot()?, Changes::new());
    let catalog = Catalog::load(&view)?;
    let mut overlay = WriteOverlay::new(&view, catalog.clone(), Arc::default(), false);
    let mut outdated = Vec::new();
    for collection in catalog.collections() {
        for state in &collection.indexes {
            if state.rules == state.current_rules() {
                continue;
            }
            // An earlier iteration may have changed the definition of this collection.
            let Some(collection) = overlay.collection(&collection.name) else {
                continue;
            };
            overlay.set_current_rules(&collection, state)?;
            outdated.push((collection, state));
        }
    }
    let changes = overlay.finish().changes;
    if changes.is_empty() {
        return Ok(());
    }
    if store.is_read_only() {
        return Err(Error::outdated_collation());
    }
    let committed = store.commit_large(&LargeCommit {
        bulk: Some(&|writer| {
            for (collection, state) in &outdated {
                writer.remove_range(&KeyRange::with_prefix(&state.prefix))?;
                let Collection { id, name, .. } = &**collection;
                fill_index(*id, name, state, &view, &mut |write| write(writer))?;
            }
            Ok(())
        }),
        space: SpaceUse::Grows,
        ..LargeCommit::of(&changes)
    });
    store.end_large_commit();
    let committed = committed.map_err(CommitError::into_error);
    committed.map_err(|error| match error.duplicate_key() {
        Some(duplicate) => {
            collation_duplicate_error(duplicate.collection(), duplicate.index(), &error)
        }
        None => error,
    })
}

fn collation_duplicate_error(collection: &str, index: &str, error: &Error) -> Error {
    let message = format!(
        "the collation rules of the unique index {index} of {collection} have changed with this version of the \
         program, and two documents are equal under the new rules; the file is unchanged: open it with the previous version, \
         and change a document or drop the index ({error})"
    );
    Error::with_server_code(code::DUPLICATE_KEY, message)
}

/// Writes the format version of a new store, and upgrades the oldest version.
///
/// # Errors
/// Newer format, damaged, I/O.
pub(super) fn check_format(store: &dyn Store) -> Result<()> {
    let mut view = StoreView::new(store.snapshot()?, Changes::new());
    let version = read_format_version(&view)?;
    let mut write_version = |version: u32| {
        view.put(key::for_format_version(), version.to_be_bytes());
        let committed = store.commit(view.changes(), Durability::Full);
        committed.map_err(CommitError::into_error)
    };
    match version {
        None => write_version(store.new_format()),
        Some(
            FORMAT_VERSION
            | PAGE_CHECKSUMS_VERSION
            | VALUE_CHECKSUMS_VERSION
            | NO_CHECKSUMS_VERSION,
        ) => Ok(()),
        // The newer version keeps older engines from writes. Without writes, the file may keep its version.
        Some(OLDEST_VERSION..NO_CHECKSUMS_VERSION) if store.is_read_only() => Ok(()),
        Some(OLDEST_VERSION..NO_CHECKSUMS_VERSION) => write_version(NO_CHECKSUMS_VERSION),
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
