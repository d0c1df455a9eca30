use std::sync::Arc;

use bson::{RawBson, RawDocumentBuf};

use super::matches::Matches;
use super::{Reading, parse_hint};
use crate::direction::Direction;
use crate::error::Result;
use crate::filter::Filter;
use crate::plan::{self, Plan, Question, Reads};

/// A count of documents.
///
/// ```
/// use bson::rawdoc;
/// use odm_engine::{Count, Database};
///
/// let database = Database::memory();
/// database.insert("c", (0..5).map(|id| rawdoc! { "_id": id }).collect())?.all()?;
/// let count = Count { filter: rawdoc! { "_id": { "$gt": 0 } }, skip: 1, ..Count::default() };
/// assert_eq!(database.count("c", &count)?, 3);
/// # Ok::<(), odm_engine::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Count {
    /// What the documents must match; empty for all.
    pub filter: RawDocumentBuf,
    /// How many documents to pass over.
    pub skip: u64,
    /// Where to stop counting; nowhere if `None`.
    pub limit: Option<u64>,
    /// The index to use: its name, its key, or `{ $natural: 1 }` or `-1` for none; chosen if `None`.
    pub hint: Option<RawBson>,
}

pub(crate) fn run(reading: Reading<'_>, name: &str, count: &Count) -> Result<u64> {
    let filter = Arc::new(Filter::parse_in(&count.filter, &Arc::default())?);
    let hint = parse_hint(count.hint.as_ref())?;
    let Some(collection) = reading.catalog.get(name) else {
        return Ok(0);
    };
    let question = Question {
        hint: hint.as_ref(),
        // Nothing of the documents but what the filter asks about.
        reads: Reads::Paths(Vec::new()),
        ..Question::new(&filter)
    };
    // To count everything needs no index, as on MongoDB.
    let plan = if count.filter.is_empty() && hint.is_none() {
        Plan::collection_scan(Direction::Ascending)
    } else {
        plan::choose(reading.view, collection, &question)?
    };
    let mut matches = Matches::new(reading.view, collection, plan, Arc::clone(&filter));
    let last = count.limit.map(|limit| limit.saturating_add(count.skip));
    let mut counted = 0_u64;
    while last.is_none_or(|last| counted < last) {
        match matches.next() {
            Some(found) => found.map(|_| counted += 1)?,
            None => break,
        }
    }
    Ok(counted.saturating_sub(count.skip))
}
