//! The check of copies and rollups: comparing copies with the sources, and rollups with the children.

use bson::RawDocumentBuf;

use super::{BatchFindings, Finding, confirm_findings};
use crate::{Result, session::access::ModelAccess, write};

/// Returns the copies and rollups in a batch with a wrong value.
pub(super) async fn check_batch(
    access: ModelAccess<'_>,
    batch: &[RawDocumentBuf],
) -> Result<BatchFindings> {
    let findings = find_differences(access, batch).await?;
    let find = async |current: Vec<RawDocumentBuf>| {
        let findings = find_differences(access, &current).await?;
        Ok((current, findings))
    };
    confirm_findings(access, batch, findings, find).await
}

async fn find_differences(
    access: ModelAccess<'_>,
    batch: &[RawDocumentBuf],
) -> Result<BatchFindings> {
    let mut results = Vec::new();
    for copy in write::find_stale_copies(access, batch).await? {
        if let Some(raw) = batch.get(copy.batch_position) {
            let position = copy.batch_position;
            results.push((position, Finding::of_copy(access.model, raw, copy)));
        }
    }
    for count in write::find_wrong_rollups(access, batch).await? {
        if let Some(raw) = batch.get(count.batch_position) {
            let position = count.batch_position;
            results.push((position, Finding::of_count(access.model, raw, count)));
        }
    }
    Ok(results)
}
