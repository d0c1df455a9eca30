use std::sync::Arc;

use bson::RawDocumentBuf;

use super::matches::Matches;
use super::variables;
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
    /// The values of the variables that expressions read as `$$name`.
    pub variables: RawDocumentBuf,
}

/// What a deletion did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteReport {
    /// How many documents were deleted.
    pub deleted: u64,
}

pub(crate) fn run(overlay: &mut Overlay, name: &str, delete: &Delete) -> Result<DeleteReport> {
    let limit = if delete.multi { None } else { Some(1) };
    let environment = variables::environment(&delete.variables)?;
    let filter = Filter::parse_in(&delete.filter, &environment)?;
    let deleted = matching(overlay, name, filter, limit)?;
    Ok(DeleteReport { deleted })
}

/// Deletes documents that match, up to `limit`, and returns their number.
pub(crate) fn matching(
    overlay: &mut Overlay,
    name: &str,
    filter: Filter,
    limit: Option<u64>,
) -> Result<u64> {
    let filter = Arc::new(filter);
    let Some(collection) = overlay.collection(name) else {
        return Ok(0);
    };
    // The view is frozen: what is deleted here does not disturb the walk.
    let view = overlay.view().clone();
    let plan = plan::choose(&view, &collection, &filter, None)?;
    let mut matches = Matches::new(&view, &collection, plan, filter);
    let mut deleted = 0;
    while limit.is_none_or(|limit| deleted < limit) {
        let Some(found) = matches.next().transpose()? else {
            break;
        };
        overlay.remove(&collection, found.record, found.document()?)?;
        deleted += 1;
    }
    Ok(deleted)
}
