use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{RawBson, RawDocument};

use super::Reading;
use super::matches::Matches;
use crate::direction::Direction;
use crate::error::{Error, Result, code};
use crate::filter::Filter;
use crate::key::value::encode;
use crate::path::Path;
use crate::plan;

/// The values at `path` of the documents that match, each once, in ascending order.
pub(crate) fn run(
    reading: Reading<'_>,
    name: &str,
    path: &str,
    filter: &RawDocument,
) -> Result<Vec<RawBson>> {
    if path.contains('\0') {
        let message = "distinct: the path of a field has no null byte";
        return Err(Error::server(code::NULL_BYTE_IN_PATH, message));
    }
    if path.is_empty() {
        return Err(Error::bad_value("distinct needs the path of a field"));
    }
    let filter = Arc::new(Filter::parse_in(filter, &Arc::default())?);
    let Some(collection) = reading.catalog.get(name) else {
        return Ok(Vec::new());
    };
    let path = Path::new(path);
    let plan = plan::choose(reading.view, collection, &filter, None)?;
    let mut values = BTreeMap::new();
    for found in Matches::new(reading.view, collection, plan, filter) {
        let found = found?;
        let mut encoded = Ok(());
        path.distinct(found.document()?, &mut |value| {
            let mut key = Vec::new();
            match encode(value, Direction::Ascending, &mut key) {
                Ok(()) => {
                    values.entry(key).or_insert_with(|| RawBson::from(value));
                }
                Err(error) => encoded = Err(error),
            }
        });
        encoded?;
    }
    Ok(values.into_values().collect())
}
