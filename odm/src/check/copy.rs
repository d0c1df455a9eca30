//! Whether copies are as what they were taken from.

use std::collections::HashMap;

use bson::RawDocumentBuf;

use super::{Finding, Key, by_ids, key};
use crate::{Result, access::Access, decode, maintain, schema::Model};

/// The copies in a batch that are not as their sources.
pub(super) async fn look_at(
    access: &Access,
    model: &Model,
    batch: &[RawDocumentBuf],
) -> Result<Vec<(usize, Finding)>> {
    let suspect = maintain::stale(access, model, batch).await?;
    if suspect.is_empty() {
        return Ok(Vec::new());
    }
    // Somebody may be writing: only what is so still is a fault.
    let mut positions: HashMap<Key, usize> = HashMap::new();
    let mut ids = Vec::new();
    for copy in &suspect {
        if let Some(id) = batch.get(copy.document).and_then(|raw| decode::id(raw))
            && positions.insert(key(id), copy.document).is_none()
        {
            ids.push(id);
        }
    }
    let again = by_ids(access, model, &ids, None).await?;
    let mut found = Vec::new();
    for copy in maintain::stale(access, model, &again).await? {
        let id = again.get(copy.document).and_then(|raw| decode::id(raw));
        let position = id.and_then(|id| positions.get(&key(id)));
        let is_so_still = |other: &&maintain::StaleCopy| {
            Some(&other.document) == position && other.path == copy.path && other.is == copy.is
        };
        if let Some(position) = position
            && let Some(raw) = batch.get(*position)
            && suspect.iter().any(|other| is_so_still(&other))
        {
            found.push((*position, Finding::of_copy(model, raw, copy)));
        }
    }
    Ok(found)
}
