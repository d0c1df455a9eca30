//! Pending work of an array: starting multi-step writes, and completing the work of any process.
//!
//! Every step can be repeated. The condition of a step names the token of the work or the version of the array, so a late step
//! has no effect.

use bson::{Bson, DateTime, Document, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    MAX_WRITE_ATTEMPTS,
    chunks::{ChunkBatch, Chunks, generation_filter, live_chunks_filter, staged_chunks_filter},
    footprint::changed_chunks_filter,
    manifest::{ArrayState, ArrayWork, ArrayWorkKind, ElementChange, Manifest},
    order::ArrayOrder,
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{
        DocumentChange, FindAndModify, FindAndModifyKind, Stage, UpdateOperation,
    },
    error,
    language::query::id_filter,
    metadata::{
        self,
        overflow::{
            APPLIED_VERSION, BLOCK, BOUND, CHUNK_ID_TOKEN, COUNT, GENERATION, KIND, NEXT, OVERFLOW,
            PROVISIONAL_INSTANCE, TAIL, VERSION,
        },
        pending::{LEASE, TOKEN},
        references::tombstone,
    },
    schema::OverflowField,
    session::{
        access::{Access, ModelAccess},
        retry,
    },
    write::{
        footprint::{merge_update, put_operator},
        metadata_update::{
            MetadataUpdate, apply_update, parse_document, to_raw_document, to_raw_value,
        },
        narrow_filter,
    },
};

/// MongoDB's error code for a document that fails the validation rules of the collection.
const DOCUMENT_VALIDATION_FAILURE_CODE: i32 = 121;

/// A handle on an overflow array of a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrayHandle<'a> {
    /// An access to all documents: of every scope, and soft-deleted.
    pub(super) access: ModelAccess<'a>,
    pub(super) field: &'static OverflowField,
    pub(super) id: &'a Bson,
}

impl<'a> ArrayHandle<'a> {
    pub(super) fn new(
        access: ModelAccess<'a>,
        field: &'static OverflowField,
        id: &'a Bson,
    ) -> Self {
        Self { access, field, id }
    }

