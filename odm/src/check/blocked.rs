//! The check of pending work that documents reject.

use bson::RawDocumentBuf;

use super::{BatchFindings, Finding};
use crate::{
    Result, pending::blocked::stored_rejections, session::access::ModelAccess, write::pending_kinds,
};

/// Returns the blocked work in a batch with the rejecting documents.
pub(super) fn check_batch(
    access: ModelAccess<'_>,
    batch: &[RawDocumentBuf],
) -> Result<BatchFindings> {
    let model = access.model;
    let pending = pending_kinds(access).into_iter();
    let kinds = pending.filter(|(owning_model, _)| owning_model.collection == model.collection);
    let kinds: Vec<_> = kinds.map(|(_, kind)| kind).collect();
    let mut findings = Vec::new();
    for (position, raw) in batch.iter().enumerate() {
        for kind in &kinds {
            for rejection in stored_rejections(raw, *kind)? {
                findings.push((position, Finding::of_blocked(model, raw, *kind, rejection)));
            }
        }
    }
    Ok(findings)
}
