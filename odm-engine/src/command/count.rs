use std::sync::Arc;

use bson::RawDocument;

use super::Reading;
use super::matches::Matches;
use crate::error::Result;
use crate::filter::Filter;
use crate::plan;

pub(crate) fn run(
    reading: Reading<'_>,
    name: &str,
    filter: &RawDocument,
    limit: Option<u64>,
) -> Result<u64> {
    let filter = Arc::new(Filter::parse_in(filter, &Arc::default())?);
    let Some(collection) = reading.catalog.get(name) else {
        return Ok(0);
    };
    let plan = plan::choose(reading.view, collection, &filter, None)?;
    let mut matches = Matches::new(reading.view, collection, plan, filter);
    let mut count = 0;
    while limit.is_none_or(|limit| count < limit) {
        match matches.next() {
            Some(found) => found.map(|_| count += 1)?,
            None => break,
        }
    }
    Ok(count)
}