    /// Returns the chunks of the field.
    pub(super) fn chunks(&self) -> Chunks<'_> {
        Chunks::new(&self.access, self.field)
    }

    /// Returns the common data of the chunks that the write with this token creates.
    pub(super) fn new_chunks(
        &self,
        token: ObjectId,
        generation: ObjectId,
        first_seq: i64,
    ) -> ChunkBatch<'_> {
        ChunkBatch {
            chunks: self.chunks(),
            owner: self.id,
            generation,
            token,
            first_seq,
        }
    }

    /// Reads the state of the array. Returns `None` if there is no document.
    pub(super) async fn read_state(&self) -> Result<Option<ArrayState>> {
        ArrayState::read_by_id(self.access, self.field, self.id).await
    }

    /// Reads the state of the array if the document is not finally deleted. New chunks of a finally deleted document would be
    /// orphans, as the delete has read the chunks already.
    pub(super) async fn read_live_state(&self) -> Result<Option<ArrayState>> {
        let filter = self.id_filter(tombstone::not_final())?;
        ArrayState::read_matching(self.access, self.field, &filter).await
    }

    /// Updates the document if the condition holds. Returns whether the document was updated.
    pub(super) async fn update_owner(&self, condition: Document, update: Document) -> Result<bool> {
        let filter = self.id_filter(condition)?;
        let origin = Stage::ARRAYS.step("update the owner");
        let update = MetadataUpdate::new(origin, filter, update);
        Ok(apply_update(self.access, update).await? > 0)
    }

    /// Returns the filter for the document with this id, if the document meets the condition.
    fn id_filter(&self, condition: Document) -> Result<RawDocumentBuf> {
        let mut filter = parse_document(&id_filter(&to_raw_value(self.id)?))?;
        filter.extend(condition);
        to_raw_document(&filter)
    }

    /// Creates work of this process, with a new token and a new lease.
    pub(super) fn new_work(&self, kind: ArrayWorkKind) -> ArrayWork {
        ArrayWork::new(&self.access, kind)
    }

    /// Renews the lease of pending work. Returns false if another writer has reclaimed the work.
    pub(super) async fn renew_lease(&self, token: ObjectId) -> Result<bool> {
        let renewal =
            doc! { "$set": { self.field.work_path(LEASE): self.access.lease().new_end() } };
        self.update_owner(self.work_filter(token), renewal).await
    }

    /// Returns the condition that this work is pending in a document that is not finally deleted.
    pub(super) fn work_filter(&self, token: ObjectId) -> Document {
        let mut condition = tombstone::not_final();
        condition.insert(self.field.work_path(TOKEN), doc! { "$eq": token });
        condition
    }

    /// Records pending work, if the document meets the condition and has no other pending work. With `freeze_tail`, the tail
    /// becomes the frozen block. Returns the new state.
    pub(super) async fn begin_work(
        &self,
        mut condition: Document,
        work: &ArrayWork,
        freeze_tail: bool,
    ) -> Result<Option<ArrayState>> {
        let field = self.field;
        condition.insert(field.pending_change, doc! { "$exists": false });
        condition.extend(tombstone::not_final());
        let value_or = |name: &str, default: Bson| {
            let value = format!("${}", field.manifest_path(name));
            doc! { "$ifNull": [value, default] }
        };
        let number = |name: &str| value_or(name, Bson::Int64(0));
        let current_tail = value_or(TAIL, Bson::Array(Vec::new()));
        let mut work = work.to_document()?;
        let tail = match freeze_tail {
            true => {
                work.insert(BLOCK, current_tail);
                Bson::Array(Vec::new())
            }
            false => Bson::Document(current_tail),
        };
        let set = doc! {
            field.flag: true,
            field.pending_change: work,
            field.manifest_path(TAIL): tail,
            field.manifest_path(VERSION): { "$add": [number(VERSION), 1_i64] },
            field.manifest_path(GENERATION): value_or(GENERATION, ObjectId::new().into()),
            field.manifest_path(NEXT): number(NEXT),
            field.manifest_path(COUNT): number(COUNT),
        };
        let mut filter = self.id_filter(condition)?;
        narrow_filter(self.access, &mut filter).await?;
        let modify = FindAndModify {
            collection: self.access.model.collection.into(),
            filter,
            sort: None,
            projection: None,
            modification: FindAndModifyKind::Update {
                change: DocumentChange::Pipeline(vec![to_raw_document(&doc! { "$set": set })?]),
                upsert: false,
                return_new: true,
            },
            origin: Stage::ARRAYS.step("record the pending change"),
        };
        let updated = self.access.find_and_modify(self.access.model, modify);
        let updated = updated.await?;
        updated
            .map(|raw| ArrayState::from_document(field, &raw))
            .transpose()
    }

    /// Moves the full tail into a chunk.
    pub(super) async fn spill_tail(&self, owner: &ArrayState) -> Result<()> {
        let manifest = owner.manifest.as_ref();
        let tail_len = manifest.map_or(0, |manifest| manifest.tail.len());
        let Some(last) = tail_len.checked_sub(1) else {
            return Ok(());
        };
        let work = self.new_work(ArrayWorkKind::Spill);
        // A concurrent write may have frozen the tail already.
        let last = format!("{}.{last}", self.field.manifest_path(TAIL));
        let is_full = doc! { last: { "$exists": true } };
        match self.begin_work(is_full, &work, true).await? {
            Some(owner) => self.complete_work(owner).await,
            None => Ok(()),
        }
    }

    /// Waits for the pending work of another writer, or completes the work.
    pub(super) async fn complete_or_wait(&self, owner: ArrayState, attempt: u32) -> Result<()> {
        let Some(work) = owner.pending_work().filter(|work| !work.is_lease_expired()) else {
            return self.complete_work(owner).await;
        };
        let is_change = work.is_element_change();
        if work.is_staging() {
            // A transaction would see this work until the transaction ends, as its snapshot does not change. Run the transaction
            // again.
            if self.access.transaction_scope().is_some() {
                return Err(self.contention_error().into_transient());
            }
            retry::pause_before_retry("another write stores chunks of the array", attempt).await;
            return Ok(());
        }
        match self.run_work(owner).await {
            // The process that started the work reports the rejection to the caller.
            Err(error) if is_change && self.is_rejection(&error) => {
                retry::pause_before_retry("the change of another write was rejected", attempt)
                    .await;
                Ok(())
            }
            done => done,
        }
    }

    /// Completes the work with this token. Returns false if another writer has done so.
    pub(super) async fn complete_own_work(&self, token: ObjectId) -> Result<bool> {
        match self
            .read_state()
            .await?
            .filter(|owner| owner.has_work(token))
        {
            Some(owner) => self.complete_work(owner).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Completes pending work. If the server rejects an element change, the work ends with an error: a retry would be rejected
    /// too, and would block all later writes.
    pub(super) async fn complete_work(&self, owner: ArrayState) -> Result<()> {
        let change = owner.pending_work().filter(|work| work.is_element_change());
        let change = change.map(|work| (work.token, live_chunks_filter(self.field, &owner)));
        match (self.run_work(owner).await, change) {
            (Err(error), Some((token, filter))) if self.is_rejection(&error) => {
                let mut end_work = self.end_of_work();
                // The change may have removed some elements already.
                if let Some(filter) = filter {
                    let count = self.chunks().count_elements(&filter).await?;
                    end_work.insert("$set", doc! { self.field.manifest_path(COUNT): count });
                }
                self.update_owner(self.work_filter(token), end_work).await?;
                Err(self.rejection_error(&error))
            }
            (done, _) => done,
        }
    }

    /// Runs the remaining steps of the pending work.
    async fn run_work(&self, owner: ArrayState) -> Result<()> {
        let mut next = Some(owner);
        // Reclaimed chunks may leave a block, which must be spilled next.
        for _ in 0..3 {
            let Some((owner, manifest, work)) = next.and_then(ArrayState::into_parts) else {
                return Ok(());
            };
            match &work.kind {
                ArrayWorkKind::Spill => return self.complete_spill(&manifest, &work).await,
                ArrayWorkKind::Change {
                    change,
                    changes_count,
                } => {
                    return self
                        .complete_change(&owner, &manifest, &work, change, *changes_count)
                        .await;
                }
                ArrayWorkKind::Stage => {
                    self.reclaim_staged(&manifest, &work).await?;
                    next = self.read_state().await?;
                }
                ArrayWorkKind::Published { expected_chunks } => {
                    return self
                        .complete_published(&owner, &manifest, &work, *expected_chunks)
                        .await;
                }
                ArrayWorkKind::Sweep => return self.complete_sweep(&work).await,
            }
        }
        Ok(())
    }

    /// Inserts the block as a chunk.
    async fn complete_spill(&self, manifest: &Manifest, work: &ArrayWork) -> Result<()> {
        let field = self.field;
        let Some(generation) = manifest.generation else {
            return Ok(());
        };
        let batch = self.new_chunks(work.token, generation, manifest.next_seq);
        let instance = match work.block.is_empty() {
            true => None,
            false => batch.insert_spilled(work.block.clone()).await?,
        };
        let chunk_count = i64::from(!work.block.is_empty());
        let update = doc! {
            "$inc": {
                field.manifest_path(NEXT): chunk_count,
                field.manifest_path(COUNT): work.block.len() as i64,
            },
            "$unset": { field.pending_change: "" },
        };
        // A late process may insert a chunk again that a delete of the document has removed. Confirm the chunk only if the work was
        // still pending, so that the instance is older than a delete.
        let condition = self.work_filter(work.token);
        let is_completed = self.update_owner(condition, update).await?;
        if let (true, Some(instance)) = (is_completed, instance) {
            let mut filter = generation_filter(field, self.id, generation);
            filter.insert(CHUNK_ID_TOKEN, doc! { "$eq": work.token });
            filter.insert(PROVISIONAL_INSTANCE, doc! { "$eq": instance });
            self.chunks().confirm(&filter).await?;
        }
        Ok(())
    }

    /// Applies an element change to the chunks that have not received it yet.
    async fn complete_change(
        &self,
        owner: &ArrayState,
        manifest: &Manifest,
        work: &ArrayWork,
        change: &ElementChange,
        changes_count: bool,
    ) -> Result<()> {
        let field = self.field;
        let chunks = live_chunks_filter(field, owner);
        let mut update = self.end_of_work();
        if let Some(chunks) = chunks {
            let mut filter = chunks.clone();
            let is_applied = doc! { APPLIED_VERSION: { "$gte": manifest.version } };
            filter.insert("$nor", vec![is_applied]);
            let ElementChange {
                mut operators,
                array_filters,
            } = change.clone();
            filter.extend(changed_chunks_filter(field, &operators));
            put_operator(&mut operators, "$set", APPLIED_VERSION, manifest.version);
            self.chunks()
                .update(&filter, &operators, &array_filters)
                .await?;
            if changes_count {
                let count = self.chunks().count_elements(&chunks).await?;
                update.insert("$set", doc! { field.manifest_path(COUNT): count });
            }
        }
        let condition = self.work_filter(work.token);
        self.update_owner(condition, update).await.map(drop)
    }

    /// Deletes chunks that were being filled. No process has read the chunks yet.
    pub(super) async fn reclaim_staged(&self, manifest: &Manifest, work: &ArrayWork) -> Result<()> {
        let field = self.field;
        let mut condition = self.work_filter(work.token);
        condition.insert(field.work_path(KIND), ArrayWorkKind::Stage.name());
        let is_reclaimed = if work.block.is_empty() {
            self.remove_manifest(condition.clone(), manifest).await?
                || self.update_owner(condition, self.end_of_work()).await?
        } else {
            let spill = ArrayWork {
                block: work.block.clone(),
                ..self.new_work(ArrayWorkKind::Spill)
            };
            let set = doc! { "$set": { field.pending_change: spill.to_document()? } };
            self.update_owner(condition, set).await?
        };
        // The chunks may be published by now.
        if !is_reclaimed {
            return Ok(());
        }
        let staged = staged_chunks_filter(field, self.id, work.token);
        self.chunks().delete(&staged).await?;
        Ok(())
    }

    /// Confirms the published chunks, and deletes the generation that they replace.
    async fn complete_published(
        &self,
        owner: &ArrayState,
        manifest: &Manifest,
        work: &ArrayWork,
        expected_chunks: Option<i64>,
    ) -> Result<()> {
        let field = self.field;
        let staged = staged_chunks_filter(field, self.id, work.token);
        self.chunks().confirm(&staged).await?;
        // Confirmed chunks are not reclaimed, so the count is reliable from here on.
        if let (Some(expected_chunks), Some(generation)) = (expected_chunks, manifest.generation) {
            let filter = generation_filter(field, &owner.id, generation);
            if self.chunks().count(&filter).await? < expected_chunks {
                return super::delete::delete_incomplete_insert(self, work.token).await;
            }
        }
        self.sweep_generation(work).await?;
        let condition = self.work_filter(work.token);
        let is_ended = self.update_owner(condition, self.end_of_work()).await;
        is_ended.map(drop)
    }

    /// Deletes the chunks of an array without spilled elements.
    async fn complete_sweep(&self, work: &ArrayWork) -> Result<()> {
        self.sweep_generation(work).await?;
        let (condition, empty) = (self.work_filter(work.token), Manifest::default());
        if !self.remove_manifest(condition.clone(), &empty).await? {
            self.update_owner(condition, self.end_of_work()).await?;
        }
        Ok(())
    }

    /// Deletes the chunks of the generation that the work has made obsolete.
    async fn sweep_generation(&self, work: &ArrayWork) -> Result<()> {
        if let Some(generation) = work.swept_generation {
            let filter = generation_filter(self.field, self.id, generation);
            self.chunks().delete(&filter).await?;
        }
        Ok(())
    }

    /// Returns the update that ends pending work.
    fn end_of_work(&self) -> Document {
        doc! { "$unset": { self.field.pending_change: "" } }
    }

    /// Removes the manifest of an array without spilled elements. Returns whether the manifest was removed.
    async fn remove_manifest(&self, mut condition: Document, manifest: &Manifest) -> Result<bool> {
        if manifest.has_chunks() {
            return Ok(false);
        }
        let field = self.field;
        let first = format!("{}.0", field.manifest_path(TAIL));
        condition.insert(first, doc! { "$exists": false });
        condition.insert(field.manifest_path(NEXT), doc! { "$not": { "$gt": 0 } });
        let mut filter = self.id_filter(condition)?;
        narrow_filter(self.access, &mut filter).await?;
        let unless_empty = |name: &str| {
            let value = format!("${name}");
            let is_empty = doc! { "$eq": [&value, {}] };
            doc! { "$set": { name: { "$cond": [is_empty, "$$REMOVE", &value] } } }
        };
        let update = UpdateOperation {
            collection: self.access.model.collection.into(),
            filter,
            change: DocumentChange::Pipeline(vec![
                to_raw_document(&doc! { "$unset": [field.manifest, field.flag] })?,
                to_raw_document(&unless_empty(OVERFLOW))?,
                to_raw_document(&unless_empty(metadata::FIELD))?,
            ]),
            multi: false,
            upsert: false,
            origin: Stage::ARRAYS.step("remove the manifest"),
        };
        Ok(self.access.update(update).await?.matched > 0)
    }

    /// Returns whether the server rejected a write for good. In a transaction the answer is false: the abort undoes the whole
    /// write.
    fn is_rejection(&self, error: &Error) -> bool {
        let is_permanent = matches!(
            error.kind(),
            ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::DuplicateKey
        );
        self.access.transaction_scope().is_none()
            && (is_permanent || error.code() == Some(DOCUMENT_VALIDATION_FAILURE_CODE))
    }

    /// The error of an element change that the server rejected.
    fn rejection_error(&self, error: &Error) -> Error {
        let message = format!(
            "the server rejected a change of the spilled elements of `{}` of {}; the resident elements have changed, and some spilled \
             elements may have changed: {}",
            self.field.field,
            self.id,
            error.message()
        );
        let rejected = Error::new(error.kind(), message).with_source(error.clone());
        let rejected = match error.code() {
            Some(code) => rejected.with_code(code),
            None => rejected,
        };
        error::naming_model(self.access.model)(rejected.with_id(self.id.clone()))
    }

    /// The error after too many attempts on a contended array.
    pub(super) fn contention_error(&self) -> Error {
        let message = format!(
            "too much contention on `{}` of {}: other writes changed the array during every attempt; retry",
            self.field.field, self.id
        );
        error::naming_model(self.access.model)(Error::new(ErrorKind::Conflict, message))
    }
}

impl ArrayWork {
    /// Creates work of this process, with a new token and a new lease.
    pub(super) fn new(access: &Access, kind: ArrayWorkKind) -> Self {
        Self {
            token: ObjectId::new(),
            lease_end: access.lease().new_end(),
            kind,
            block: Vec::new(),
            swept_generation: None,
        }
    }

    /// Creates the work after the publication of chunks that this work has filled.
    pub(super) fn published(&self, access: &Access, swept: Option<ObjectId>) -> Self {
        let expected_chunks = None;
        Self {
            token: self.token,
            swept_generation: swept,
            ..Self::new(access, ArrayWorkKind::Published { expected_chunks })
        }
    }

    /// Returns whether chunks are being filled.
    pub(super) fn is_staging(&self) -> bool {
        matches!(self.kind, ArrayWorkKind::Stage)
    }

    /// Returns whether elements in chunks are being changed.
    pub(super) fn is_element_change(&self) -> bool {
        matches!(self.kind, ArrayWorkKind::Change { .. })
    }

    /// Returns whether other processes may complete the work.
    pub(super) fn is_lease_expired(&self) -> bool {
        self.lease_end <= DateTime::now()
    }
}

impl ArrayState {
    /// Returns the state with the manifest and the pending work. `None` without pending work.
    fn into_parts(self) -> Option<(Self, Manifest, ArrayWork)> {
        let manifest = self.manifest.clone()?;
        let work = manifest.work.clone()?;
        Some((self, manifest, work))
    }
}

/// Waits before the next attempt, after a concurrent write has changed the array.
pub(super) async fn pause_after_change(attempt: u32) {
    retry::pause_before_retry("the array has changed since the read", attempt).await;
}

/// Returns the attempt numbers for writes to a contended array.
pub(super) fn write_attempts() -> std::ops::RangeInclusive<u32> {
    1..=MAX_WRITE_ATTEMPTS
}

/// Adds the operators that make all elements resident and schedule the chunks for deletion.
pub(super) fn put_all_resident(
    field: &OverflowField,
    work: &ArrayWork,
    elements: &[Bson],
    operators: &mut Document,
) -> Result<()> {
    if let Some(order) = ArrayOrder::from_field(field) {
        let bound = order.bound_between(elements, &[]);
        put_operator(operators, "$set", &field.manifest_path(BOUND), bound);
    }
    let remaining = doc! {
        "$set": {
            field.pending_change: work.to_document()?,
            field.manifest_path(TAIL): [],
            field.manifest_path(NEXT): 0_i64,
            field.manifest_path(COUNT): 0_i64,
        },
        "$unset": { field.manifest_path(GENERATION): "" },
        "$inc": { field.manifest_path(VERSION): 1_i64 },
    };
    merge_update(operators, &remaining);
    Ok(())
}
