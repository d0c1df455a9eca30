//! The advice of `explain` for a query of a scope that no index serves.

use std::collections::BTreeSet;

use bson::{RawBsonRef, RawDocument};

use crate::{
    Result,
    backend::operation::{Explain, FindOperation},
    metadata::text_of_caseless,
    schema::Model,
    session::access::Access,
};

/// Returns the plan of a query. Names the missing index if the session is for one scope.
pub(super) async fn explain_in_scope(
    access: &Access,
    model: &'static Model,
    find: FindOperation,
) -> Result<Explain> {
    let mut explain = access.explain(model, find.clone()).await?;
    if access.scope().is_single() {
        explain.missing_index = missing_index(model, &find, &explain);
    }
    Ok(explain)
}

/// Returns the declaration of an index for the query of a scope, such as `index(status, -placed)`, in stored names. `None` if the query uses an index
/// on the scope or on the condition.
fn missing_index(model: &Model, find: &FindOperation, explain: &Explain) -> Option<String> {
    let scope = model.scope?;
    let (mut equal, mut others) = (Vec::new(), Vec::new());
    add_fields(&find.filter, &mut equal, &mut others);
    let has_id = equal.iter().chain(&others).any(|field| field == "_id");
    if !explain.is_collection_scan && (has_id || explain.indexes != ["_id_"]) {
        return None;
    }
    // An index serves the fields with one value first, then the order, and then a range.
    let ascending = |field: String| (field, false);
    let sort = find.sort.iter().flat_map(|sort| sort.iter().flatten());
    let sort = sort.map(|(field, direction)| {
        let is_descending = direction.as_i32() == Some(-1);
        (field.as_str().to_owned(), is_descending)
    });
    let keys = equal.into_iter().map(ascending).chain(sort);
    let keys = keys.chain(others.into_iter().map(ascending));
    let mut seen = BTreeSet::from([scope.stored.to_owned(), "_id".to_owned()]);
    seen.extend(model.soft_delete.map(str::to_owned));
    let mut declared = Vec::new();
    for (field, is_descending) in keys {
        if seen.insert(field.clone()) {
            let sign = if is_descending { "-" } else { "" };
            let text = text_of_caseless(&field);
            declared.push(match text == field {
                true => format!("{sign}{field}"),
                false => format!("{sign}ignore_case({text})"),
            });
        }
    }
    if declared.is_empty() {
        declared.push(scope.stored.to_owned());
    }
    Some(format!("index({})", declared.join(", ")))
}

/// Adds the fields of all conditions that must hold: the fields with one value, and the other fields.
fn add_fields(filter: &RawDocument, equal: &mut Vec<String>, others: &mut Vec<String>) {
    for (name, condition) in filter.iter().flatten() {
        match (name.as_str(), condition) {
            ("$and", RawBsonRef::Array(conditions)) => {
                let conditions = conditions.into_iter().flatten();
                for condition in conditions.filter_map(RawBsonRef::as_document) {
                    add_fields(condition, equal, others);
                }
            }
            (operator, _) if operator.starts_with('$') => {}
            (field, condition) => {
                let operators = condition.as_document().into_iter();
                let mut operators = operators.flat_map(|operators| operators.iter().flatten());
                let is_range = operators.any(|(operator, _)| {
                    operator.as_str().starts_with('$') && operator.as_str() != "$eq"
                });
                match is_range {
                    true => others.push(field.to_owned()),
                    false => equal.push(field.to_owned()),
                }
            }
        }
    }
}
