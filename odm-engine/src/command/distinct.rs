use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{RawBson, RawDocumentBuf};

use super::matches::MatchIterator;
use super::{ReadState, variables};
use crate::collation::Collation;
use crate::direction::Direction;
use crate::error::{Error, Result, code};
use crate::filter::Filter;
use crate::key::value::encode_collated;
use crate::path::Path;
use crate::plan::{self, PlanRequest, ReadSet};

/// The distinct values at a path of the matching documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distinct {
    /// The dotted path. An array contributes its elements.
    pub path: String,
    /// The filter of the documents; an empty filter matches all.
    pub filter: RawDocumentBuf,
    /// The order of strings, also of the values. Of several equal values, one is returned; which one is unspecified. `None` compares byte by
    /// byte.
    pub collation: Option<Collation>,
}

/// Returns the distinct values in ascending order.
pub(crate) fn run_distinct(
    reading: ReadState<'_>,
    name: &str,
    distinct: &Distinct,
) -> Result<Vec<RawBson>> {
    let path = distinct.path.as_str();
    if path.contains('\0') {
        let message = "distinct: the path of a field cannot contain a null byte";
        return Err(Error::with_server_code(code::NULL_BYTE_IN_PATH, message));
    }
    if path.is_empty() {
        return Err(Error::bad_value("distinct needs the path of a field"));
    }
    let no_variables = RawDocumentBuf::new();
    let environment = variables::parse_environment(&no_variables, distinct.collation.as_ref())?;
    let filter = Arc::new(Filter::parse_for_command(&distinct.filter, &environment)?);
    let collator = environment.order().collator();
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
            match encode_collated(value, Direction::Ascending, collator, &mut key) {
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
