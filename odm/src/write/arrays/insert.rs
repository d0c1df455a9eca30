//! Inserts of documents with more elements than fit into the document.
//!
//! The chunks are inserted before the document, and are not read until the document exists. The document publishes the chunks.
//! Without transactions, recovery deletes chunks that were never published. If recovery has abandoned an insert, the document is
//! deleted as well: a document without its chunks counts as not inserted.

use bson::{Bson, Document, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    array_work::ArrayHandle,
    capacity::count_fitting,
    chunks::{ChunkBatch, Chunks, generation_filter, split_into_chunks, staged_chunks_filter},
    footprint::ensure_element_sizes,
    manifest::{ArrayState, ArrayWork, ArrayWorkKind, Manifest, array_or_empty},
    order::{ArrayOrder, sort_if_ordered},
};
use crate::{
    Error, ErrorKind, Result, error,
    metadata::overflow::CHUNK_ID_TOKEN,
    model::stored::{edit_fields, parse_fields},
    schema::{Model, OverflowField},
    session::access::{Access, ModelAccess},
    write::{
        WriteOperation, WriteOutcome,
        maintainer::{MAINTAINERS, Strategy, WriteContext},
        metadata_update::{parse_document, set_at, to_raw_document},
        recovery,
    },
};

/// Returns whether arrays of the documents must be sorted or spilled before the insert.
pub(super) fn needs_rearranging(model: &Model, documents: &[RawDocumentBuf]) -> bool {
    is_any_too_long(model, documents) || is_any_unsorted(model, documents)
}

/// Returns whether a document has more elements than stay resident.
fn is_any_too_long(model: &Model, documents: &[RawDocumentBuf]) -> bool {
    let mut documents = documents.iter();
    documents.any(|raw| {
        let mut fields = model.overflows.iter();
        fields.any(|field| {
            raw.get_array(field.stored).is_ok_and(|array| {
                array.into_iter().count() > field.max_resident
                    || array.as_bytes().len() > field.max_resident_bytes / 2
            })
        })
    })
}

/// Returns whether a document has a sorted array with unsorted elements.
fn is_any_unsorted(model: &Model, documents: &[RawDocumentBuf]) -> bool {
    let mut orders = model.overflows.iter().filter_map(|field| {
        let order = ArrayOrder::from_field(field)?;
        Some((field, order))
    });
    orders.any(|(field, order)| {
        let parse = |raw: &RawDocumentBuf| parse_fields(raw, &[field.stored]).ok();
        let mut documents = documents.iter().filter_map(parse);
        documents.any(|document| !order.is_sorted(&array_or_empty(document.get(field.stored))))
    })
}

/// Ensures that no document has an element that is too large for a chunk.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) for an element that is too large.
pub(super) fn ensure_elements_fit(
    model: &'static Model,
    documents: &[RawDocumentBuf],
) -> Result<()> {
    for raw in documents {
        for field in model.overflows {
            let Ok(elements) = raw.get_array(field.stored) else {
                continue;
            };
            if elements.as_bytes().len() > field.max_chunk_bytes / 2 {
                let document = parse_fields(raw, &[field.stored])?;
                ensure_element_sizes(field, &array_or_empty(document.get(field.stored)))
                    .map_err(error::naming_model(model))?;
            }
        }
    }
    Ok(())
}

/// The spilled elements of one array of an inserted document.
struct InsertedSpill {
    /// The position of the document in the insert.
    position: usize,
    field: &'static OverflowField,
    owner: Bson,
    generation: ObjectId,
    token: ObjectId,
    chunks: Vec<Vec<Bson>>,
}

/// Runs the insert.
pub(super) async fn run_insert(
    cx: WriteContext,
    mut write: WriteOperation,
) -> Result<WriteOutcome> {
    let (access, model) = (&cx.access, cx.model);
    sort_arrays(model, &mut write)?;
    let is_spilling = |documents: &mut [RawDocumentBuf]| is_any_too_long(model, documents);
    if !write.documents_to_insert().is_some_and(is_spilling) {
        return cx.run_next(write).await;
    }
    let has_own_transaction =
        access.transaction_scope().is_none() && cx.strategy == Strategy::Transactional;
    let work = |access: Access| {
        let (cx, write) = (cx.with_access(&access), write.clone());
        async move {
            let done = Box::pin(insert_with_chunks(cx, write)).await;
            done.map_err(|error| access.fail_transaction(error))
        }
    };
    let done = recovery::run_transactional(access.to(model), work).await;
    // A transaction inserts all documents or none.
    done.map_err(|error| match has_own_transaction {
        true => error.with_inserted(0),
        false => error,
    })
}

