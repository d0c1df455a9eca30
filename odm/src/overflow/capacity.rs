//! Conditions on the capacity and the state of an array. The conditions are part of each write, so concurrent writes cannot
//! invalidate a check.

use bson::{Bson, Document, RawDocument, doc};

use super::{
    manifest::{Manifest, array_or_empty, element_bytes, total_element_bytes},
    max_tail_elements,
    order::{ArrayOrder, max_resident_elements},
};
use crate::{
    Result,
    metadata::overflow::{GENERATION, VERSION},
    model::stored::{parse_fields, to_raw_document},
    schema::{Model, OverflowField},
};

/// Returns the condition that the version and the generation are unchanged.
pub(crate) fn version_unchanged(field: &OverflowField, manifest: &Manifest) -> Document {
    let version = match manifest.version {
        0 => doc! { "$in": [Bson::Null, 0_i64] },
        version => doc! { "$eq": version },
    };
    let generation = match manifest.generation {
        Some(generation) => doc! { "$eq": generation },
        None => doc! { "$exists": false },
    };
    doc! { field.manifest_path(VERSION): version, field.manifest_path(GENERATION): generation }
}

/// Returns the condition that the resident elements are unchanged. An old document may have no array at all.
pub(crate) fn resident_unchanged(field: &OverflowField, resident: &[Bson]) -> Document {
    match resident {
        [] => doc! { format!("{}.0", field.stored): { "$exists": false } },
        _ => doc! { field.stored: { "$eq": resident.to_vec() } },
    }
}

/// Returns the condition that no elements are spilled.
pub(crate) fn nothing_spilled(field: &OverflowField) -> Document {
    doc! { field.manifest: { "$exists": false } }
}

/// Returns the condition that the document has room for the values, or `None` if the values never fit.
pub(crate) fn resident_room(field: &OverflowField, values: &[Bson]) -> Result<Option<Document>> {
    let Some(max_current) = field.max_resident.checked_sub(values.len()) else {
        return Ok(None);
    };
    room_condition(field.stored, max_current, field.max_resident_bytes, values)
}

/// Returns the condition that an array has at most `max_current` elements, and room for the values within `max_bytes`. Returns
/// `None` if the values alone are too large.
pub(crate) fn room_condition(
    path: &str,
    max_current: usize,
    max_bytes: usize,
    values: &[Bson],
) -> Result<Option<Document>> {
    // An empty array has a size too.
    let max_current_bytes = max_bytes.checked_sub(total_element_bytes(values)?);
    let Some(max_current_bytes) = max_current_bytes.filter(|bytes| *bytes >= EMPTY_ARRAY_BYTES)
    else {
        return Ok(None);
    };
    let mut condition = doc! { format!("{path}.{max_current}"): { "$exists": false } };
    let size = doc! { "$bsonSize": { "a": format!("${path}") } };
    condition.insert("$expr", doc! { "$lte": [size, max_current_bytes as i64] });
    Ok(Some(condition))
}

/// Returns the condition that the document has no room for one value.
pub(crate) fn no_room_condition(
    field: &OverflowField,
    max_current: usize,
    value: &Bson,
) -> Result<Document> {
    let value = std::slice::from_ref(value);
    match room_condition(field.stored, max_current, field.max_resident_bytes, value)? {
        Some(fits) => Ok(doc! { "$nor": [fits] }),
        None => Ok(doc! {}),
    }
}

/// Returns the number of values that fit into the document beside the resident elements.
pub(crate) fn count_fitting(
    field: &OverflowField,
    resident: &[Bson],
    values: &[Bson],
) -> Result<usize> {
    let mut bytes = EMPTY_ARRAY_BYTES + total_element_bytes(resident)?;
    let free_places = field.max_resident.saturating_sub(resident.len());
    let mut fitting = 0;
    for value in values.iter().take(free_places) {
        bytes += element_bytes(value)?;
        if bytes > field.max_resident_bytes {
            break;
        }
        fitting += 1;
    }
    Ok(fitting)
}

/// Returns whether the elements can be resident together.
pub(crate) fn fits_resident(field: &OverflowField, elements: &[Bson]) -> Result<bool> {
    let bytes = EMPTY_ARRAY_BYTES + total_element_bytes(elements)?;
    Ok(elements.len() <= max_resident_elements(field) && bytes <= field.max_resident_bytes)
}

/// Returns whether the resident elements can stay. Measures as the server does, so that a push that had room is not spilled
/// later.
pub(crate) fn can_stay_resident(field: &OverflowField, elements: &[Bson]) -> Result<bool> {
    let bytes = to_raw_document(&doc! { "a": elements.to_vec() })?
        .as_bytes()
        .len();
    Ok(elements.len() <= max_resident_elements(field) && bytes <= field.max_resident_bytes)
}

/// Returns the condition that the resident elements are too many or too large, as a server can evaluate it.
pub(crate) fn too_long_or_large(field: &OverflowField) -> Document {
    let too_long = doc! { format!("{}.{}", field.stored, field.max_resident): { "$exists": true } };
    let size = doc! { "$bsonSize": { "a": format!("${}", field.stored) } };
    let too_large = doc! { "$expr": { "$gt": [size, field.max_resident_bytes as i64] } };
    doc! { "$or": [too_long, too_large] }
}

/// The size in bytes of a document with an empty array.
pub(crate) const EMPTY_ARRAY_BYTES: usize = 16;

/// Returns whether the tail has room for the values.
pub(crate) fn has_room_in_tail(
    field: &OverflowField,
    manifest: &Manifest,
    values: &[Bson],
) -> Result<bool> {
    let bytes = EMPTY_ARRAY_BYTES + total_element_bytes(manifest.tail.iter().chain(values))?;
    let count = manifest.tail.len() + values.len();
    Ok(count <= max_tail_elements(field) && bytes <= field.max_chunk_bytes)
}

/// Returns the positions of the elements that stay resident in an inserted document, in sort order. Returns `None` if the model
/// has no such array.
pub(crate) fn resident_positions(
    model: &'static Model,
    stored: &str,
    raw: &RawDocument,
) -> Option<Vec<usize>> {
    let field = model
        .overflows
        .iter()
        .find(|field| field.stored == stored)?;
    let document = parse_fields(raw, &[stored]).ok()?;
    let mut elements = array_or_empty(document.get(stored));
    let mut positions: Vec<_> = (0..elements.len()).collect();
    if let Some(order) = ArrayOrder::from_field(field) {
        positions = order.sorted_positions(&elements);
        order.sort_elements(&mut elements);
    }
    positions.truncate(count_fitting(field, &[], &elements).ok()?);
    Some(positions)
}
