//! Maintenance of overflow arrays: the owner document has the resident elements, and chunk documents have the spilled elements.
//!
//! An owner with spilled elements has a manifest: the chunks (a generation, and numbers below the next number), a frozen block
//! that becomes the next chunk, and a tail. A push to the end is a single operation. Without a manifest and with enough capacity,
//! the push goes to the resident array, and otherwise to the tail. A full tail is frozen as a block, which then becomes a chunk.
//!
//! Every further kind of change runs as pending work, and an array has a single pending work at a time. The first operation
//! changes the owner and records the work there (`overflow/manifest.rs`). Any process can complete the work
//! (`overflow/array_work.rs`), but the filling of chunks is completed by the writer alone: other processes reclaim the chunks.
//! A late step has no effect: the token or the version in its condition no longer matches. Frozen blocks and unpublished chunks
//! never change, so repeated writes by several processes are harmless.
//!
//! Elements can be sorted by a field (`overflow/order.rs`). The resident elements are then the first in that order.
//!
//! New chunks are provisional until the owner has adopted the chunks (`overflow/chunks.rs`). Recovery finds expired provisional
//! chunks and confirms or deletes each chunk by the state of its owner. This is safe because generations and tokens are never
//! reused.

mod array_work;
mod capacity;
mod check;
mod chunks;
mod delete;
mod element_search;
mod fold;
mod footprint;
mod insert;
mod recover;
mod rewrite;
mod update;

use bson::{Bson, RawBson, RawDocumentBuf, doc};

use array_work::{ArrayHandle, write_attempts};
pub(crate) use capacity::too_long_or_large;
pub(super) use capacity::{nothing_spilled, resident_room};
pub(crate) use check::{
    ArrayFinding, ArrayProblem, check_arrays, delete_orphan, find_orphan_chunks, repair_array,
};
pub(super) use chunks::split_for_pulls;
pub(super) use delete::{delete_chunks_of_ids, delete_chunks_of_matching, delete_with_chunks};
pub(crate) use element_search::any_element_condition;
pub(super) use element_search::owners_with_element;
pub(crate) use fold::{FoldOutcome, fold_array};
pub(crate) use insert::resident_positions;
pub(super) use recover::recover_arrays;

use super::{
    Footprint, PendingKind, SourceCache, WriteOperation, WriteOutcome,
    link::{self, rule_of_array},
    metadata_update::to_raw_document,
    run_from_copies,
};
use crate::{
    Result,
    access::Access,
    backend::{
        BoxFuture,
        operation::{Direction, Index, UpdateOperation},
    },
    maintain::footprint::update_touches,
    metadata::overflow::{
        ABANDONED_INSERT, BLOCK, CHUNK_GENERATION, PROVISIONAL, PROVISIONAL_LEASE, TAIL,
    },
    overflow::{
        ArrayReader,
        manifest::{self, ArrayWork},
        max_tail_elements, order, read,
    },
    schema::{Model, OverflowField},
};

/// The maximum size of a chunk, and of the data that one update names. Far below the 16 MiB limit of a document.
const MAX_CHUNK_BYTES: usize = 256 * 1024;

/// The maximum number of attempts when concurrent writes change the same array.
const MAX_WRITE_ATTEMPTS: u32 = 100;

/// Returns whether a write changes overflow arrays and so needs more than one operation.
pub(super) fn is_affected(model: &Model, footprint: &Footprint<'_>) -> bool {
    if model.overflows.is_empty() {
        return false;
    }
    match footprint {
        Footprint::Inserts(documents) => insert::needs_rearranging(model, documents),
        Footprint::Changes(change) => footprint::changes_array(model, change),
        // A delete handles the chunks on a path of its own.
        Footprint::Removes => false,
    }
}

/// Returns why a write needs more than one operation for overflow arrays.
pub(super) fn array_reasons(model: &Model, footprint: &Footprint<'_>) -> Vec<String> {
    let is_affected = |field: &&OverflowField| match footprint {
        Footprint::Inserts(documents) => insert::needs_rearranging(model, documents),
        Footprint::Changes(change) => {
            let update = change.update();
            update.is_some_and(|update| update_touches(update, field.stored))
        }
        Footprint::Removes => true,
    };
    let fields = model.overflows.iter().filter(is_affected);
    let reason = |field: &OverflowField| format!("`{}` is an overflow array", field.stored);
    fields.map(reason).collect()
}

/// Runs a write that changes overflow arrays.
pub(super) fn run_write(
    access: Access,
    model: &'static Model,
    mut write: WriteOperation,
    sources: SourceCache,
) -> BoxFuture<'static, Result<WriteOutcome>> {
    Box::pin(async move {
        match write.documents_to_insert() {
            Some(documents) => {
                insert::ensure_elements_fit(model, documents)?;
                insert::run_insert(access, model, write, sources).await
            }
            None => update::run_update(access, model, write, sources).await,
        }
    })
}

