//! Follow-up work for copies after a write, and the recovery of abandoned copy work.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use super::{
    fan_out::{
        FanOutBudget, FanOutRemainder, MAX_COPY_BATCH_DOCUMENTS, NextFanOut, complete_fan_out,
        update_dependents,
    },
    layout::{CopyField, CopyGroup},
    lease::{FanOutLease, PendingFanOut, read_pending_fan_outs},
    revalidate::{revalidate_batch, revalidate_write},
};
use crate::{
    ErrorKind, Result,
    backend::{BoxFuture, operation::Stage},
    language::query::append_field,
    metadata::copy::SOURCE_VERSION,
    model::ids::one_of,
    pending::{
        expired::{ExpiredBatch, ExpiredWork, RecoveryReport},
        record::{PendingKind, PendingToken},
    },
    schema::{CopyMode, Model},
    session::{
        access::{Access, ModelAccess},
        task, trace,
    },
    write::{
        footprint::{recomputed_fields, update_touches, with_operator},
        maintainer::{ConditionalRecord, CopiedSource},
        metadata_update::paths_overlap,
    },
};

/// The follow-up work for copies after one write.
#[derive(Debug, Clone, Default)]
pub(super) struct PendingCopies {
    pub(super) fan_out: Option<(PendingToken, CopyMode)>,
    pub(super) revalidation: Option<PendingToken>,
    /// The sources of the new documents. `None` unless all documents with a pending revalidation are new.
    sources: Option<Arc<[CopiedSource]>>,
    progress: FanOutProgress,
}

/// How far the fan-out came in the transaction of the write.
#[derive(Debug, Clone, Default)]
pub(super) enum FanOutProgress {
    /// The fan-out did not run in the transaction.
    #[default]
    NotStarted,
    /// The budget was too small: dependents are left.
    Partial,
    /// All dependents that the transaction sees are updated. Holds the pending fan-outs, which stay recorded.
    Complete(Vec<PendingFanOut>),
}

impl PendingCopies {
    pub(super) fn of_fan_out(token: PendingToken, mode: CopyMode) -> Self {
        Self {
            fan_out: Some((token, mode)),
            ..Self::default()
        }
    }

    /// Returns the work that remains after the write. `is_confirmed` says that the sources did not change until after the insert,
    /// and that the records of the revalidation are removed.
    pub(super) fn after_write(
        self,
        progress: FanOutProgress,
        sources: Option<Arc<[CopiedSource]>>,
        is_confirmed: bool,
    ) -> Self {
        Self {
            progress,
            sources,
            revalidation: self.revalidation.filter(|_| !is_confirmed),
            ..self
        }
    }

    /// Whether the fan-out starts in the transaction of the write.
    pub(super) fn starts_in_transaction(&self) -> bool {
        match self.fan_out {
            Some((_, CopyMode::Bounded | CopyMode::Sync)) => true,
            Some((_, CopyMode::Background | CopyMode::Snapshot)) | None => false,
        }
    }

    /// Runs the fan-out in the transaction of the write, within the budget. Dependents that the transaction does not see are
    /// updated after the commit.
    pub(super) async fn fan_out_in_transaction(
        &self,
        access: ModelAccess<'_>,
    ) -> Result<FanOutProgress> {
        let Some((token, mode)) = self.fan_out else {
            return Ok(FanOutProgress::NotStarted);
        };
        let mut budget = FanOutBudget::for_mode(mode);
        let full_access = access.with_full_visibility();
        let full_access = full_access.to(access.model);
        let filter = token.token_filter(PendingKind::FAN_OUT)?;
        let fan_outs = read_pending_fan_outs(full_access, filter, None).await?;
        let mut remainder = FanOutRemainder::default();
        let mut is_complete = true;
        for fan_out in &fan_outs {
            is_complete =
                update_dependents(full_access, fan_out, &mut budget, &mut remainder).await?;
            if !is_complete {
                break;
            }
        }
        run_next_fan_outs(&full_access, remainder.next, budget).await?;
        Ok(match is_complete {
            true => FanOutProgress::Complete(fan_outs),
            false => FanOutProgress::Partial,
        })
    }

