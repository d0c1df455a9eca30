//! Rewrite: moves all spilled elements, and surplus resident elements, into new chunks.

use bson::{Bson, doc, oid::ObjectId};
use tokio::time::Instant;

use super::{
    array_work::{ArrayHandle, pause_after_change, write_attempts},
    capacity::{can_stay_resident, count_fitting, resident_unchanged, version_unchanged},
    chunks::{self, live_chunks_filter, split_into_chunks},
    manifest::{ArrayState, ArrayWorkKind, array_or_empty},
    order::{ArrayOrder, sort_if_ordered},
};
use crate::{
    Result, error,
    metadata::overflow::{BOUND, COUNT, GENERATION, NEXT},
    schema::OverflowField,
    write::metadata_update::parse_document,
};

/// Spills the surplus resident elements of an array, and sorts an array with a sort order. Returns whether the array had to
/// change.
pub(crate) async fn spill_or_sort(array: &ArrayHandle<'_>) -> Result<bool> {
    for attempt in write_attempts() {
        let Some(owner) = array.read_state().await? else {
            return Ok(false);
        };
        if owner.pending_work().is_some() {
            array.complete_or_wait(owner, attempt).await?;
            continue;
        }
        let is_sorted = is_resident_sorted(array.field, &owner);
        let is_short = can_stay_resident(array.field, &owner.resident)?;
        if is_sorted && is_short {
            return Ok(false);
        }
        let is_changed = match &owner.manifest {
            None if is_short => sort_resident(array, &owner).await?,
            _ => rewrite_chunks(array, &owner).await?,
        };
        if is_changed {
            return Ok(true);
        }
        pause_after_change(attempt).await;
    }
    Err(array.contention_error())
}

/// Returns whether the resident elements are sorted and do not pass the bound.
pub(super) fn is_resident_sorted(field: &OverflowField, owner: &ArrayState) -> bool {
    let Some(order) = ArrayOrder::from_field(field) else {
        return true;
    };
    let is_before = |bound: &Bson| {
        let last = owner.resident.last();
        last.is_none_or(|last| !order.is_after(last, bound))
    };
    let bound = owner.manifest.as_ref().map(|manifest| &manifest.bound);
    order.is_sorted(&owner.resident)
        && bound.is_none_or(|bound| bound.as_ref().is_some_and(is_before))
}

/// Sorts the elements of an array without spilled elements.
async fn sort_resident(array: &ArrayHandle<'_>, owner: &ArrayState) -> Result<bool> {
    let field = array.field;
    let mut sorted = owner.resident.clone();
    sort_if_ordered(field, &mut sorted);
    let mut unchanged = resident_unchanged(field, &owner.resident);
    unchanged.insert(field.manifest, doc! { "$exists": false });
    array
        .update_owner(unchanged, doc! { "$set": { field.stored: sorted } })
        .await
}

/// Writes all spilled elements into new chunks, numbered from 0. Returns false if a concurrent write has changed the array.
pub(super) async fn rewrite_chunks(array: &ArrayHandle<'_>, owner: &ArrayState) -> Result<bool> {
    let field = array.field;
    let work = array.new_work(ArrayWorkKind::Stage);
    let mut unchanged = match &owner.manifest {
        Some(manifest) => version_unchanged(field, manifest),
        None => doc! { field.manifest: { "$exists": false } },
    };
    unchanged.extend(resident_unchanged(field, &owner.resident));
    // From here on, concurrent writes change the document only by pushes to the tail.
    let Some(frozen) = array.begin_work(unchanged, &work, true).await? else {
        return Ok(false);
    };
    let mut spilled = Vec::new();
    if let Some(filter) = live_chunks_filter(field, &frozen) {
        let find = chunks::find_in_order(field, &filter)?;
        let mut cursor = array.access.to(field.chunks).find(find).await?;
        let mut renewed_at = Instant::now();
        loop {
            let batch = cursor.next_batch().await;
            let batch = batch.map_err(error::naming_model(field.chunks))?;
            if batch.is_empty() {
                break;
            }
            for raw in &batch {
                spilled.extend(array_or_empty(parse_document(raw)?.get(field.elements)));
            }
            // Renew the lease during a long read. Otherwise another writer would reclaim the chunks.
            if renewed_at.elapsed() > array.access.lease().renewal_age() {
                if !array.renew_lease(work.token).await? {
                    return Ok(false);
                }
                renewed_at = Instant::now();
            }
        }
    }
    spilled.extend(
        frozen
            .pending_work()
            .into_iter()
            .flat_map(|work| work.block.clone()),
    );
    let order = ArrayOrder::from_field(field);
    let mut resident = owner.resident.clone();
    if let Some(order) = &order {
        resident.append(&mut spilled);
        order.sort_elements(&mut resident);
    }
    let resident_count = count_fitting(field, &[], &resident)?;
    let mut elements = resident.split_off(resident_count.min(resident.len()));
    let bound = order.map(|order| order.bound_between(&resident, &elements));
    elements.append(&mut spilled);
    let count = elements.len() as i64;
    let parts = split_into_chunks(&elements)?;
    let generation = ObjectId::new();
    let batch = array.new_chunks(work.token, generation, 0);
    batch.insert_staged(&parts, Some(array)).await?;
    let swept = frozen.manifest.and_then(|manifest| manifest.generation);
    let published = work.published(&array.access, swept);
    let mut set = doc! {
        field.stored: resident,
        field.pending_change: published.to_document()?,
        field.manifest_path(GENERATION): generation,
        field.manifest_path(NEXT): parts.len() as i64,
        field.manifest_path(COUNT): count,
    };
    if let Some(bound) = bound {
        set.insert(field.manifest_path(BOUND), bound);
    }
    let done = array
        .update_owner(array.work_filter(work.token), doc! { "$set": set })
        .await?;
    array.complete_own_work(work.token).await?;
    Ok(done)
}
