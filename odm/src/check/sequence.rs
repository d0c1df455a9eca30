//! The check of sequence numbers.

use bson::RawDocumentBuf;

use super::{BatchFindings, Finding, FindingKind};
use crate::{schema::Model, write};

/// Returns the missing numbers in a batch. No other document is read: the unique index keeps the numbers distinct.
pub(super) fn check_batch(model: &Model, batch: &[RawDocumentBuf]) -> BatchFindings {
    let mut findings = Vec::new();
    for (position, raw) in batch.iter().enumerate() {
        for field in write::missing_numbers(model, raw) {
            let finding = Finding::new(model, raw, field, FindingKind::MissingNumber);
            findings.push((position, finding));
        }
    }
    findings
}