/// Sorts the arrays of the documents.
fn sort_arrays(model: &'static Model, write: &mut WriteOperation) -> Result<()> {
    for raw in write.documents_to_insert().into_iter().flatten() {
        if !is_any_unsorted(model, std::slice::from_ref(raw)) {
            continue;
        }
        let arrays = model.overflows.iter().map(|field| field.stored);
        edit_fields(raw, &arrays.collect::<Vec<_>>(), |document| {
            for field in model.overflows {
                if let Ok(elements) = document.get_array_mut(field.stored) {
                    sort_if_ordered(field, elements);
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Inserts the chunks, and then the documents.
async fn insert_with_chunks(cx: WriteContext, mut write: WriteOperation) -> Result<WriteOutcome> {
    let (access, model) = (&cx.access.clone(), cx.model);
    let unrestricted = access.with_full_visibility();
    let mut spilled_arrays = Vec::new();
    let documents = write.documents_to_insert().into_iter().flatten();
    for (position, raw) in documents.enumerate() {
        let mut document = parse_document(raw)?;
        for field in model.overflows {
            spilled_arrays.extend(take_spilled(access, field, position, &mut document)?);
        }
        *raw = to_raw_document(&document)?;
    }
    for array in &spilled_arrays {
        let batch = array.chunk_batch(&unrestricted);
        batch.insert_staged(&array.chunks, None).await?;
    }
    let done = cx.run_next(write).await;
    if access.transaction_scope().is_some() {
        let done = done?;
        // The documents may hold references among each other, so the elements follow after the insert. Without transactions, the
        // reference stage reads the chunks itself.
        for array in &spilled_arrays {
            let dependents = MAINTAINERS
                .iter()
                .filter(|kind| kind.depends_on_elements(model, array.field, true));
            for kind in dependents {
                let elements = array.chunks.iter().flatten().collect();
                kind.elements_inserted(access.to(model), array.field, &array.owner, elements)
                    .await?;
            }
        }
        return Ok(done);
    }
    // The insert may have stored some documents and failed at another. Recovery confirms an array after an error here.
    let mut abandoned = None;
    let mut confirm_error = None;
    for array in &spilled_arrays {
        match array
            .confirm_inserted(unrestricted.to(model), done.is_ok())
            .await
        {
            Ok(true) => {}
            Ok(false) => abandoned = abandoned.or(Some(array)),
            Err(error) => drop(confirm_error.get_or_insert(error)),
        }
    }
    let done = match (done, confirm_error) {
        (Ok(_), Some(error)) => Err(error),
        (done, _) => done,
    };
    let Some(abandoned) = abandoned else {
        return done;
    };
    let error = match done {
        Ok(_) => abandoned.abandoned_error(model),
        Err(error) => error,
    };
    let inserted = error.inserted().unwrap_or(abandoned.position);
    Err(error.with_inserted(inserted.min(abandoned.position)))
}

/// Removes the spilled elements from a document.
fn take_spilled(
    access: &Access,
    field: &'static OverflowField,
    position: usize,
    document: &mut Document,
) -> Result<Option<InsertedSpill>> {
    let elements = array_or_empty(document.get(field.stored));
    let resident_count = count_fitting(field, &[], &elements)?;
    if resident_count == elements.len() {
        return Ok(None);
    }
    let (resident, spilled) = elements
        .split_at_checked(resident_count)
        .unwrap_or((&elements, &[]));
    let spilled_array = InsertedSpill {
        position,
        field,
        owner: document.get("_id").cloned().unwrap_or(Bson::Null),
        generation: ObjectId::new(),
        token: ObjectId::new(),
        chunks: split_into_chunks(spilled)?,
    };
    let chunk_count = spilled_array.chunks.len() as i64;
    let order = ArrayOrder::from_field(field);
    let mut manifest = Manifest {
        generation: Some(spilled_array.generation),
        next_seq: chunk_count,
        count: spilled.len() as i64,
        version: 1,
        tail: Vec::new(),
        bound: order.map(|order| order.bound_between(resident, spilled)),
        work: None,
    };
    if access.transaction_scope().is_none() {
        let kind = ArrayWorkKind::Published {
            expected_chunks: Some(chunk_count),
        };
        manifest.work = Some(ArrayWork {
            token: spilled_array.token,
            ..ArrayWork::new(access, kind)
        });
    }
    document.insert(field.stored, resident.to_vec());
    document.insert(field.flag, true);
    set_at(document, field.manifest, manifest.to_document()?);
    Ok(Some(spilled_array))
}

impl InsertedSpill {
    /// Returns the common data of the chunks.
    fn chunk_batch<'b>(&'b self, access: &'b Access) -> ChunkBatch<'b> {
        ChunkBatch {
            chunks: Chunks::new(access, self.field),
            owner: &self.owner,
            generation: self.generation,
            token: self.token,
            first_seq: 0,
        }
    }

    /// Makes the chunks permanent, or deletes the chunks if the document was not inserted. Returns false if recovery has
    /// abandoned the insert, because the insert took too long. A document that was deleted otherwise counts as inserted.
    async fn confirm_inserted(&self, access: ModelAccess<'_>, is_inserted: bool) -> Result<bool> {
        let array = ArrayHandle::new(access, self.field, &self.owner);
        let owner = array.read_state().await?;
        let is_published = owner
            .as_ref()
            .is_some_and(|owner| self.has_generation_of(owner));
        // With this token the document of this insert exists, even if the insert of another document failed.
        let Some(owner) = owner.filter(|owner| owner.has_work(self.token)) else {
            if !is_inserted {
                let filter = staged_chunks_filter(self.field, &self.owner, self.token);
                array.chunks().delete(&filter).await?;
            }
            return Ok(is_published || self.is_not_abandoned(&array).await?);
        };
        let is_filled = self.confirm_and_fill(&array).await?;
        array.complete_work(owner).await?;
        if is_filled {
            let owner = array.read_live_state().await?;
            let is_current = owner
                .is_some_and(|owner| self.has_generation_of(&owner) && !owner.has_work(self.token));
            let mut chunks = generation_filter(self.field, &self.owner, self.generation);
            if !is_current {
                // Another writer has deleted the document. A document that is being deleted keeps the chunks: the delete reads
                // the chunks first.
                let current = array.read_state().await?;
                if !current.is_some_and(|owner| self.has_generation_of(&owner)) {
                    array.chunks().delete(&chunks).await?;
                }
                return self.is_not_abandoned(&array).await;
            }
            chunks.insert(CHUNK_ID_TOKEN, doc! { "$eq": self.token });
            array.chunks().confirm(&chunks).await?;
        }
        Ok(true)
    }

    /// Confirms the chunks, and inserts the missing ones again. Returns whether some were missing.
    async fn confirm_and_fill(&self, array: &ArrayHandle<'_>) -> Result<bool> {
        let filter = staged_chunks_filter(self.field, &self.owner, self.token);
        array.chunks().confirm(&filter).await?;
        let chunks = generation_filter(self.field, &self.owner, self.generation);
        if array.chunks().count(&chunks).await? == self.chunks.len() as i64 {
            return Ok(false);
        }
        let batch = self.chunk_batch(&array.access);
        batch.insert_missing(&self.chunks).await?;
        Ok(true)
    }

    /// Returns whether the owner reads these chunks.
    fn has_generation_of(&self, owner: &ArrayState) -> bool {
        let manifest = owner.manifest.as_ref();
        manifest.is_some_and(|manifest| manifest.generation == Some(self.generation))
    }

    /// Returns whether recovery has not abandoned the insert.
    async fn is_not_abandoned(&self, array: &ArrayHandle<'_>) -> Result<bool> {
        let chunks = array.chunks();
        let is_abandoned = chunks.is_insert_abandoned(&self.owner, self.token);
        Ok(!is_abandoned.await?)
    }

    /// The error of an insert that recovery has abandoned.
    fn abandoned_error(&self, model: &Model) -> Error {
        let message = "the insert took longer than its lease (60 times the `pending_lease`, 5 minutes by default), and recovery deleted the incomplete document: check whether this document and the documents after it exist, and insert the missing documents again";
        let error = Error::new(ErrorKind::Conflict, message);
        error::naming_model(model)(error).with_id(self.owner.clone())
    }
}
