//! Maintenance of overflow arrays: the owner document has the resident elements, and chunk documents have the spilled elements.
//!
//! An owner with spilled elements has a manifest: the chunks (a generation, and numbers below the next number), a frozen block
//! that becomes the next chunk, and a tail. A push to the end is a single operation. Without a manifest and with enough capacity,
//! the push goes to the resident array, and otherwise to the tail. A full tail is frozen as a block, which then becomes a chunk.
//!
//! Every further kind of change runs as pending work, and an array has a single pending work at a time. The first operation
//! changes the owner and records the work there (`overflow/manifest.rs`). Any process can complete the work
//! (`arrays/array_work.rs`), but the filling of chunks is completed by the writer alone: other processes reclaim the chunks.
//! A late step has no effect: the token or the version in its condition no longer matches. Frozen blocks and unpublished chunks
//! never change, so repeated writes by several processes are harmless.
//!
//! Elements can be sorted by a field (`overflow/order.rs`). The resident elements are then the first in that order.
//!
//! New chunks are provisional until the owner has adopted the chunks (`arrays/chunks.rs`). Recovery finds expired provisional
//! chunks and confirms or deletes each chunk by the state of its owner. This is safe because generations and tokens are never
//! reused.

mod array_work;
mod check;
mod chunks;
mod delete;
mod fold;
mod footprint;
mod insert;
mod recover;
mod rewrite;
mod update;

use bson::{Bson, RawBson, RawDocument, RawDocumentBuf, doc};

use array_work::{ArrayHandle, write_attempts};
pub(crate) use check::{
    ArrayFinding, ArrayProblem, check_arrays, delete_orphan, find_orphan_chunks, repair_array,
};
pub(crate) use fold::{FoldOutcome, fold_array};

use super::{
    Footprint, WriteOperation,
    maintainer::{DeclaredIndexes, DeleteFollowUp, Maintainer, WriteContext, WriteFuture},
    metadata_update::to_raw_document,
};
use crate::{
    Result,
    backend::{
        BoxFuture,
        operation::{Direction, Index, Stage},
    },
    metadata::overflow::{ABANDONED_INSERT, CHUNK_GENERATION, PROVISIONAL_LEASE},
    overflow::{
        capacity,
        manifest::{self, ArrayWork},
        max_tail_elements, order, read,
    },
    pending::{expired::RecoveryReport, record::PendingKind},
    schema::{Model, OverflowField},
    session::access::ModelAccess,
    write::footprint::update_touches,
};

/// The maximum size of a chunk, and of the data that one update names. Far below the 16 MiB limit of a document.
const MAX_CHUNK_BYTES: usize = 256 * 1024;

/// The maximum number of attempts when concurrent writes change the same array.
const MAX_WRITE_ATTEMPTS: u32 = 100;

/// Overflow arrays.
#[derive(Debug)]
pub(super) struct Arrays;

impl Maintainer for Arrays {
    fn stage(&self) -> Stage {
        Stage::ARRAYS
    }

    /// Whether a write changes arrays and so needs more than one operation.
    fn is_affected(&self, cx: &WriteContext, footprint: &Footprint<'_>) -> bool {
        if cx.model.overflows.is_empty() {
            return false;
        }
        match footprint {
            Footprint::Inserts(documents) => insert::needs_rearranging(cx.model, documents),
            Footprint::Changes(change) => footprint::changes_array(cx.model, change),
            // A stage of its own deletes the chunks.
            Footprint::Removes => false,
        }
    }

    fn reasons(&self, access: ModelAccess<'_>, footprint: &Footprint<'_>) -> Vec<String> {
        let is_affected = |field: &&OverflowField| match footprint {
            Footprint::Inserts(documents) => insert::needs_rearranging(access.model, documents),
            Footprint::Changes(change) => {
                let update = change.update();
                update.is_some_and(|update| update_touches(update, field.stored))
            }
            Footprint::Removes => true,
        };
        let fields = access.model.overflows.iter().filter(is_affected);
        let reason = |field: &OverflowField| format!("`{}` is an overflow array", field.stored);
        fields.map(reason).collect()
    }

