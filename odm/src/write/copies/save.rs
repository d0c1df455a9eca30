//! Copies in a save: rejecting changes of managed fields, and filling the copies of new structs.

use bson::{Bson, Document, RawDocument, RawDocumentBuf};

use super::{
    layout::{CopyField, CopyGroup, PathRelation, copy_groups},
    parse_document, to_raw_document,
};
use crate::{
    Error, ErrorKind, Result, error,
    metadata::copy::remove_copied_from,
    schema::Model,
    write::{
        footprint::{Operator, PathChange, parsed_changes_mut, written_values},
        maintainer::managed_paths,
        metadata_update::{field_names_of, set_at, value_at},
    },
};

/// Returns the update of a save without copies in new structs, so that the write fills these copies. `stored` is the document as
/// it was read.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if the save changes a copy, a snapshot or another managed field.
pub(crate) fn prepare_save(
    model: &'static Model,
    stored: &RawDocument,
    update: RawDocumentBuf,
) -> Result<RawDocumentBuf> {
    if !model.copies.has_any() && model.rollups.is_empty() && model.overflows.is_empty() {
        return Ok(update);
    }
    let (mut parsed, stored) = (parse_document(&update)?, parse_document(stored)?);
    let (managed, groups) = (managed_paths(model), copy_groups(model));
    for PathChange {
        operator,
        path,
        operand,
        ..
    } in parsed_changes_mut(&mut parsed)
    {
        if managed.iter().any(|managed| is_at_or_below(path, managed)) {
            return Err(managed_field_error(model, path));
        }
        let value = written_values(operator, operand);
        for group in &groups {
            if let PathRelation::Contains(step) = group.relation_to(path) {
                let existing = match operator {
                    Operator::Push => Vec::new(),
                    _ => stored_structs(group, step, value_at(&stored, path)),
                };
                reset_new_structs(group, step, value, existing)
                    .map_err(|()| managed_field_error(model, path))?;
            }
        }
    }
    to_raw_document(&parsed)
}

fn managed_field_error(model: &Model, path: &str) -> Error {
    let message = "a save cannot change a copy, a snapshot, a rollup or another managed field: keep the value that was read";
    error::naming_model(model)(Error::new(ErrorKind::Invalid, message).with_path(path))
}

/// Whether a path is the path of a managed field or below that path.
fn is_at_or_below(path: &str, managed: &str) -> bool {
    let names = field_names_of(path);
    let suffix = names.strip_prefix(managed);
    suffix.is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('.'))
}

/// A struct of a copy group, as it was read.
struct StoredStruct {
    /// The values of the reference and the copies.
    values: Vec<Bson>,
    /// The source version of the copies.
    version: Option<i64>,
    /// The recorded origins of snapshots, by path.
    origins: Vec<(String, Bson)>,
}

fn stored_structs(group: &CopyGroup, step: usize, value: Option<&Bson>) -> Vec<StoredStruct> {
    let structs = value.map(|value| group.structs_in(step, value));
    let structs = structs
        .into_iter()
        .flatten()
        .map(|(_, embedded)| StoredStruct {
            values: group_values(group, embedded),
            version: group.version_in(embedded),
            origins: recorded_origins(group, embedded),
        });
    structs.collect()
}

fn recorded_origins(group: &CopyGroup, embedded: &Document) -> Vec<(String, Bson)> {
    let paths = group.snapshot_fields().map(CopyField::origin_path);
    let origins = paths.filter_map(|path| {
        value_at(embedded, &path)
            .cloned()
            .map(|origin| (path, origin))
    });
    origins.collect()
}

fn group_values(group: &CopyGroup, embedded: &Document) -> Vec<Bson> {
    let fields = group.fields.iter().map(|field| field.stored);
    let fields = [group.reference].into_iter().chain(fields);
    fields
        .map(|field| embedded.get(field).cloned().unwrap_or(Bson::Null))
        .collect()
}

/// Restores the metadata of unchanged structs, wherever they moved in the array, and removes the copies of new structs.
///
/// # Errors
///
/// `Err(())` if a struct has a known reference but changed copies: the save tries to change a copy.
fn reset_new_structs(
    group: &CopyGroup,
    step: usize,
    value: &mut Bson,
    mut existing: Vec<StoredStruct>,
) -> Result<(), ()> {
    let mut new_positions = Vec::new();
    let mut position = 0;
    group.for_each_struct_in(step, value, &mut |embedded| {
        let values = group_values(group, embedded);
        match existing
            .iter()
            .position(|existing| existing.values == values)
        {
            Some(same) => {
                // Equal structs keep their order: the first match belongs to the first struct.
                let existing = existing.remove(same);
                if let Some(version) = existing.version {
                    set_at(embedded, &group.version_path(), version);
                }
                for (path, origin) in existing.origins {
                    set_at(embedded, &path, origin);
                }
            }
            None => new_positions.push(position),
        }
        position += 1;
        Ok::<(), ()>(())
    })?;
    position = 0;
    group.for_each_struct_in(step, value, &mut |embedded| {
        if new_positions.contains(&position) {
            let reference = embedded.get(group.reference).unwrap_or(&Bson::Null);
            if existing
                .iter()
                .any(|existing| existing.values.first() == Some(reference))
            {
                return Err(());
            }
            for field in &group.fields {
                embedded.remove(field.stored);
            }
            remove_copied_from(embedded, group.reference);
        }
        position += 1;
        Ok(())
    })
}
