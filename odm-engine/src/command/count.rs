use std::sync::Arc;

use bson::{RawBson, RawDocumentBuf};

use super::matches::MatchIterator;
use super::{ReadState, parse_hint, variables};
use crate::collation::Collation;
use crate::direction::Direction;
use crate::error::Result;
use crate::filter::Filter;
use crate::plan::{self, PlanRequest, QueryPlan, ReadSet};

/// A count of documents.
///
/// ```
/// use bson::rawdoc;
/// use odm_engine::{Count, Database};
///
/// let database = Database::memory();
/// database.insert("c", (0..5).map(|id| rawdoc! { "_id": id }).collect())?.into_result()?;
/// let count = Count { filter: rawdoc! { "_id": { "$gt": 0 } }, skip: 1, ..Count::default() };
/// assert_eq!(database.count("c", &count)?, 3);
/// # Ok::<(), odm_engine::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Count {
    /// The filter of the documents; an empty filter matches all.
    pub filter: RawDocumentBuf,
    /// The number of matching documents to skip.
    pub skip: u64,
    /// The largest count; unlimited if `None`.
    pub limit: Option<u64>,
    /// The index to use: its name, its key, or `{ $natural: 1 }` or `-1` for a collection scan. The planner chooses if `None`.
    pub hint: Option<RawBson>,
    /// The order of strings in every comparison; `None` compares byte by byte. An index serves comparisons of strings only if it has the
    /// same collation.
    pub collation: Option<Collation>,
}

pub(crate) fn run_count(reading: ReadState<'_>, name: &str, count: &Count) -> Result<u64> {
    let no_variables = RawDocumentBuf::new();
    let environment = variables::parse_environment(&no_variables, count.collation.as_ref())?;
    let filter = Arc::new(Filter::parse_for_command(&count.filter, &environment)?);
    let hint = parse_hint(count.hint.as_ref())?;
    let Some(collection) = reading.catalog.get(name) else {
        return Ok(0);
    };
    let question = PlanRequest {
        hint: hint.as_ref(),
        // A count reads only the fields of the filter.
        reads: ReadSet::Paths(Vec::new()),
        ..PlanRequest::new(&filter)
    };
    // As on MongoDB, counting all documents needs no index, and is allowed even if scans are forbidden.
    let plan = if count.filter.is_empty() && hint.is_none() {
        QueryPlan::collection_scan(Direction::Ascending)
    } else {
        plan::choose_plan(reading.view, collection, &question)?
    };
    let mut matches = MatchIterator::new(reading.view, collection, plan, Arc::clone(&filter));
    let last = count.limit.map(|limit| limit.saturating_add(count.skip));
    let mut counted = 0_u64;
    while last.is_none_or(|last| counted < last) {
        match matches.next() {
            Some(document) => document.map(|_| counted += 1)?,
            None => break,
        }
    }
    Ok(counted.saturating_sub(count.skip))
}
