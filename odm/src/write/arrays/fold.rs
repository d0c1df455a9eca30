//! Fold: moves spilled elements back into the owner document when all elements fit again.

use bson::{Bson, doc, oid::ObjectId};

use super::{
    ArrayHandle,
    array_work::{pause_after_change, put_all_resident, write_attempts},
    capacity::{resident_unchanged, version_unchanged},
    chunks,
    manifest::{ArrayState, ArrayWork, ArrayWorkKind, Manifest, total_element_bytes},
    order::sort_if_ordered,
    read,
};
use crate::{
    Result, metadata::overflow::TAIL, schema::OverflowField, session::access::ModelAccess,
    write::footprint::put_operator,
};

/// The result of a fold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoldOutcome {
    /// No elements were spilled, or the document does not exist.
    NothingSpilled,
    /// All elements are resident again.
    Folded,
    /// The array has too many elements, or the elements are too large.
    TooLong,
}

/// Returns the maximum number of elements to fold: three quarters of `after`, so that the next push does not spill again.
fn max_folded_elements(field: &OverflowField) -> usize {
    (field.max_resident * 3).div_ceil(4)
}

/// Returns the maximum size in bytes of the elements to fold.
fn max_folded_bytes(field: &OverflowField) -> usize {
    field.max_resident_bytes / 4 * 3
}

/// Folds an array if it is small enough.
pub(crate) async fn fold_array(
    access: ModelAccess<'_>,
    field: &'static OverflowField,
    id: &Bson,
) -> Result<FoldOutcome> {
    let array = ArrayHandle::new(access, field, id);
    let mut cache = ChunkCache::default();
    for attempt in write_attempts() {
        let Some(owner) = array.read_state().await? else {
            return Ok(FoldOutcome::NothingSpilled);
        };
        let Some(manifest) = &owner.manifest else {
            return Ok(FoldOutcome::NothingSpilled);
        };
        if manifest.work.is_some() {
            array.complete_or_wait(owner, attempt).await?;
            continue;
        }
        let elements = match owner.len() <= max_folded_elements(field) as u64 {
            true => cache.all_elements(&array, &owner, manifest).await?,
            false => None,
        };
        let Some(elements) = elements else {
            // The first elements of the sort order must be resident.
            let can_refill = field.order.is_some() && has_room_for_more(field, &owner)?;
            let needs_rewrite = can_refill || is_mostly_empty(&array, &owner, manifest).await?;
            if needs_rewrite && !super::rewrite::rewrite_chunks(&array, &owner).await? {
                pause_after_change(attempt).await;
                continue;
            }
            return Ok(FoldOutcome::TooLong);
        };
        if write_folded(&array, &owner, manifest, elements).await? {
            return Ok(FoldOutcome::Folded);
        }
        pause_after_change(attempt).await;
    }
    Err(array.contention_error())
}

/// The elements read from chunks.
#[derive(Default)]
struct ChunkCache {
    /// The generation and the version of the array at the time of the read. A push to the tail changes neither.
    read_at: Option<(Option<ObjectId>, i64)>,
    elements: Vec<Bson>,
}

impl ChunkCache {
    /// Returns all elements of an array, or `None` if they are too many or too large to fold. Elements in chunks are read again
    /// only when the chunks have changed.
    async fn all_elements(
        &mut self,
        array: &ArrayHandle<'_>,
        owner: &ArrayState,
        manifest: &Manifest,
    ) -> Result<Option<Vec<Bson>>> {
        let read_at = Some((manifest.generation, manifest.version));
        if self.read_at != read_at {
            *self = Self::default();
            if let Some(filter) = chunks::live_chunks_filter(array.field, owner) {
                let unchunked_bytes = total_element_bytes(
                    owner.resident.iter().chain(read::buffered_elements(owner)),
                )?;
                let chunk_bytes = array.chunks().sum_element_bytes(&filter).await?;
                if unchunked_bytes as i64 + chunk_bytes > max_folded_bytes(array.field) as i64 {
                    return Ok(None);
                }
                self.elements = array.chunks().read_elements(&filter).await?;
            }
            self.read_at = read_at;
        }
        let mut elements = owner.resident.clone();
        elements.extend(
            self.elements
                .iter()
                .chain(read::buffered_elements(owner))
                .cloned(),
        );
        sort_if_ordered(array.field, &mut elements);
        let fits = elements.len() <= max_folded_elements(array.field)
            && total_element_bytes(&elements)? <= max_folded_bytes(array.field);
        Ok(fits.then_some(elements))
    }
}

/// Returns whether the document could hold more elements. An array that is near its byte limit does not count, because a retry
/// would not change that.
fn has_room_for_more(field: &OverflowField, owner: &ArrayState) -> Result<bool> {
    Ok(owner.resident.len() < max_folded_elements(field)
        && total_element_bytes(&owner.resident)? < field.max_resident_bytes / 2)
}

/// Returns whether most chunks have no elements left.
async fn is_mostly_empty(
    array: &ArrayHandle<'_>,
    owner: &ArrayState,
    manifest: &Manifest,
) -> Result<bool> {
    let Some(mut filter) = chunks::live_chunks_filter(array.field, owner) else {
        return Ok(false);
    };
    let first = format!("{}.0", array.field.elements);
    filter.insert(first, doc! { "$exists": false });
    let empty = array.chunks().count(&filter).await?;
    Ok(empty * 2 > manifest.next_seq)
}

/// Writes all elements into the owner document, unless the array has changed since the read.
async fn write_folded(
    array: &ArrayHandle<'_>,
    owner: &ArrayState,
    manifest: &Manifest,
    elements: Vec<Bson>,
) -> Result<bool> {
    let field = array.field;
    let work = ArrayWork {
        swept_generation: manifest.generation,
        ..array.new_work(ArrayWorkKind::Sweep)
    };
    let mut condition = version_unchanged(field, manifest);
    condition.insert(field.pending_change, doc! { "$exists": false });
    // A push to the tail changes no version, so the condition compares the tail.
    let tail = doc! { "$eq": manifest.tail.clone() };
    condition.insert(field.manifest_path(TAIL), tail);
    condition.extend(resident_unchanged(field, &owner.resident));
    let mut update = doc! {};
    put_all_resident(field, &work, &elements, &mut update)?;
    put_operator(&mut update, "$set", field.stored, elements);
    if !array.update_owner(condition, update).await? {
        return Ok(false);
    }
    array.complete_own_work(work.token).await?;
    Ok(true)
}
