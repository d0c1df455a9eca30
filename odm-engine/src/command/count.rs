use std::sync::Arc;

use bson::RawDocumentBuf;

use super::Reading;
use super::matches::Matches;
use crate::error::Result;
use crate::filter::Filter;
use crate::plan;

/// A count of documents.
///
/// ```
/// use bson::rawdoc;
/// use odm_engine::{Count, Database};
///
/// let database = Database::memory();
/// database.insert("c", (0..5).map(|id| rawdoc! { "_id": id }).collect())?.all()?;
/// let count = Count { filter: rawdoc! { "_id": { "$gt": 0 } }, skip: 1, limit: None };
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
}

pub(crate) fn run(reading: Reading<'_>, name: &str, count: &Count) -> Result<u64> {
    let filter = Arc::new(Filter::parse_in(&count.filter, &Arc::default())?);
    let Some(collection) = reading.catalog.get(name) else {
        return Ok(0);
    };
    let last = count.limit.map(|limit| limit.saturating_add(count.skip));
    let plan = plan::choose(reading.view, collection, &filter, None)?;
    let mut matches = Matches::new(reading.view, collection, plan, filter);
    let mut found = 0_u64;
    while last.is_none_or(|last| found < last) {
        match matches.next() {
            Some(candidate) => candidate.map(|_| found += 1)?,
            None => break,
        }
    }
    Ok(found.saturating_sub(count.skip))
}
