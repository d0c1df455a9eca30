//! Bulk writes: several writes in one command.

use tracing::Instrument;

use super::{
    DeleteMode, Footprint, SourceCache, WriteOperation, add_insert_metadata, add_managed_fields,
    computed,
    delete_mode::soft_delete,
    ensure_unique_indexes,
    maintainer::{Next, WriteContext},
    narrow_write_filter, run_stages,
};
use crate::{
    Error, Result,
    backend::{
        operation,
        operation::{
            BulkItem, BulkItemOutcome, BulkWrite, BulkWriteResult, InsertOperation,
            OperationOrigin, Unmatched,
        },
    },
    error,
    schema::Model,
    session::{access::Access, transaction_scope},
};

/// A write of a bulk, with managed fields.
#[derive(Debug, Clone)]
pub(crate) struct BulkWriteEntry {
    access: Access,
    model: &'static Model,
    item: BulkItem,
    is_soft_delete: bool,
}

impl BulkWriteEntry {
    /// Creates a write of a bulk.
    ///
    /// # Errors
    ///
    /// As [`WriteRequest::new`](super::WriteRequest::new), and the errors of an invalid delete.
    pub(crate) fn new(
        access: &Access,
        model: &'static Model,
        mut item: BulkItem,
        mode: DeleteMode,
    ) -> Result<Self> {
        let mut is_soft_delete = false;
        if let operation::BulkOperation::Delete(delete) = &item.write
            && let Some(update) = soft_delete(model, delete, mode)?
        {
            is_soft_delete = true;
            item.write = operation::BulkOperation::Update(update);
        }
        match &mut item.write {
            operation::BulkOperation::Insert { document, .. } => {
                add_insert_metadata(document, model)?
            }
            operation::BulkOperation::Update(update) => {
                add_managed_fields(&mut update.change, model)?
            }
            operation::BulkOperation::Delete(_) => {}
        }
        Ok(Self {
            access: access.clone(),
            model,
            item,
            is_soft_delete,
        })
    }

    /// Sets the effect of a write that matches no document.
    pub(crate) fn with_unmatched(mut self, unmatched: Unmatched) -> Self {
        self.item.unmatched = unmatched;
        self
    }

    /// Narrows the filter of the write to the model, the scope and the current version of documents.
    ///
    /// The access of the write applies, not the access of the bulk: each write may come from another scope.
    pub(crate) async fn into_narrowed(mut self) -> Result<NarrowedBulkWrite> {
        let (access, model) = (&self.access, self.model);
        match &mut self.item.write {
            operation::BulkOperation::Insert { .. } => {}
            operation::BulkOperation::Update(update) => {
                narrow_write_filter(access.to(model), &mut update.filter, !update.multi).await?;
            }
            operation::BulkOperation::Delete(delete) => {
                narrow_write_filter(access.to(model), &mut delete.filter, !delete.multi).await?;
            }
        }
        let footprint = match &self.item.write {
            operation::BulkOperation::Insert { document, .. } => {
                Footprint::Inserts(std::slice::from_ref(document))
            }
            operation::BulkOperation::Update(update) => Footprint::Changes(&update.change),
            operation::BulkOperation::Delete(_) => Footprint::Removes,
        };
        let cx = WriteContext::of_follow_up(access.to(model));
        let mut needs_stages = Next::before_computed().is_affected(&cx, &footprint);
        if let (operation::BulkOperation::Update(update), false) =
            (&mut self.item.write, needs_stages)
        {
            needs_stages = !computed::try_as_one_update(model, &mut update.change)?;
        }
        Ok(NarrowedBulkWrite {
            entry: self,
            needs_stages,
        })
    }
}

/// A write of a bulk with a narrowed filter, ready to send.
#[derive(Debug, Clone)]
pub(crate) struct NarrowedBulkWrite {
    entry: BulkWriteEntry,
    /// Whether the write needs stages of its own: references, copies, rollups, overflow arrays, or a second update for computed
    /// fields.
    needs_stages: bool,
}

impl NarrowedBulkWrite {
    /// Returns the kind of batch that can contain the write. A write with stages of its own is sent alone.
    pub(crate) fn batch_kind(&self) -> BatchKind {
        if self.needs_stages {
            BatchKind::Alone
        } else if self.entry.is_soft_delete {
            BatchKind::SoftDeletes
        } else {
            BatchKind::Plain
        }
    }

