//! Deletes of documents with overflow arrays: the chunks are deleted with their owner.

use bson::{Bson, RawBson, RawDocument, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    array_work::ArrayHandle,
    chunks::{Chunks, generation_filter, staged_chunks_filter},
    manifest::ArrayState,
};
use crate::{
    Result,
    backend::{
        BoxFuture,
        operation::{DeleteOperation, Stage},
    },
    language::query::{field_missing, id_filter},
    metadata::{
        overflow::{GENERATION, WORK_HEAD},
        pending::TOKEN,
    },
    model::{decode, ids::one_of},
    schema::Model,
    session::access::{Access, ModelAccess, add_condition, find_matching},
    write::{
        WriteOperation, WriteOutcome, WriteRequest,
        maintainer::WriteContext,
        metadata_update::{parse_document, to_raw_document, to_raw_value},
    },
};

/// Deletes documents together with the chunks, in a transaction if the backend has transactions. A single document without a
/// manifest is deleted directly.
pub(super) async fn delete_with_chunks(
    cx: WriteContext,
    write: WriteOperation,
) -> Result<WriteOutcome> {
    let (access, model) = (&cx.access, cx.model);
    if access.transaction_scope().is_none()
        && write.affects_at_most_one()
        && write.sort_order().is_none()
    {
        let mut without_manifest = write.clone();
        if let Some(filter) = without_manifest.filter_mut() {
            for field in model.overflows {
                add_condition(filter, field.manifest, field_missing())?;
            }
        }
        let done = cx.clone().run_next(without_manifest).await?;
        if done.matched > 0 {
            return Ok(done);
        }
    }
    let work = |access: Access| {
        let (cx, write) = (cx.with_access(&access), write.clone());
        async move {
            let done = delete_transactional(cx, write).await;
            done.map_err(|error| access.fail_transaction(error))
        }
    };
    access.run_transactional(work).await
}

/// Deletes the chunks, and then the documents.
async fn delete_transactional(cx: WriteContext, mut write: WriteOperation) -> Result<WriteOutcome> {
    let (access, model) = (&cx.access, cx.model);
    let filter = write.filter().cloned().unwrap_or_default();
    let mut find = find_matching(model.collection, &filter)
        .with_origin(Stage::ARRAYS.step("read the documents to delete"))
        .with_sort(write.sort_order().map(RawDocument::to_owned));
    if write.affects_at_most_one() {
        find.limit = Some(1);
    } else {
        let fields = model.overflows.iter();
        let has_manifest =
            fields.map(|field| Bson::Document(doc! { field.manifest: { "$exists": true } }));
        let has_manifest = doc! { "$or": has_manifest.collect::<Vec<_>>() };
        find.filter = to_raw_document(&doc! { "$and": [parse_document(&filter)?, has_manifest] })?;
    }
    find.projection = Some(chunk_projection(model)?);
    let found = access.find_all(model, find).await?;
    delete_chunks_of(access.to(model), &found).await?;
    if write.affects_at_most_one() {
        // The write must delete the document of the deleted chunks, and no other document.
        let ids = found.iter().filter_map(|raw| decode::stored_id(raw));
        let ids: Vec<_> = ids.collect();
        let ids: Vec<_> = ids.into_iter().map(RawBson::from).collect();
        if let Some(filter) = write.filter_mut() {
            add_condition(filter, "_id", one_of(&ids))?;
        }
    }
    cx.run_next(write).await
}

/// Deletes the chunks of all documents that match the filter. For a document with a tombstone, the filter names the tombstone: a
/// new document may have the same `_id` by then.
pub(super) async fn delete_chunks_of_matching(
    access: ModelAccess<'_>,
    filter: &RawDocument,
) -> Result<()> {
    let model = access.model;
    if model.overflows.is_empty() {
        return Ok(());
    }
    let unrestricted = access.with_full_visibility();
    let find = access
        .find_matching(filter)
        .with_origin(Stage::ARRAYS.step("read the documents to delete"))
        .with_projection(chunk_projection(model)?);
    let found = unrestricted.find_all(model, find).await?;
    delete_chunks_of(unrestricted.to(model), &found).await
}

/// Returns the projection of the manifest fields that locate chunks, without the tail and the resident elements.
fn chunk_projection(model: &Model) -> Result<RawDocumentBuf> {
    let mut projection = doc! { "_id": 1 };
    for field in model.overflows {
        projection.insert(field.manifest_path(GENERATION), 1);
        for name in WORK_HEAD {
            projection.insert(field.work_path(name), 1);
        }
    }
    to_raw_document(&projection)
}

/// Deletes the chunks of these documents.
async fn delete_chunks_of(access: ModelAccess<'_>, documents: &[RawDocumentBuf]) -> Result<()> {
    for field in access.model.overflows {
        for document in documents {
            let chunks = Chunks::new(&access, field);
            let owner = ArrayState::from_document(field, document)?;
            let Some(manifest) = &owner.manifest else {
                continue;
            };
            let work = manifest.work.as_ref();
            let swept_generation = work.and_then(|work| work.swept_generation);
            for generation in manifest.generation.into_iter().chain(swept_generation) {
                let filter = generation_filter(field, &owner.id, generation);
                chunks.delete(&filter).await?;
            }
            // Staged chunks have a generation that the manifest does not name yet.
            if let Some(work) = work {
                let filter = staged_chunks_filter(field, &owner.id, work.token);
                chunks.delete(&filter).await?;
            }
        }
    }
    Ok(())
}

/// Deletes a document with an incomplete insert: some of its chunks are missing.
pub(super) async fn delete_incomplete_insert(
    array: &ArrayHandle<'_>,
    token: ObjectId,
) -> Result<()> {
    // A concurrent delete removes the chunks first, so missing chunks prove nothing. Check that the document is not being
    // deleted.
    if !array.renew_lease(token).await? {
        return Ok(());
    }
    array
        .chunks()
        .record_abandoned_insert(array.id, token)
        .await?;
    let mut filter = parse_document(&id_filter(&to_raw_value(array.id)?))?;
    filter.insert(array.field.work_path(TOKEN), doc! { "$eq": token });
    let delete = DeleteOperation {
        collection: array.access.model.collection.into(),
        filter: to_raw_document(&filter)?,
        multi: false,
        origin: Stage::ARRAYS.step("delete the incomplete document"),
    };
    run_hard_delete(Access::clone(&array.access), array.access.model, delete).await
}

/// Runs a hard delete. The future is boxed because this function is recursive: a delete can cause further deletes.
fn run_hard_delete(
    access: Access,
    model: &'static Model,
    delete: DeleteOperation,
) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        let request = WriteRequest::new(model, WriteOperation::Delete(delete))?;
        request.run(access).await.map(drop)
    })
}
