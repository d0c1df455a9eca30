//! Publication of staged chunks.

use bson::{Bson, Document, doc, oid::ObjectId};

use super::{
    super::{ArrayHandle, chunks::split_into_chunks, manifest::ArrayWork},
    ArrayUpdate,
};
use crate::{
    ErrorKind, Result,
    metadata::overflow::{COUNT, GENERATION, NEXT},
    write::{WriteOutcome, footprint::merge_update},
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
        let batch = array.new_chunks(work.token, target.generation, target.first_seq);
        batch.insert_staged(&parts, Some(array)).await?;
        let published = work.published(&self.cx.access, target.swept_generation);
        let publish = doc! { "$set": {
            field.pending_change: published.to_document()?,
            field.flag: true,
            field.manifest_path(GENERATION): target.generation,
            field.manifest_path(COUNT): target.count,
            field.manifest_path(NEXT): target.first_seq + parts.len() as i64,
        } };
        merge_update(&mut operators, &publish);
        let is_conditional = !condition.is_empty();
        condition.extend(array.work_filter(work.token));
        match self.try_write(condition, &[&operators]).await {
            Ok(Some(done)) => {
                array.complete_own_work(work.token).await?;
                Ok(Some(done))
            }
            // The document no longer matches, or another writer has reclaimed the chunks.
            Ok(None) => {
                // Not published, so this call reclaims the chunks, unless another process has done so.
                let is_no_match = array.complete_own_work(work.token).await? && !is_conditional;
                Ok(is_no_match.then(WriteOutcome::default))
            }
            Err(error) => {
                // After a connection error the outcome is unknown, and recovery decides. If the chunks cannot be reclaimed now,
                // recovery reclaims the chunks.
                if error.kind() != ErrorKind::Connection
                    && self.cx.access.transaction_scope().is_none()
                {
                    let _ = array.complete_own_work(work.token).await;
                }
                Err(error)
            }
        }
    }
}
