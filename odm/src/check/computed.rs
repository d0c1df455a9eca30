//! The check of computed fields.

use bson::RawDocumentBuf;

use super::{BatchFindings, Finding};
use crate::{Result, schema::Model, write};

/// Returns the computed fields in a batch with a wrong value. No other document is read.
pub(super) fn check_batch(model: &Model, batch: &[RawDocumentBuf]) -> Result<BatchFindings> {
    let mut findings = Vec::new();
    for (position, raw) in batch.iter().enumerate() {
        let fields = write::find_wrong_fields(model, raw)?;
        let fields = fields.into_iter();
        findings.extend(fields.map(|field| (position, Finding::of_computed(model, raw, field))));
    }
    Ok(findings)
}
