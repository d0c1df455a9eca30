//! Integrity check of overflow arrays: chunks must match the manifests of their owners.

use std::ops::RangeInclusive;

use bson::{Bson, Document, RawDocumentBuf, doc};

use super::{
    ArrayHandle,
    chunks::{Chunks, live_chunks_filter},
    manifest::{ArrayState, integer_or_zero},
    order::ArrayOrder,
    read,
};
use crate::{
    Result,
    backend::operation::Stage,
    metadata::{
        self, Metadata,
        overflow::{COUNT, ChunkMetadata, PROVISIONAL, VERSION},
    },
    schema::OverflowField,
    session::{
        access::{ModelAccess, find_matching},
        retry,
    },
    write::metadata_update::{parse_document, to_raw_document},
};

/// A problem of one overflow array.
#[derive(Debug, Clone)]
pub(crate) struct ArrayFinding {
    /// The position of the document in its batch.
    pub(crate) document: usize,
    pub(crate) field: &'static OverflowField,
    pub(crate) problem: ArrayProblem,
}

/// The kind of a problem, with the numbers for the report.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ArrayProblem {
    /// The flag for spilled elements disagrees with the manifest.
    Flag(bool),
    /// The resident elements are too many or too large. Contains their number.
    Resident(usize),
    /// The recorded and the actual number of elements in chunks.
    Count(i64, i64),
    /// A range of chunk numbers, and how many chunks have each of these numbers instead of exactly one.
    ChunkNumbers(RangeInclusive<i64>, usize),
    /// The resident elements are not sorted, or are not the first of all elements.
    Order,
}

/// Checks the arrays of a batch of documents. An array with pending work is skipped.
pub(crate) async fn check_arrays(
    access: ModelAccess<'_>,
    batch: &[RawDocumentBuf],
) -> Result<Vec<ArrayFinding>> {
    let mut findings = Vec::new();
    for field in access.model.overflows {
        for (document, raw) in batch.iter().enumerate() {
            let owner = ArrayState::from_document(field, raw)?;
            // A document with a tombstone may have lost its chunks already.
            let has_tombstone = Metadata::of(raw).tombstone().is_some();
            if has_tombstone || owner.pending_work().is_some() {
                continue;
            }
            let problems = check_array(Chunks::new(&access, field), &owner).await?;
            findings.extend(problems.into_iter().map(|problem| ArrayFinding {
                document,
                field,
                problem,
            }));
        }
    }
    Ok(findings)
}

/// Returns the problems of an array in this state.
async fn check_array(chunks: Chunks<'_>, owner: &ArrayState) -> Result<Vec<ArrayProblem>> {
    let field = chunks.field;
    let mut problems = Vec::new();
    if owner.has_more != owner.manifest.is_some() {
        problems.push(ArrayProblem::Flag(owner.has_more));
    }
    if !super::capacity::can_stay_resident(field, &owner.resident)? {
        problems.push(ArrayProblem::Resident(owner.resident.len()));
    }
    if !super::rewrite::is_resident_sorted(field, owner) || violates_bound(chunks, owner).await? {
        problems.push(ArrayProblem::Order);
    }
    let Some(manifest) = &owner.manifest else {
        return Ok(problems);
    };
    let live_chunks = live_chunks_filter(field, owner);
    let count = match &live_chunks {
        Some(filter) => chunks.count_elements(filter).await?,
        None => 0,
    };
    if count != manifest.count {
        problems.push(ArrayProblem::Count(manifest.count, count));
    }
    if let Some(filter) = live_chunks {
        let numbers = read_chunk_numbers(chunks, &filter).await?;
        problems.extend(out_of_sequence(numbers, manifest.next_seq));
    }
    Ok(problems)
}

/// Returns whether a spilled element sorts before the bound.
async fn violates_bound(chunks: Chunks<'_>, owner: &ArrayState) -> Result<bool> {
    let manifest = owner.manifest.as_ref();
    let bound = manifest.and_then(|manifest| manifest.bound.clone());
    let Some((order, bound)) = ArrayOrder::from_field(chunks.field).zip(bound) else {
        return Ok(false);
    };
    let is_before = |element: &Bson| order.is_before(element, &bound);
    let first = read::first_chunk_element(chunks, owner, &order).await?;
    Ok(read::buffered_elements(owner).chain(&first).any(is_before))
}

