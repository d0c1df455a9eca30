//! Pending work that documents reject.

use bson::RawDocumentBuf;

use super::Finding;
use crate::{
    Result,
    access::Access,
    maintain::{promises, rejections},
    schema::Model,
};

/// Returns the blocked work in a batch with the rejecting documents.
pub(super) fn look_at(
    access: &Access,
    model: &'static Model,
    batch: &[RawDocumentBuf],
) -> Result<Vec<(usize, Finding)>> {
    let promises = promises(access, model).into_iter();
    let own = promises.filter(|(of, _)| of.collection == model.collection);
    let own: Vec<_> = own.map(|(_, promise)| promise).collect();
    let mut found = Vec::new();
    for (position, raw) in batch.iter().enumerate() {
        for promise in &own {
            for rejection in rejections(raw, *promise)? {
                found.push((position, Finding::blocked(model, raw, *promise, rejection)));
            }
        }
    }
    Ok(found)
}
