//! The check of copies and rollups: comparing copies with the sources, and rollups with the children.

use std::collections::HashMap;

use bson::RawDocumentBuf;

use super::{ComparableId, Finding, comparable_id, find_by_ids};
use crate::{Result, model::decode, session::access::ModelAccess, write};

/// Returns the copies and rollups in a batch with a wrong value.
pub(super) async fn check_batch(
    access: ModelAccess<'_>,
    batch: &[RawDocumentBuf],
) -> Result<Vec<(usize, Finding)>> {
    let findings = find_differences(access, batch).await?;
    if findings.is_empty() {
        return Ok(findings);
    }
    // A concurrent write may have changed the values: read the documents again.
    let mut positions: HashMap<ComparableId, usize> = HashMap::new();
    let mut ids = Vec::new();
    for (position, _) in &findings {
        if let Some(id) = batch.get(*position).and_then(|raw| decode::stored_id(raw))
            && positions.insert(comparable_id(id), *position).is_none()
        {
            ids.push(id);
        }
    }
    let current = find_by_ids(access, &ids, None).await?;
    let mut confirmed = find_differences(access, &current).await?;
    for (position, _) in &mut confirmed {
        let id = current
            .get(*position)
            .and_then(|raw| decode::stored_id(raw));
        let position_before = id.and_then(|id| positions.get(&comparable_id(id)));
        *position = position_before.copied().unwrap_or(usize::MAX);
    }
    let mut results = findings;
    results.retain(|finding| confirmed.contains(finding));
    Ok(results)
}

async fn find_differences(
    access: ModelAccess<'_>,
    batch: &[RawDocumentBuf],
) -> Result<Vec<(usize, Finding)>> {
    let mut results = Vec::new();
    for copy in write::find_stale_copies(access, batch).await? {
        if let Some(raw) = batch.get(copy.batch_position) {
            results.push((
                copy.batch_position,
                Finding::of_copy(access.model, raw, copy),
            ));
        }
    }
    for count in write::find_wrong_rollups(access, batch).await? {
        if let Some(raw) = batch.get(count.batch_position) {
            results.push((
                count.batch_position,
                Finding::of_count(access.model, raw, count),
            ));
        }
    }
    Ok(results)
}
