//! Abandoned pending work: documents with an expired lease.

use std::collections::BTreeSet;

use bson::{Bson, RawBson};

use super::{
    blocked::{self, Rejection, is_blocking},
    record::PendingKind,
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::Stage,
    error,
    language::query::{append_field, id_filter, single_field_document},
    model::ids::{OrderedId, none_of},
    session::access::ModelAccess,
};

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
pub(crate) struct ExpiredWork<'a> {
    access: ModelAccess<'a>,
    kind: PendingKind,
    stage: Stage,
    /// The maximum number of documents in a batch.
    batch: usize,
    seen: BTreeSet<OrderedId>,
    excluded: Vec<RawBson>,
}

impl<'a> ExpiredWork<'a> {
    pub(crate) fn new(
        access: ModelAccess<'a>,
        kind: PendingKind,
        stage: Stage,
        batch: usize,
    ) -> Self {
        Self {
            access,
            kind,
            stage,
            batch,
            seen: BTreeSet::new(),
            excluded: Vec::new(),
        }
    }

    /// Returns the ids of the next documents. `None` at the end.
    pub(crate) async fn next_batch(&mut self) -> Result<Option<ExpiredBatch>> {
        let mut filter = self.kind.expired_filter()?;
        if !self.excluded.is_empty() {
            let excluded = none_of(&self.excluded);
            append_field(&mut filter, "_id", excluded)?;
        }
        let find = self
            .access
            .find_matching(&filter)
            .with_origin(self.stage.step("read the abandoned work"))
            .with_sort(single_field_document(&self.kind.lease_path(), 1)?)
            .with_limit(self.batch as u64);
        let found = self.access.find_ids(find).await?;
        if found.is_empty() {
            return Ok(None);
        }
        let (new, repeated): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|id| self.seen.insert(OrderedId::from_id(id)));
        self.excluded.extend(repeated.iter().cloned());
        Ok(Some(ExpiredBatch { new, repeated }))
    }

    /// Excludes documents from further batches.
    pub(crate) fn exclude(&mut self, ids: impl IntoIterator<Item = RawBson>) {
        self.excluded.extend(ids);
    }

    /// Records that the work of a document could not be completed.
    pub(crate) async fn record_failure(
        &mut self,
        report: &mut RecoveryReport,
        id: RawBson,
        error: Error,
    ) -> Result<()> {
        if is_blocking(&error) {
            let filter = id_filter(&id);
            let stored_id = Bson::try_from(id.clone()).map_err(error::from_bson)?;
            let rejections = Rejection::from_error(&error, self.access.model, &stored_id);
            blocked::record_rejections(self.access, self.kind, filter, &rejections).await?;
        }
        self.exclude([id]);
        report.record_error(error)
    }
}

/// Documents with expired work.
pub(crate) struct ExpiredBatch {
    /// The documents whose work was not tried yet.
    pub(crate) new: Vec<RawBson>,
    /// The documents whose work is still recorded, or is recorded again, after an attempt.
    pub(crate) repeated: Vec<RawBson>,
}