/// Returns the gaps and the duplicates in the chunk numbers, which must be 0 to `next - 1`.
fn out_of_sequence(mut numbers: Vec<i64>, next: i64) -> Vec<ArrayProblem> {
    numbers.sort_unstable();
    let mut problems = Vec::new();
    let mut expected = 0;
    for duplicates in numbers.chunk_by(|a, b| a == b) {
        let number = duplicates.first().copied().unwrap_or(expected);
        if number > expected {
            problems.push(ArrayProblem::ChunkNumbers(expected..=number - 1, 0));
        }
        if duplicates.len() > 1 {
            let (numbers, times) = (number..=number, duplicates.len());
            problems.push(ArrayProblem::ChunkNumbers(numbers, times));
        }
        expected = number.saturating_add(1);
    }
    if expected < next {
        problems.push(ArrayProblem::ChunkNumbers(expected..=next - 1, 0));
    }
    problems
}

/// Returns the numbers of the chunks that match the filter.
async fn read_chunk_numbers(chunks: Chunks<'_>, filter: &Document) -> Result<Vec<i64>> {
    let Chunks { access, field } = chunks;
    let find = access
        .find_matching(&to_raw_document(filter)?)
        .with_origin(Stage::ARRAYS.step("read the chunk numbers"))
        .with_projection(to_raw_document(&doc! { "_id": 0, field.seq: 1 })?);
    let chunks = access.find_all(find).await?;
    let numbers = chunks
        .iter()
        .map(|raw| Ok(integer_or_zero(parse_document(raw)?.get(field.seq))));
    numbers.collect()
}

/// Returns the chunks that no owner reads: the id of the chunk, the id of the owner and the chunk number.
pub(crate) async fn find_orphan_chunks(
    access: ModelAccess<'_>,
    field: &'static OverflowField,
) -> Result<Vec<(Bson, Bson, i64)>> {
    let filter = to_raw_document(&doc! { PROVISIONAL: { "$exists": false } })?;
    let projection = doc! { "_id": 1, metadata::FIELD: 1, field.owner: 1, field.seq: 1 };
    let find = find_matching(field.chunks.collection, &filter)
        .with_origin(Stage::ARRAYS.step("read the orphan chunks"))
        .with_projection(to_raw_document(&projection)?)
        .with_sort(to_raw_document(&doc! { field.owner: 1 })?);
    let mut cursor = access.to(field.chunks).find(find).await?;
    let mut orphans = Vec::new();
    let mut last_owner: Option<(Bson, Option<ArrayState>)> = None;
    loop {
        let batch = cursor.next_batch().await;
        let batch = batch.map_err(crate::error::naming_model(field.chunks))?;
        if batch.is_empty() {
            return Ok(orphans);
        }
        for raw in &batch {
            let chunk = parse_document(raw)?;
            let id = chunk.get(field.owner).cloned().unwrap_or(Bson::Null);
            let array = ArrayHandle::new(access, field, &id);
            let last_id = last_owner.as_ref().map(|(last_id, _)| last_id);
            if last_id != Some(&id) {
                last_owner = Some((id.clone(), array.read_state().await?));
            }
            let owner = last_owner.as_ref().and_then(|(_, owner)| owner.as_ref());
            if is_orphan(field, owner, &chunk) && is_still_orphan(&array, &chunk).await? {
                let seq = integer_or_zero(chunk.get(field.seq));
                let chunk_id = chunk.get("_id").cloned().unwrap_or(Bson::Null);
                orphans.push((chunk_id, id, seq));
            }
        }
    }
}