/// Changes an array as follow-up work of another write. The future is boxed because such a write can lead back here.
pub(super) fn run_follow_up(
    access: &Access,
    model: &'static Model,
    update: UpdateOperation,
) -> BoxFuture<'static, Result<WriteOutcome>> {
    let access = access.clone();
    Box::pin(async move {
        let done = update::run_update(access, model, update.into(), SourceCache::default());
        done.await
    })
}

/// Returns all elements of an array in order. Returns none without a document.
pub(super) async fn read_all_elements(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    filter: RawDocumentBuf,
) -> Result<Vec<Bson>> {
    let elements = array_reader(access, model, field, filter)
        .read_all()
        .await?;
    Ok(elements.unwrap_or_default())
}

/// Returns the given values that are elements of the array.
pub(super) async fn values_present(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    filter: RawDocumentBuf,
    values: &[Bson],
) -> Result<Vec<Bson>> {
    array_reader(access, model, field, filter)
        .values_present(values)
        .await
}

/// Returns a reader of the array in the document that the filter matches.
fn array_reader(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    filter: RawDocumentBuf,
) -> ArrayReader {
    ArrayReader {
        access: access.clone(),
        model,
        field,
        filter,
    }
}

/// Completes a pending element change, so that spilled elements agree with the resident ones.
pub(super) async fn complete_element_change(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    id: &RawBson,
) -> Result<()> {
    let id = Bson::try_from(id.clone()).map_err(crate::error::from_bson)?;
    let array = ArrayHandle {
        access,
        model,
        field,
        id: &id,
    };
    for attempt in write_attempts() {
        let owner = array.read_state().await?;
        match owner.filter(|owner| {
            owner
                .pending_work()
                .is_some_and(ArrayWork::is_element_change)
        }) {
            None => return Ok(()),
            Some(owner) => array.complete_or_wait(owner, attempt).await?,
        }
    }
    Err(array.contention_error())
}

/// Returns the maximum number of elements that one write adds to a set.
pub(super) fn max_added_elements(field: &OverflowField) -> usize {
    max_tail_elements(field)
}

/// Returns the declared indexes, and the indexes for the chunks and the pending work of overflow arrays: on the models, and on
/// the chunk collections.
pub(crate) fn with_overflow_indexes(
    mut declared: Vec<(&'static Model, Vec<Index>)>,
) -> Vec<(&'static Model, Vec<Index>)> {
    let mut chunk_indexes = Vec::new();
    for (model, indexes) in &mut declared {
        for field in model.overflows {
            indexes.push(Index::sparse_on(
                PendingKind::overflow_array(field).lease_path(),
            ));
            // Without transactions, a delete first writes a tombstone into the document.
            link::add_tombstone_lease_index(indexes);
            let ascending = |path: &str| (path.to_owned(), Direction::Ascending);
            let in_order = [field.owner, CHUNK_GENERATION, field.seq].map(ascending);
            let provisional = Index::sparse_on(PROVISIONAL_LEASE);
            let mut indexes_of_chunks = vec![Index::new(in_order.to_vec()), provisional];
            if rule_of_array(model, field).is_some() {
                // A delete rule finds the referrers among spilled elements by these indexes.
                indexes.push(Index::sparse_on(field.manifest_path(TAIL)));
                indexes.push(Index::sparse_on(field.work_path(BLOCK)));
                indexes_of_chunks.push(Index::new(vec![ascending(field.elements)]));
            }
            chunk_indexes.push((field.chunks, indexes_of_chunks));
        }
    }
    declared.extend(chunk_indexes);
    declared
}

/// Spills the surplus elements of an array that has too many resident elements. Returns whether the array had surplus elements.
pub(crate) async fn spill_array(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    id: &Bson,
) -> Result<bool> {
    let array = ArrayHandle {
        access,
        model,
        field,
        id,
    };
    rewrite::spill_or_sort(&array).await
}

/// Returns the paths that a save must not change.
pub(super) fn unsavable_paths(model: &Model) -> impl Iterator<Item = &'static str> {
    model.overflows.iter().map(|field| field.stored)
}

/// Returns the filter for chunks that need recovery. A record of an abandoned insert expires by itself.
pub(crate) fn unfinished_chunks_filter() -> Result<RawDocumentBuf> {
    to_raw_document(&doc! { ABANDONED_INSERT: { "$exists": false } })
}

/// Returns the chunk collections, with the field that marks a provisional chunk.
pub(crate) fn provisional_chunks(
    model: &Model,
) -> impl Iterator<Item = (&'static Model, PendingKind)> {
    let fields = model.overflows.iter();
    fields.map(|field| (field.chunks, PendingKind(PROVISIONAL)))
}