    fn run(&'static self, cx: WriteContext, mut write: WriteOperation) -> WriteFuture {
        Box::pin(async move {
            match write.documents_to_insert() {
                Some(documents) => {
                    insert::ensure_elements_fit(cx.model, documents)?;
                    insert::run_insert(cx, write).await
                }
                None => update::run_update(cx, write).await,
            }
        })
    }

    fn managed_paths(&self, model: &'static Model) -> Vec<String> {
        let fields = model.overflows.iter();
        fields.map(|field| field.stored.to_owned()).collect()
    }

    fn add_indexes(&self, _models: &[&'static Model], declared: &mut Vec<DeclaredIndexes>) {
        let mut chunk_indexes = Vec::new();
        for (model, indexes) in &mut *declared {
            for field in model.overflows {
                indexes.push(Index::sparse_on(
                    PendingKind::overflow_array(field).lease_path(),
                ));
                let ascending = |path: &str| (path.to_owned(), Direction::Ascending);
                let in_order = [field.owner, CHUNK_GENERATION, field.seq].map(ascending);
                let provisional = Index::sparse_on(PROVISIONAL_LEASE);
                let indexes_of_chunks = vec![Index::new(in_order.to_vec()), provisional];
                chunk_indexes.push((field.chunks, indexes_of_chunks));
            }
        }
        declared.extend(chunk_indexes);
    }

    fn pending_kinds(&self, access: ModelAccess<'_>) -> Vec<(&'static Model, PendingKind)> {
        let model = access.model;
        let arrays = model.overflows.iter();
        let arrays = arrays.map(|field| (model, PendingKind::overflow_array(field)));
        let chunks = model.overflows.iter();
        let chunks = chunks.map(|field| (field.chunks, PendingKind::PROVISIONAL_CHUNK));
        arrays.chain(chunks).collect()
    }

    fn recover<'a>(
        &'a self,
        access: ModelAccess<'a>,
        report: &'a mut RecoveryReport,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(recover::recover_arrays(access, report))
    }

    fn delete_follow_up(
        &self,
        _models: &[&'static Model],
        model: &'static Model,
    ) -> DeleteFollowUp {
        match model.overflows.is_empty() {
            true => DeleteFollowUp::None,
            false => DeleteFollowUp::WithinTransaction,
        }
    }

    fn delete_parts<'a>(
        &'a self,
        full_access: ModelAccess<'a>,
        filter: &'a RawDocument,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(delete::delete_chunks_of_matching(full_access, filter))
    }

    fn complete_element_change<'a>(
        &'a self,
        access: ModelAccess<'a>,
        field: &'static OverflowField,
        id: &'a RawBson,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let id = Bson::try_from(id.clone()).map_err(crate::error::from_bson)?;
            let array = ArrayHandle::new(access, field, &id);
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
        })
    }
}

/// Deletes of documents with chunks, unless the reference stage deletes the documents.
#[derive(Debug)]
pub(super) struct ArrayDeletes;

impl Maintainer for ArrayDeletes {
    fn stage(&self) -> Stage {
        Stage::ARRAYS
    }

    fn is_affected(&self, cx: &WriteContext, footprint: &Footprint<'_>) -> bool {
        matches!(footprint, Footprint::Removes) && !cx.model.overflows.is_empty()
    }

    fn run(&'static self, cx: WriteContext, write: WriteOperation) -> WriteFuture {
        Box::pin(delete::delete_with_chunks(cx, write))
    }
}

/// Spills the surplus elements of an array that has too many resident elements. Returns whether the array had surplus elements.
pub(crate) async fn spill_array(
    access: ModelAccess<'_>,
    field: &'static OverflowField,
    id: &Bson,
) -> Result<bool> {
    let array = ArrayHandle::new(access, field, id);
    rewrite::spill_or_sort(&array).await
}

/// Returns the filter for chunks that need recovery. A record of an abandoned insert expires by itself.
pub(crate) fn unfinished_chunks_filter() -> Result<RawDocumentBuf> {
    to_raw_document(&doc! { ABANDONED_INSERT: { "$exists": false } })
}
