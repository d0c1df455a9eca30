//! Recovery of abandoned pending work: work whose lease has expired, because the process that recorded the work has died.

use std::collections::BTreeSet;

use bson::{Bson, DateTime, RawBson};

use super::{
    PendingKind, Rejection,
    blocked::{self, is_blocking},
    maintainer::MAINTAINERS,
};

use crate::{
    Error, ErrorKind, Result,
    access::{Access, find_matching},
    backend::operation::{FindOperation, Stage},
    decode, error,
    ids::{OrderedId, id_array},
    query::{append_field, id_filter, single_field_document},
    schema::Model,
};

/// Recovers the abandoned pending work of a model: references, copies, rollups and overflow arrays. A failure in one document does
/// not stop the recovery of the rest.
pub(crate) async fn recover_abandoned(
    access: &Access,
    model: &'static Model,
    report: &mut RecoveryReport,
) -> Result<()> {
    // Rollups and copies of a document are recovered after its references: the write of the references may have been undone.
    for kind in MAINTAINERS.iter().rev() {
        kind.recover(access, model, report).await?;
    }
    Ok(())
}

/// Runs an operation, and runs the operation again after recovery of abandoned work.
///
/// A tombstone or an intent record of a crashed process causes the same conflict in every attempt. Recovery removes the cause.
pub(super) async fn retry_after_recovery<R, F>(access: &Access, run: impl Fn() -> F) -> Result<R>
where
    F: Future<Output = Result<R>>,
{
    let outcome = run().await;
    if let Err(error) = &outcome
        && error.is_conflict()
        && !error.is_transient()
        && access.transaction_scope().is_none()
        && access.has_transactions()
        && recover_references(&access.with_full_visibility()).await? > 0
    {
        return run().await;
    }
    outcome
}

/// Recovers the abandoned work on references of all models. Returns the number of recovered documents.
async fn recover_references(access: &Access) -> Result<u64> {
    let mut report = RecoveryReport::default();
    for model in access.schema_models() {
        for kind in MAINTAINERS {
            let kinds = kind.pending_kinds(access, model);
            let mut kinds = kinds.iter().map(|(_, kind)| *kind);
            if kinds.any(|kind| kind == PendingKind::REFERENCES) {
                kind.recover(access, model, &mut report).await?;
            }
        }
    }
    Ok(report.recovered)
}

/// The result of a recovery run.
#[derive(Debug, Default)]
pub(crate) struct RecoveryReport {
    /// The number of recovered documents.
    pub(crate) recovered: u64,
    /// The error of the first document that could not be recovered.
    pub(crate) first_error: Option<Error>,
}

impl RecoveryReport {
    /// Records the error of a document that could not be recovered.
    ///
    /// # Errors
    ///
    /// Returns a connection error without a document id: the database is unreachable, so the run ends.
    pub(crate) fn record_error(&mut self, error: Error) -> Result<()> {
        if error.id().is_none() && error.kind() == ErrorKind::Connection {
            return Err(error);
        }
        self.first_error.get_or_insert(error);
        Ok(())
    }
}

/// The documents of a model with expired work of one kind, in batches. Each document is returned once.
///
/// Work that is recorded again during the run is left to the next run. Otherwise two processes with different clocks would repeat
/// the same work without end.
pub(super) struct ExpiredWork<'a> {
    access: &'a Access,
    model: &'static Model,
    kind: PendingKind,
    stage: Stage,
    /// The maximum number of documents in a batch.
    batch: usize,
    seen: BTreeSet<OrderedId>,
    excluded: Vec<RawBson>,
}

impl<'a> ExpiredWork<'a> {
    pub(super) fn new(
        access: &'a Access,
        model: &'static Model,
        kind: PendingKind,
        stage: Stage,
        batch: usize,
    ) -> Self {
        Self {
            access,
            model,
            kind,
            stage,
            batch,
            seen: BTreeSet::new(),
            excluded: Vec::new(),
        }
    }

    /// Returns the ids of the next documents. `None` at the end.
    pub(super) async fn next_batch(&mut self) -> Result<Option<ExpiredBatch>> {
        let expired = single_field_document("$lte", DateTime::now())?;
        let mut filter = single_field_document(&self.kind.lease_path(), expired)?;
        if !self.excluded.is_empty() {
            let excluded = single_field_document("$nin", id_array(&self.excluded))?;
            append_field(&mut filter, "_id", excluded)?;
        }
        let find = FindOperation {
            projection: Some(single_field_document("_id", 1)?),
            sort: Some(single_field_document(&self.kind.lease_path(), 1)?),
            limit: Some(self.batch as u64),
            options: self.stage.step("read the abandoned work").into(),
            ..find_matching(&self.model.collection.into(), &filter)
        };
        let found = self.access.find_all(self.model, find).await?;
        if found.is_empty() {
            return Ok(None);
        }
        let ids = found.iter().filter_map(|raw| decode::stored_id(raw));
        let (new, repeated): (Vec<_>, Vec<_>) = ids
            .map(RawBson::from)
            .partition(|id| self.seen.insert(OrderedId::from_id(id)));
        self.excluded.extend(repeated.iter().cloned());
        Ok(Some(ExpiredBatch { new, repeated }))
    }

    /// Excludes documents from further batches.
    pub(super) fn exclude(&mut self, ids: impl IntoIterator<Item = RawBson>) {
        self.excluded.extend(ids);
    }

    /// Records that the work of a document could not be completed.
    pub(super) async fn record_failure(
        &mut self,
        report: &mut RecoveryReport,
        id: RawBson,
        error: Error,
    ) -> Result<()> {
        if is_blocking(&error) {
            let filter = id_filter(&id)?;
            let stored_id = Bson::try_from(id.clone()).map_err(error::from_bson)?;
            let rejections = Rejection::from_error(&error, self.model, &stored_id);
            blocked::record_rejections(self.access, self.model, self.kind, filter, &rejections)
                .await?;
        }
        self.exclude([id]);
        report.record_error(error)
    }
}

/// Documents with expired work.
pub(super) struct ExpiredBatch {
    /// The documents whose work was not tried yet.
    pub(super) new: Vec<RawBson>,
    /// The documents whose work is still recorded, or is recorded again, after an attempt.
    pub(super) repeated: Vec<RawBson>,
}