/// Returns whether the owner in this state does not read the chunk.
fn is_orphan(field: &OverflowField, owner: Option<&ArrayState>, chunk: &Document) -> bool {
    let Some(owner) = owner else { return true };
    let generation = ChunkMetadata::of(chunk).generation;
    let seq = integer_or_zero(chunk.get(field.seq));
    let manifest = owner.manifest.as_ref();
    // The pending work may confirm or delete the chunk.
    owner.pending_work().is_none()
        && !manifest.is_some_and(|manifest| {
            generation.is_some()
                && manifest.generation == generation
                && (0..manifest.next_seq).contains(&seq)
        })
}

/// Returns whether the chunk is still an orphan. Reads the chunk before the owner, as a concurrent write may change both.
async fn is_still_orphan(array: &ArrayHandle<'_>, chunk: &Document) -> Result<bool> {
    let confirmed =
        doc! { "_id": { "$eq": chunk.get("_id").cloned() }, PROVISIONAL: { "$exists": false } };
    if array.chunks().count(&confirmed).await? == 0 {
        return Ok(false);
    }
    let owner = array.read_state().await?;
    Ok(is_orphan(array.field, owner.as_ref(), chunk))
}

/// Repairs an array. Returns false if the array has no problem.
pub(crate) async fn repair_array(
    access: ModelAccess<'_>,
    field: &'static OverflowField,
    id: &Bson,
) -> Result<bool> {
    let array = ArrayHandle::new(access, field, id);
    let mut is_repaired = false;
    for attempt in super::array_work::write_attempts() {
        let Some(owner) = array.read_state().await? else {
            return Ok(is_repaired);
        };
        if owner.pending_work().is_some() {
            array.complete_or_wait(owner, attempt).await?;
            continue;
        }
        let problems = check_array(array.chunks(), &owner).await?;
        let Some(problem) = problems.first() else {
            return Ok(is_repaired);
        };
        let unchanged = match &owner.manifest {
            Some(manifest) => {
                let mut condition = super::capacity::version_unchanged(field, manifest);
                condition.insert(field.pending_change, doc! { "$exists": false });
                condition
            }
            None => doc! { field.manifest: { "$exists": false } },
        };
        is_repaired |= match problem {
            ArrayProblem::Flag(is_set) => {
                let update = match is_set {
                    true => doc! { "$unset": { field.flag: "" } },
                    false => doc! { "$set": { field.flag: true } },
                };
                array.update_owner(unchanged, update).await?
            }
            ArrayProblem::Resident(_) => super::rewrite::spill_or_sort(&array).await?,
            ArrayProblem::Order if owner.manifest.is_none() => {
                super::rewrite::spill_or_sort(&array).await?
            }
            ArrayProblem::Count(_, actual) => {
                let update = doc! {
                    "$set": { field.manifest_path(COUNT): *actual },
                    "$inc": { field.manifest_path(VERSION): 1_i64 },
                };
                array.update_owner(unchanged, update).await?
            }
            ArrayProblem::ChunkNumbers(..) | ArrayProblem::Order => {
                super::rewrite::rewrite_chunks(&array, &owner).await?
            }
        };
        let reason = "the array is checked again after the repair";
        retry::pause_before_retry(reason, attempt.min(3)).await;
    }
    Err(array.contention_error())
}

/// Deletes an orphan chunk. Returns false if an owner reads the chunk, or the chunk is gone.
pub(crate) async fn delete_orphan(
    access: ModelAccess<'_>,
    field: &'static OverflowField,
    id: &Bson,
) -> Result<bool> {
    let confirmed = doc! { "_id": { "$eq": id.clone() }, PROVISIONAL: { "$exists": false } };
    let find = find_matching(field.chunks.collection, &to_raw_document(&confirmed)?)
        .with_origin(Stage::ARRAYS.step("read the orphan chunk"));
    let found = access.to(field.chunks).find_all(find).await?;
    let Some(chunk) = found.first().map(|raw| parse_document(raw)).transpose()? else {
        return Ok(false);
    };
    let owner = chunk.get(field.owner).cloned().unwrap_or(Bson::Null);
    let array = ArrayHandle::new(access, field, &owner);
    Ok(is_still_orphan(&array, &chunk).await? && array.chunks().delete(&confirmed).await? > 0)
}
