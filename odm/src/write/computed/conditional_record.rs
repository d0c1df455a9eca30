//! Records that an update writes only if the value of a path changes, such as the record of a fan-out.

use bson::{Bson, Document, bson};

use crate::{metadata, model::stored::paths_overlap, write::maintainer::ConditionalRecord};

/// Makes a pipeline stage write a record only if a path of the record changes.
///
/// `to_stage` turns an update into a stage. A computed path counts as changed: the new value exists only after a later stage.
pub(super) fn mark_only_if_changed(
    record: &ConditionalRecord,
    computed: &[&str],
    update: &Document,
    stage: &mut Document,
    to_stage: impl Fn(&Document) -> Option<Document>,
) {
    let paths = &record.paths;
    let is_computed = |path: &String| computed.iter().any(|field| paths_overlap(field, path));
    if paths.iter().any(is_computed) {
        return;
    }
    let mut unmarked = update.clone();
    for (operator, field) in &record.marks {
        if let Ok(fields) = unmarked.get_document_mut(operator) {
            fields.remove(field);
        }
    }
    let (Some(unmarked), Some(marked)) = (to_stage(&unmarked), stage.get(metadata::FIELD)) else {
        return;
    };
    let is_changed = paths.iter().map(|path| is_changed_after(path, &unmarked));
    let is_changed: Option<Vec<_>> = is_changed.collect();
    let Some(is_changed) = is_changed else {
        return;
    };
    let unmarked_metadata = unmarked.get(metadata::FIELD).cloned();
    let unmarked_metadata = unmarked_metadata.unwrap_or(metadata::FIELD_EXPRESSION.into());
    let conditional =
        bson!({ "$cond": [{ "$or": is_changed }, marked.clone(), unmarked_metadata] });
    stage.insert(metadata::FIELD, conditional);
}

/// Returns the expression that a path has another value after the stage.
fn is_changed_after(path: &str, stage: &Document) -> Option<Bson> {
    let (top, suffix) = match path.split_once('.') {
        None => (path, String::new()),
        Some((top, suffix)) => (top, format!(".{suffix}")),
    };
    let value = stage.get(top)?;
    let after =
        bson!({ "$let": { "vars": { "new": value.clone() }, "in": format!("$$new{suffix}") } });
    Some(bson!({ "$ne": [after, format!("${path}")] }))
}
