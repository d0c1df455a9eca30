use std::sync::Arc;

use bson::{RawBson, RawDocumentBuf};

use super::matches::MatchIterator;
use super::{parse_hint, variables};
use crate::collation::Collation;
use crate::error::Result;
use crate::filter::Filter;
use crate::overlay::WriteOverlay;
use crate::plan::{self, IndexHint, PlanRequest};

/// A deletion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delete {
    /// The filter of the documents; an empty filter matches all.
    pub filter: RawDocumentBuf,
    /// Whether to delete all matching documents instead of the first.
    pub multi: bool,
    /// The values of variables, which expressions read as `$$name`.
    pub variables: RawDocumentBuf,
    /// The index to use: its name, its key, or `{ $natural: 1 }` or `-1` for a collection scan. The planner chooses if `None`.
    pub hint: Option<RawBson>,
    /// The order of strings in every comparison; `None` compares byte by byte. An index serves comparisons of strings only if it has the
    /// same collation.
    pub collation: Option<Collation>,
}

/// The report of a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteReport {
    /// The number of deleted documents.
    pub deleted: u64,
}

pub(crate) fn run_delete(
    overlay: &mut WriteOverlay,
    name: &str,
    delete: &Delete,
) -> Result<DeleteReport> {
    let limit = if delete.multi { None } else { Some(1) };
    let environment = variables::parse_environment(&delete.variables, delete.collation.as_ref())?;
    let filter = Filter::parse_for_command(&delete.filter, &environment)?;
    let hint = parse_hint(delete.hint.as_ref())?;
    let deleted = delete_matching(overlay, name, filter, limit, hint.as_ref())?;
    Ok(DeleteReport { deleted })
}

/// Deletes up to `limit` matching documents, and returns the number of deleted documents.
pub(crate) fn delete_matching(
    overlay: &mut WriteOverlay,
    name: &str,
    filter: Filter,
    limit: Option<u64>,
    hint: Option<&IndexHint>,
) -> Result<u64> {
    let filter = Arc::new(filter);
    let Some(collection) = overlay.collection(name) else {
        return Ok(0);
    };
    // The view is immutable, so deletions do not affect the scan.
    let view = overlay.view().clone();
    let question = PlanRequest {
        hint,
        ..PlanRequest::new(&filter)
    };
    let plan = plan::choose_plan(&view, &collection, &question)?;
    let mut matches = MatchIterator::new(&view, &collection, plan, Arc::clone(&filter));
    let mut deleted = 0;
    while limit.is_none_or(|limit| deleted < limit) {
        let Some(document) = matches.next().transpose()? else {
            break;
        };
        overlay.remove(&collection, document.record, document.as_document()?)?;
        deleted += 1;
    }
    Ok(deleted)
}
