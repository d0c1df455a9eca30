//! Recovery of overflow arrays: expired pending work, and expired provisional chunks.

use bson::{Bson, Document, doc};

use super::{
    array_work::ArrayHandle,
    chunks::Chunks,
    manifest::{ArrayState, ArrayWorkKind, integer_or_zero},
};
use crate::{
    Result,
    backend::operation::Stage,
    error,
    metadata::overflow::{ChunkMetadata, PROVISIONAL_INSTANCE, PROVISIONAL_LEASE},
    pending::{
        expired::{ExpiredWork, RecoveryReport},
        record::PendingKind,
    },
    schema::OverflowField,
    session::access::ModelAccess,
};

/// The maximum number of documents that one query returns.
const RECOVERY_BATCH_DOCUMENTS: usize = 500;

/// Completes all expired work. Work that cannot be completed does not stop the rest.
pub(super) async fn recover_arrays(
    access: ModelAccess<'_>,
    report: &mut RecoveryReport,
) -> Result<()> {
    for field in access.model.overflows {
        recover_work(access, field, report).await?;
        recover_provisional(access, field, report).await?;
    }
    Ok(())
}

/// Completes the expired work of one array in all documents.
async fn recover_work(
    access: ModelAccess<'_>,
    field: &'static OverflowField,
    report: &mut RecoveryReport,
) -> Result<()> {
    let (kind, batch) = (PendingKind::overflow_array(field), RECOVERY_BATCH_DOCUMENTS);
    let mut expired = ExpiredWork::new(access, kind, Stage::ARRAYS, batch);
    while let Some(batch) = expired.next_batch().await? {
        for id in batch.new {
            let owner = Bson::try_from(id.clone()).map_err(error::from_bson)?;
            let array = ArrayHandle::new(access, field, &owner);
            match complete_expired(&array).await {
                Ok(()) => report.recovered += 1,
                Err(error) => expired.record_failure(report, id, error).await?,
            }
        }
    }
    Ok(())
}

/// Completes the pending work of an array if its lease has expired.
async fn complete_expired(array: &ArrayHandle<'_>) -> Result<()> {
    match array.read_state().await? {
        Some(owner)
            if owner
                .pending_work()
                .is_some_and(super::ArrayWork::is_lease_expired) =>
        {
            array.complete_work(owner).await
        }
        _ => Ok(()),
    }
}

/// Confirms or deletes the expired provisional chunks of one array.
async fn recover_provisional(
    access: ModelAccess<'_>,
    field: &'static OverflowField,
    report: &mut RecoveryReport,
) -> Result<()> {
    let (kind, batch) = (PendingKind::PROVISIONAL_CHUNK, RECOVERY_BATCH_DOCUMENTS);
    let mut expired = ExpiredWork::new(access.to(field.chunks), kind, Stage::ARRAYS, batch);
    while let Some(batch) = expired.next_batch().await? {
        for id in batch.new {
            let Some(chunk) = Chunks::new(&access, field).read_expired(&id).await? else {
                continue;
            };
            match confirm_or_delete(access, field, &chunk).await {
                Ok(is_decided) => report.recovered += u64::from(is_decided),
                Err(error) => {
                    expired.exclude([id]);
                    report.record_error(error)?;
                }
            }
        }
    }
    Ok(())
}

/// Confirms or deletes a provisional chunk. Returns whether the decision was possible. A chunk of a finally deleted document is
/// left to the delete, which removes the references in the chunk as well. Once the document is gone, chunks that the delete has
/// missed are deleted here.
async fn confirm_or_delete(
    access: ModelAccess<'_>,
    field: &'static OverflowField,
    chunk: &Document,
) -> Result<bool> {
    let id = chunk.get(field.owner).cloned().unwrap_or(Bson::Null);
    let metadata = ChunkMetadata::of(chunk);
    let array = ArrayHandle::new(access, field, &id);
    let owner = array.read_live_state().await?;
    if owner.is_none() && array.read_state().await?.is_some() {
        return Ok(false);
    }
    let chunk_filter = doc! {
        "_id": { "$eq": chunk.get("_id").cloned() },
        PROVISIONAL_LEASE: { "$eq": metadata.lease_end },
        PROVISIONAL_INSTANCE: { "$eq": metadata.instance },
    };
    if let Some(owner) = &owner
        && is_decided_by_work(owner, metadata)
    {
        return match owner
            .pending_work()
            .is_some_and(super::ArrayWork::is_lease_expired)
        {
            true => array.complete_work(owner.clone()).await.map(|()| true),
            false => Ok(false),
        };
    }
    let seq = integer_or_zero(chunk.get(field.seq));
    let manifest = owner.and_then(|owner| owner.manifest);
    let is_adopted = manifest.is_some_and(|manifest| {
        metadata.token.is_none()
            && metadata.generation.is_some()
            && manifest.generation == metadata.generation
            && seq < manifest.next_seq
    });
    if is_adopted {
        array.chunks().confirm(&chunk_filter).await?;
    } else {
        array.chunks().delete(&chunk_filter).await?;
    }
    Ok(true)
}

/// Returns whether the pending work of the owner decides about the chunk.
fn is_decided_by_work(owner: &ArrayState, chunk: ChunkMetadata) -> bool {
    let Some(work) = owner.pending_work() else {
        return false;
    };
    match chunk.token {
        Some(token) => work.token == token,
        None => {
            let manifest = owner.manifest.as_ref();
            work.kind == ArrayWorkKind::Spill
                && manifest.is_some_and(|manifest| manifest.generation == chunk.generation)
        }
    }
}
