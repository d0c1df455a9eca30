//! Recovery of abandoned pending work: work whose lease has expired, because the process that recorded the work has died.

use super::maintainer::MAINTAINERS;
use crate::{
    Result,
    pending::{expired::RecoveryReport, record::PendingKind},
    session::access::{Access, ModelAccess},
};

/// Recovers the abandoned pending work of a model: references, copies, rollups and overflow arrays. A failure in one document does
/// not stop the recovery of the rest.
pub(crate) async fn recover_abandoned(
    access: ModelAccess<'_>,
    report: &mut RecoveryReport,
) -> Result<()> {
    // Rollups and copies of a document are recovered after its references: the write of the references may have been undone.
    for kind in MAINTAINERS.iter().rev() {
        kind.recover(access, report).await?;
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

/// Runs the operations of a stage in a transaction, and runs the operations again after recovery of abandoned work.
///
/// Recovery is not possible inside of the transaction. So the stage that opens the transaction recovers, also for the stages
/// inside.
pub(super) async fn run_transactional<R, F>(
    access: ModelAccess<'_>,
    work: impl Fn(Access) -> F + Send + Sync,
) -> Result<R>
where
    R: Send,
    F: Future<Output = Result<R>> + Send,
{
    let model = access.model;
    let run = || access.run_transactional(&work);
    match model.links().is_empty() {
        true => run().await,
        false => retry_after_recovery(&access, run).await,
    }
}

/// Recovers the abandoned work on references of all models. Returns the number of recovered documents.
async fn recover_references(access: &Access) -> Result<u64> {
    let mut report = RecoveryReport::default();
    for model in access.schema_models() {
        for kind in MAINTAINERS {
            let kinds = kind.pending_kinds(access.to(model));
            let mut kinds = kinds.iter().map(|(_, kind)| *kind);
            if kinds.any(|kind| kind == PendingKind::REFERENCES) {
                kind.recover(access.to(model), &mut report).await?;
            }
        }
    }
    Ok(report.recovered)
}