    /// Runs the write alone, with all stages.
    async fn run_alone(self) -> Result<BulkWriteResult> {
        let unmatched = self.entry.item.unmatched;
        let mut totals = BulkWriteResult::default();
        let result = match self.entry.run_stages_into(&mut totals).await {
            Ok(0) if unmatched != Unmatched::Ignore => BulkItemOutcome::NotApplied,
            Ok(_) => BulkItemOutcome::Applied,
            Err(error) => BulkItemOutcome::Failed(error),
        };
        totals.results = vec![result];
        Ok(totals)
    }
}

impl BulkWriteEntry {
    /// Runs all stages of the write. Returns the number of affected documents.
    async fn run_stages_into(self, totals: &mut BulkWriteResult) -> Result<u64> {
        let cx = WriteContext::new(self.access, self.model, SourceCache::default());
        Ok(match self.item.write {
            operation::BulkOperation::Insert {
                collection,
                document,
            } => {
                let insert = InsertOperation {
                    collection,
                    documents: vec![document],
                    ordered: true,
                    origin: OperationOrigin::default(),
                };
                let inserted = run_stages(cx, insert.into()).await;
                totals.inserted = inserted.map_err(Error::without_inserted)?.matched;
                totals.inserted
            }
            operation::BulkOperation::Update(update) => {
                let updated = run_stages(cx, update.into()).await?;
                (totals.matched, totals.modified) = (updated.matched, updated.modified);
                updated.matched
            }
            operation::BulkOperation::Delete(delete) => {
                let delete = WriteOperation::Delete(delete);
                let deleted = run_stages(cx, delete).await?;
                totals.deleted = deleted.matched;
                totals.deleted
            }
        })
    }
}

/// A kind of batch: writes that one command can contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchKind {
    Plain,
    /// Soft deletes, which are updates. The result counts their matched documents as deleted.
    SoftDeletes,
    /// A batch with a single write, which runs in a transaction of its own.
    Alone,
}

/// Runs a batch of writes to its end. A bulk must not stop half-way when the caller drops the future.
///
/// All writes are of one [kind](BatchKind), because a backend returns only totals.
pub(crate) async fn run_bulk(
    access: Access,
    narrowed_writes: Vec<NarrowedBulkWrite>,
    ordered: bool,
) -> Result<BulkWriteResult> {
    transaction_scope::ensure_in_transaction(&access)?;
    let inserts = |write: &&NarrowedBulkWrite| {
        matches!(
            write.entry.item.write,
            operation::BulkOperation::Insert { .. }
        )
    };
    for write in narrowed_writes.iter().filter(inserts) {
        ensure_unique_indexes(access.to(write.entry.model)).await?;
    }
    let metrics = access.clone();
    let kind = narrowed_writes.first().map(NarrowedBulkWrite::batch_kind);
    let is_soft_delete = narrowed_writes
        .iter()
        .all(|write| write.entry.is_soft_delete);
    let models = narrowed_writes.iter().map(|write| write.entry.model);
    let models: Vec<_> = models.collect();
    let run = async move {
        let mut narrowed_writes = narrowed_writes;
        match (kind, narrowed_writes.pop()) {
            (Some(BatchKind::Alone), Some(write)) if narrowed_writes.is_empty() => {
                write.run_alone().await
            }
            (_, last) => {
                let writes = narrowed_writes.into_iter().chain(last);
                let bulk = BulkWrite {
                    writes: writes.map(|write| write.entry.item).collect(),
                    ordered,
                    origin: OperationOrigin::default(),
                };
                access.bulk_write(bulk).await
            }
        }
    };
    let span = metrics.operation_metrics().tracing_span().clone();
    let outcome = transaction_scope::run_write(run.instrument(span)).await;
    let mut outcome = outcome.map_err(|error| metrics.note_conflict(error))?;
    metrics
        .operation_metrics()
        .add_documents(outcome.inserted + outcome.matched + outcome.deleted);
    if is_soft_delete {
        outcome.deleted += std::mem::take(&mut outcome.matched);
        outcome.modified = 0;
    }
    for (result, model) in outcome.results.iter_mut().zip(models) {
        if let BulkItemOutcome::Failed(error) = result {
            *error = error::naming_model(model)(computed::expression_error(error.clone()));
        }
    }
    Ok(outcome)
}
