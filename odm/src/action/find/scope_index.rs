//! The advice of `explain` for a query of a scope that no index serves.

use bson::{RawBsonRef, RawDocument};

use crate::{
    Result,
    backend::operation::{Explain, FindOperation},
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

/// Returns the declaration of an index for the query of a scope, such as `index(status, -placed)`. `None` if the query uses an index
/// on the scope or on the condition.
fn missing_index(model: &Model, find: &FindOperation, explain: &Explain) -> Option<String> {
    let scope = model.scope?;
    let mut fields = Vec::new();
    add_fields(&find.filter, &mut fields);
    let reads_all_ids = explain.indexes == ["_id_"] && !fields.iter().any(|field| field == "_id");
    if !explain.is_collection_scan && !reads_all_ids {
        return None;
    }
    let sort = find.sort.iter().flat_map(|sort| sort.iter().flatten());
    for (field, direction) in sort {
        let sign = match direction.as_i32() {
            Some(-1) => "-",
            _ => "",
        };
        if !fields.iter().any(|known| known == field.as_str()) {
            fields.push(format!("{sign}{}", field.as_str()));
        }
    }
    fields.retain(|field| {
        let name = field.trim_start_matches('-');
        name != scope.stored && Some(name) != model.soft_delete && name != "_id"
    });
    if fields.is_empty() {
        fields.push(scope.stored.to_owned());
    }
    Some(format!("index({})", fields.join(", ")))
}

/// Adds the fields of all conditions that must hold.
fn add_fields(filter: &RawDocument, fields: &mut Vec<String>) {
    for (name, condition) in filter.iter().flatten() {
        match (name.as_str(), condition) {
            ("$and", RawBsonRef::Array(conditions)) => {
                let conditions = conditions.into_iter().flatten();
                for condition in conditions.filter_map(RawBsonRef::as_document) {
                    add_fields(condition, fields);
                }
            }
            (operator, _) if operator.starts_with('$') => {}
            (field, _) if fields.iter().any(|known| known == field) => {}
            (field, _) => fields.push(field.to_owned()),
        }
    }
}
