//! Publication of staged chunks.

use bson::{Bson, Document, oid::ObjectId};

use super::{
    super::{
        ArrayHandle,
        chunks::{ChunkBatch, split_into_chunks},
        manifest::{ArrayWork, ArrayWorkKind},
    },
    ArrayUpdate,
};
use crate::{
    ErrorKind, Result,
    metadata::overflow::{COUNT, GENERATION, NEXT},
    write::{WriteOutcome, footprint::put_operator},
};

/// The place of staged chunks in an array.
pub(super) struct PublishTarget {
    pub(super) generation: ObjectId,
    pub(super) first_seq: i64,
    /// The number of elements in chunks after the publication.
    pub(super) count: i64,
    /// The generation that the staged chunks replace.
    pub(super) swept_generation: Option<ObjectId>,
}

impl ArrayUpdate {
    /// Fills chunks, and publishes the chunks together with the write. Returns `None` if the document does not meet the
    /// condition, or if another writer has reclaimed the chunks.
    pub(super) async fn publish_chunks(
        &self,
        array: &ArrayHandle<'_>,
        work: &ArrayWork,
        target: PublishTarget,
        elements: Vec<Bson>,
        mut operators: Document,
        mut condition: Document,
    ) -> Result<Option<WriteOutcome>> {
        let field = self.field;
        let parts = split_into_chunks(&elements)?;
        let batch = ChunkBatch {
            owner: array.id,
            generation: target.generation,
            token: work.token,
            first_seq: target.first_seq,
        };
        batch
            .insert_staged(&self.unrestricted, field, &parts, Some(array))
            .await?;
        let published = ArrayWork {
            token: work.token,
            swept_generation: target.swept_generation,
            ..ArrayWork::new(
                &self.cx.access,
                ArrayWorkKind::Published {
                    expected_chunks: None,
                },
            )
        };
        put_operator(
            &mut operators,
            "$set",
            field.pending_change,
            published.to_document()?,
        );
        put_operator(&mut operators, "$set", field.flag, true);
        put_operator(
            &mut operators,
            "$set",
            &field.manifest_path(GENERATION),
            target.generation,
        );
        put_operator(
            &mut operators,
            "$set",
            &field.manifest_path(COUNT),
            target.count,
        );
        let next = target.first_seq + parts.len() as i64;
        put_operator(&mut operators, "$set", &field.manifest_path(NEXT), next);
        let is_conditional = !condition.is_empty();
        condition.extend(array.work_filter(work.token));
        match self.try_write(condition, &[&operators]).await {
            Ok(Some(done)) => {
                if let Some(owner) = array
                    .read_state()
                    .await?
                    .filter(|owner| owner.has_work(work.token))
                {
                    array.complete_work(owner).await?;
                }
                Ok(Some(done))
            }
            // The document no longer matches, or another writer has reclaimed the chunks.
            Ok(None) => {
                let is_no_match =
                    self.reclaim_unpublished(array, work.token).await? && !is_conditional;
                Ok(is_no_match.then(WriteOutcome::default))
            }
            Err(error) => {
                // After a connection error the outcome is unknown, and recovery decides. If the chunks cannot be reclaimed now,
                // recovery reclaims the chunks.
                if error.kind() != ErrorKind::Connection
                    && self.cx.access.transaction_scope().is_none()
                {
                    let _ = self.reclaim_unpublished(array, work.token).await;
                }
                Err(error)
            }
        }
    }

    /// Reclaims chunks that were not published. Returns false if another writer has done so.
    pub(super) async fn reclaim_unpublished(
        &self,
        array: &ArrayHandle<'_>,
        token: ObjectId,
    ) -> Result<bool> {
        let Some(owner) = array
            .read_state()
            .await?
            .filter(|owner| owner.has_work(token))
        else {
            return Ok(false);
        };
        array.complete_work(owner).await?;
        Ok(true)
    }
}
