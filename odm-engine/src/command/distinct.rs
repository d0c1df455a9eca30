use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{RawBson, RawDocument};

use super::ReadState;
use super::matches::MatchIterator;
use crate::direction::Direction;
use crate::error::{Error, Result, code};
use crate::filter::Filter;
use crate::key::value::encode_value;
use crate::path::Path;
use crate::plan::{self, PlanRequest, ReadSet};

/// Returns the distinct values at `path` of the matching documents, in ascending order.
pub(crate) fn run_distinct(
    reading: ReadState<'_>,
    name: &str,
    path: &str,
    filter: &RawDocument,
) -> Result<Vec<RawBson>> {
    if path.contains('\0') {
        let message = "distinct: the path of a field cannot contain a null byte";
        return Err(Error::with_server_code(code::NULL_BYTE_IN_PATH, message));
    }
    if path.is_empty() {
        return Err(Error::bad_value("distinct needs the path of a field"));
    }
    let filter = Arc::new(Filter::parse_for_command(filter, &Arc::default())?);
    let Some(collection) = reading.catalog.get(name) else {
        return Ok(Vec::new());
    };
    let path = Path::new(path);
    let question = PlanRequest {
        reads: ReadSet::Paths(vec![path.clone()]),
        ..PlanRequest::new(&filter)
    };
    let plan = plan::choose_plan(reading.view, collection, &question)?;
    let mut values = BTreeMap::new();
    for document in MatchIterator::new(reading.view, collection, plan, Arc::clone(&filter)) {
        let document = document?;
        let mut encoded = Ok(());
        path.visit_distinct(document.as_document()?, &mut |value| {
            let mut key = Vec::new();
            match encode_value(value, Direction::Ascending, &mut key) {
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
