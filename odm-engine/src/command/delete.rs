use std::sync::Arc;

use bson::RawDocumentBuf;

use super::matches::Matches;
use crate::error::Result;
use crate::filter::Filter;
use crate::overlay::Overlay;
use crate::plan;

/// A deletion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delete {
    /// What the documents must match; empty for all.
    pub filter: RawDocumentBuf,
    /// Whether to delete all that match rather than the first.
    pub multi: bool,
}

/// What a deletion did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteReport {
    /// How many documents were deleted.
    pub deleted: u64,
}

pub(crate) fn run(overlay: &mut Overlay, name: &str, delete: &Delete) -> Result<DeleteReport> {
    let filter = Arc::new(Filter::parse(&delete.filter)?);
    let mut report = DeleteReport::default();
    let Some(collection) = overlay.collection(name) else {
        return Ok(report);
    };
    // The view is frozen: what is deleted here does not disturb the walk.
    let view = overlay.view().clone();
    let plan = plan::choose(&view, &collection, &filter, None)?;
    for found in Matches::new(&view, &collection, plan, filter) {
        let found = found?;
        overlay.remove(&collection, found.record, found.document()?)?;
        report.deleted += 1;
        if !delete.multi {
            break;
        }
    }
    Ok(report)
}