    /// Runs the follow-up work after the write. A background fan-out and the revalidation run in tasks of their own.
    pub(super) async fn run_after_write(self, access: Access, model: &'static Model) {
        let full_access = access.with_full_visibility();
        if let Some(token) = self.revalidation {
            // Without a free slot, the write waits here. This limits the number of concurrent revalidations.
            let background = &full_access.shared_state().background;
            let slot = background.revalidation_slot().await;
            let (full_access, sources) = (full_access.in_background(), self.sources);
            task::spawn(async move {
                let _running_task = full_access.shared_state().background.start_task();
                let result =
                    revalidate_write(full_access.to(model), token, sources.as_deref()).await;
                log_failure(model, &result);
                drop(slot);
            });
        }
        let Some((token, mode)) = self.fan_out else {
            return;
        };
        match self.progress {
            FanOutProgress::NotStarted => {
                let budget = FanOutBudget::for_mode(mode);
                let result = run_fan_outs(full_access.to(model), token, budget).await;
                log_failure(model, &result);
            }
            FanOutProgress::Partial => fan_out_later(full_access.to(model), token).await,
            // Only dependents that the transaction did not see are left.
            FanOutProgress::Complete(fan_outs) => {
                let mut budget = FanOutBudget::UnlimitedUncounted;
                let mut next = Vec::new();
                for fan_out in &fan_outs {
                    let sources = full_access.to(model);
                    let result = complete_fan_out(sources, fan_out, &mut budget, &mut next).await;
                    log_failure(model, &result.map(drop));
                }
                let result = run_next_fan_outs(&full_access, next, budget).await;
                log_failure(model, &result);
            }
        }
    }

    /// Runs the follow-up work after the surrounding transaction, or in a task of its own. The caller does not wait.
    pub(super) fn run_in_background(self, access: ModelAccess<'_>) {
        let model = access.model;
        match access.transaction_scope() {
            _ if self.is_empty() => {}
            Some(scope) => scope.add_post_commit(Box::new(move |access| {
                Box::pin(async move {
                    self.run_after_write(access, model).await;
                    Ok(())
                })
            })),
            None => drop(task::spawn(
                self.run_after_write(access.in_background(), model),
            )),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fan_out.is_none() && self.revalidation.is_none()
    }
}

/// Logs a failure. The work stays recorded in the document, so a later recovery runs the work again.
fn log_failure(model: &Model, result: &Result<()>) {
    if let Err(error) = result {
        trace::log_still_pending("fan-out or revalidation", Some(model), error);
    }
}

/// Records a pending fan-out in an update that writes a copied field. Returns the token, the copy mode, and the record, which only
/// a change of a copied value needs.
pub(super) fn add_pending_fan_out(
    access: ModelAccess<'_>,
    dependents: &[CopyGroup],
    update: &mut RawDocumentBuf,
) -> Result<Option<((PendingToken, CopyMode), ConditionalRecord)>> {
    let changed = changed_copies(access.model, dependents, update);
    let (modes, mut paths): (Vec<_>, Vec<_>) = changed
        .map(|(_, copied)| (copied.mode, copied.source_path.clone()))
        .unzip();
    if modes.is_empty() {
        return Ok(None);
    }
    paths.sort_unstable();
    paths.dedup();
    let token = PendingToken::with_new_lease(access.lease());
    *update = with_operator(update, "$inc", SOURCE_VERSION, 1_i64.into())?;
    let (path, record) = (PendingKind::FAN_OUT.record_path(), token.to_raw()?);
    *update = with_operator(update, "$set", path, record)?;
    let record = ConditionalRecord {
        paths,
        marks: [
            ("$inc", SOURCE_VERSION),
            ("$set", PendingKind::FAN_OUT.record_path()),
        ],
    };
    Ok(Some(((token, slowest_mode(&modes)), record)))
}

/// Returns the copy mode that makes the write wait longest.
pub(super) fn slowest_mode(modes: &[CopyMode]) -> CopyMode {
    let slowest = modes.iter().max_by_key(|mode| match mode {
        CopyMode::Snapshot => 0,
        CopyMode::Background => 1,
        CopyMode::Bounded => 2,
        CopyMode::Sync => 3,
    });
    slowest.copied().unwrap_or(CopyMode::Background)
}

/// Returns the copies of the fields that an update writes or recomputes.
pub(super) fn changed_copies<'d>(
    model: &Model,
    dependents: &'d [CopyGroup],
    update: &RawDocument,
) -> impl Iterator<Item = (&'d CopyGroup, &'d CopyField)> {
    let computed = recomputed_fields(model, update);
    let fields = dependents
        .iter()
        .flat_map(|group| group.fan_out_fields().map(move |field| (group, field)));
    fields.filter(move |(_, copied)| {
        let mut computed = computed.iter();
        update_touches(update, &copied.source_path)
            || computed.any(|field| paths_overlap(field, &copied.source_path))
    })
}

