//! Whether copies are as what they were taken from, and counts, sums and the latest as what they are made of.

use std::collections::HashMap;

use bson::RawDocumentBuf;

use super::{Finding, Key, by_ids, key};
use crate::{Result, access::Access, decode, maintain, schema::Model};

/// What in a batch is not as it should be.
pub(super) async fn look_at(
    access: &Access,
    model: &'static Model,
    batch: &[RawDocumentBuf],
) -> Result<Vec<(usize, Finding)>> {
    let suspect = findings(access, model, batch).await?;
    if suspect.is_empty() {
        return Ok(suspect);
    }
    // Somebody may be writing: only what is so still is a fault.
    let mut positions: HashMap<Key, usize> = HashMap::new();
    let mut ids = Vec::new();
    for (position, _) in &suspect {
        if let Some(id) = batch.get(*position).and_then(|raw| decode::id(raw))
            && positions.insert(key(id), *position).is_none()
        {
            ids.push(id);
        }
    }
    let again = by_ids(access, model, &ids, None).await?;
    let mut still = findings(access, model, &again).await?;
    for (position, _) in &mut still {
        let id = again.get(*position).and_then(|raw| decode::id(raw));
        let before = id.and_then(|id| positions.get(&key(id)));
        *position = before.copied().unwrap_or(usize::MAX);
    }
    let mut found = suspect;
    found.retain(|finding| still.contains(finding));
    Ok(found)
}

async fn findings(
    access: &Access,
    model: &'static Model,
    batch: &[RawDocumentBuf],
) -> Result<Vec<(usize, Finding)>> {
    let mut found = Vec::new();
    for copy in maintain::stale(access, model, batch).await? {
        if let Some(raw) = batch.get(copy.document) {
            found.push((copy.document, Finding::of_copy(model, raw, copy)));
        }
    }
    for count in maintain::miscounted(access, model, batch).await? {
        if let Some(raw) = batch.get(count.document) {
            found.push((count.document, Finding::of_count(model, raw, count)));
        }
    }
    Ok(found)
}
