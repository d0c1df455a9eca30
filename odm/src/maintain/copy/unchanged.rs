//! Avoiding needless fan-outs: an update can leave the value of a copied field unchanged.

use bson::{Bson, Document, RawDocument, bson};

use super::dependent_groups;
use crate::{
    access::Access,
    maintain::{
        PendingKind,
        footprint::{Operator, path_changes, update_touches},
        metadata_update::paths_overlap,
    },
    metadata::{self, copy::SOURCE_VERSION},
    schema::Model,
};

/// Returns the paths that other models copy and that an update writes or recomputes. Returns nothing if the update records no
/// pending fan-out.
pub(in crate::maintain) fn copied_paths_written(
    access: &Access,
    model: &'static Model,
    update: &RawDocument,
    computed: &[&str],
) -> Vec<String> {
    let pending_path = PendingKind::FAN_OUT.record_path();
    let mut changes = path_changes(update);
    if !changes.any(|change| change.operator == Operator::Set && change.path == pending_path) {
        return Vec::new();
    }
    let groups = dependent_groups(access.schema_models(), model).map(|(_, group)| group);
    let mut paths = Vec::new();
    for group in groups {
        let copied = group.fan_out_fields().map(|copied| &copied.source_path);
        let is_written =
            |path: &&String| update_touches(update, path) || overlaps_any(path, computed);
        paths.extend(copied.filter(is_written).cloned());
    }
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// Makes a pipeline stage record the fan-out and increment the version only if a copied path changes.
///
/// `stage` turns an update into a stage. A computed path counts as changed: the new value exists only after a later stage.
pub(in crate::maintain) fn mark_only_if_changed(
    paths: &[String],
    computed: &[&str],
    update: &Document,
    changes: &mut Document,
    stage: impl Fn(&Document) -> Option<Document>,
) {
    if paths.is_empty() || paths.iter().any(|path| overlaps_any(path, computed)) {
        return;
    }
    let mut unmarked = update.clone();
    let marks = [
        ("$inc", SOURCE_VERSION),
        ("$set", PendingKind::FAN_OUT.record_path()),
    ];
    for (operator, field) in marks {
        if let Ok(fields) = unmarked.get_document_mut(operator) {
            fields.remove(field);
        }
    }
    let (Some(unmarked), Some(marked)) = (stage(&unmarked), changes.get(metadata::FIELD)) else {
        return;
    };
    let is_changed: Option<Vec<_>> = paths
        .iter()
        .map(|path| is_changed_after(path, &unmarked))
        .collect();
    let Some(is_changed) = is_changed else {
        return;
    };
    let unmarked_metadata = unmarked.get(metadata::FIELD).cloned();
    let unmarked_metadata = unmarked_metadata.unwrap_or(metadata::FIELD_EXPRESSION.into());
    let conditional =
        bson!({ "$cond": [{ "$or": is_changed }, marked.clone(), unmarked_metadata] });
    changes.insert(metadata::FIELD, conditional);
}

fn overlaps_any(path: &str, fields: &[&str]) -> bool {
    fields.iter().any(|field| paths_overlap(field, path))
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