/// Runs the fan-out for all documents of a write, and the fan-outs that follow, within the budget. What exceeds the budget runs in a
/// background task.
///
/// # Errors
///
/// [`StillPending`](ErrorKind::StillPending) if dependents reject copies, after the fan-out of all other sources.
pub(super) async fn run_fan_outs(
    access: ModelAccess<'_>,
    token: PendingToken,
    mut budget: FanOutBudget,
) -> Result<()> {
    let mut next = Vec::new();
    let result = complete_fan_outs(access, token, &mut budget, &mut next).await;
    run_next_fan_outs(&access, next, budget).await?;
    result
}

/// Runs the fan-outs that follow from other fan-outs, until none is left.
///
/// A chain of copies can be as long as a chain of documents, so the fan-outs wait in a list instead of on the stack. A wait does not
/// hold a transaction either. In the caller's transaction all of them join it.
///
/// A rejection does not stop the others: the rejected document's source has a pending fan-out of its own.
pub(super) async fn run_next_fan_outs(
    access: &Access,
    mut next: Vec<NextFanOut>,
    budget: FanOutBudget,
) -> Result<()> {
    let mut budget = match budget {
        // Few changed dependents can have many dependents of their own: count these.
        FanOutBudget::UnlimitedUncounted => FanOutBudget::Unlimited,
        other => other,
    };
    while let Some(NextFanOut { model, token, mode }) = next.pop() {
        let access = access.to(model);
        if access.transaction_scope().is_none() {
            match complete_fan_outs(access, token, &mut budget, &mut next).await {
                Err(error) if error.kind() == ErrorKind::StillPending => {}
                result => result?,
            }
            continue;
        }
        let filter = token.token_filter(PendingKind::FAN_OUT)?;
        // In a transaction the first rejection is the error.
        let mut remainder = FanOutRemainder::default();
        for fan_out in read_pending_fan_outs(access, filter, None).await? {
            update_dependents(access, &fan_out, &mut budget, &mut remainder).await?;
        }
        next.extend(remainder.next);
        // The transaction does not see dependents that are inserted concurrently: repeat the fan-out after the commit.
        PendingCopies::of_fan_out(token, mode).run_in_background(access);
    }
    Ok(())
}

