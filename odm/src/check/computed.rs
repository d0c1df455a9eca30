//! Whether computed fields are what they are to be.

use bson::RawDocumentBuf;

use super::Finding;
use crate::{Result, maintain, schema::Model};

/// The computed fields in a batch that are not what they are to be: each document tells by itself.
pub(super) fn look_at(model: &Model, batch: &[RawDocumentBuf]) -> Result<Vec<(usize, Finding)>> {
    let mut found = Vec::new();
    for (position, raw) in batch.iter().enumerate() {
        let wrong = maintain::miscomputed(model, raw)?;
        let wrong = wrong.into_iter();
        found.extend(wrong.map(|field| (position, Finding::of_computed(model, raw, field))));
    }
    Ok(found)
}