/// Runs the fan-out for all documents of a write, within the budget, and adds the fan-outs that follow to `next`.
///
/// # Errors
///
/// [`StillPending`](ErrorKind::StillPending) if dependents reject copies, after the fan-out of all other sources.
async fn complete_fan_outs(
    access: ModelAccess<'_>,
    token: PendingToken,
    budget: &mut FanOutBudget,
    next: &mut Vec<NextFanOut>,
) -> Result<()> {
    let mut blocked = None;
    loop {
        let filter = token.token_filter(PendingKind::FAN_OUT)?;
        let batch = read_pending_fan_outs(access, filter, Some(MAX_COPY_BATCH_DOCUMENTS)).await?;
        let count: usize = batch.iter().map(|fan_out| fan_out.sources.len()).sum();
        for fan_out in batch {
            match complete_fan_out(access, &fan_out, budget, next).await {
                Ok(true) => {}
                Ok(false) => {
                    fan_out_later(access, token).await;
                    return Ok(());
                }
                // The record of rejections delays the next attempt: the next read does not return the blocked sources.
                Err(error) if error.kind() == ErrorKind::StillPending => {
                    blocked.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        if count < MAX_COPY_BATCH_DOCUMENTS {
            return blocked.map_or(Ok(()), Err);
        }
    }
}

/// Continues a fan-out in a background task, after the budget was used.
async fn fan_out_later(access: ModelAccess<'_>, token: PendingToken) {
    let background = &access.shared_state().background;
    let slot = background.waiting_fan_out_slot().await;
    let remaining = run_remaining(access.in_background(), access.model, token);
    task::spawn(async move {
        remaining.await;
        drop(slot);
    });
}

fn run_remaining(
    access: Access,
    model: &'static Model,
    token: PendingToken,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let background = &access.shared_state().background;
        let _running_task = background.start_task();
        let _slot = background.fan_out_slot().await;
        // Without a limit: a fan-out that continued in another task would wait for a slot while it holds one.
        let result = run_fan_outs(access.to(model), token, FanOutBudget::Unlimited).await;
        log_failure(model, &result);
    })
}

/// Recovers the abandoned copy work of a model. A failure does not stop the remaining work.
pub(super) async fn recover_model(
    access: ModelAccess<'_>,
    report: &mut RecoveryReport,
) -> Result<()> {
    recover_revalidations(access, report).await?;
    recover_fan_outs(access, report).await
}

async fn recover_revalidations(access: ModelAccess<'_>, report: &mut RecoveryReport) -> Result<()> {
    if !super::is_dependent(access.model) {
        return Ok(());
    }
    let (kind, batch) = (PendingKind::REVALIDATE, MAX_COPY_BATCH_DOCUMENTS);
    let mut expired = ExpiredWork::new(access, kind, Stage::COPIES, batch);
    while let Some(ExpiredBatch { new, .. }) = expired.next_batch().await? {
        let mut filter = kind.expired_filter()?;
        append_field(&mut filter, "_id", one_of(&new))?;
        match revalidate_batch(access, &filter).await {
            Ok(batch) => {
                report.recovered += batch.documents;
                if let Some(error) = batch.blocked {
                    report.record_error(error)?;
                }
            }
            Err(error) => {
                report.record_error(error)?;
                expired.exclude(new);
            }
        }
    }
    Ok(())
}

async fn recover_fan_outs(access: ModelAccess<'_>, report: &mut RecoveryReport) -> Result<()> {
    if !super::is_source(access) {
        return Ok(());
    }
    let (kind, batch) = (PendingKind::FAN_OUT, MAX_COPY_BATCH_DOCUMENTS);
    let mut expired = ExpiredWork::new(access, kind, Stage::COPIES, batch);
    while let Some(ExpiredBatch { new, .. }) = expired.next_batch().await? {
        let mut filter = kind.expired_filter()?;
        append_field(&mut filter, "_id", one_of(&new))?;
        // Several sources of one write share a fan-out.
        let mut next = Vec::new();
        for mut fan_out in read_pending_fan_outs(access, filter, None).await? {
            let budget = &mut FanOutBudget::Unlimited;
            let result = match FanOutLease::take_over(access, &mut fan_out).await {
                Ok(false) => continue,
                Ok(true) => complete_fan_out(access, &fan_out, budget, &mut next).await,
                Err(error) => Err(error),
            };
            match result {
                Ok(_) => report.recovered += fan_out.sources.len() as u64,
                Err(error) => {
                    report.record_error(error)?;
                    expired.exclude(fan_out.source_ids().cloned());
                }
            }
        }
        let result = run_next_fan_outs(&access, next, FanOutBudget::Unlimited).await;
        if let Err(error) = result {
            report.record_error(error)?;
        }
    }
    Ok(())
}
