//! What there is room for, and what has to be as it was: conditions of the operations themselves.

use bson::{Bson, Document, doc};

use super::{
    header::{Header, size, sizes},
    order::most_inside,
    place, room_in_tail,
};
use crate::{Result, maintain::stored::close, schema::OverflowField};

/// That the array is of this time.
pub(super) fn of_version(field: &OverflowField, header: &Header) -> Document {
    let version = match header.version {
        0 => doc! { "$in": [Bson::Null, 0_i64] },
        version => doc! { "$eq": version },
    };
    let generation = match header.generation {
        Some(generation) => doc! { "$eq": generation },
        None => doc! { "$exists": false },
    };
    doc! { place(field, "version"): version, place(field, "generation"): generation }
}

/// That the elements in a document are these. Of none an old document may have no array.
pub(super) fn is_still(field: &OverflowField, resident: &[Bson]) -> Document {
    match resident {
        [] => doc! { format!("{}.0", field.stored): { "$exists": false } },
        _ => doc! { field.stored: { "$eq": resident.to_vec() } },
    }
}

/// That nothing of an array is outside of its document.
pub(in crate::maintain) fn is_whole(field: &OverflowField) -> Document {
    doc! { field.header: { "$exists": false } }
}

/// That there is room for these behind the elements in the document; none if there never is.
pub(in crate::maintain) fn has_room(
    field: &OverflowField,
    values: &[Bson],
) -> Result<Option<Document>> {
    let Some(left) = field.after.checked_sub(values.len()) else {
        return Ok(None);
    };
    fits(field.stored, left, field.room, values)
}

/// That an array has no more elements than `left`, and of `room` bytes still those of these; none if they are too many by themselves.
pub(super) fn fits(
    path: &str,
    left: usize,
    room: usize,
    values: &[Bson],
) -> Result<Option<Document>> {
    // An array without elements has some bytes too.
    let left_bytes = room.checked_sub(sizes(values)?);
    let Some(left_bytes) = left_bytes.filter(|left| *left >= SIZE_OF_AN_ARRAY) else {
        return Ok(None);
    };
    let mut condition = doc! { format!("{path}.{left}"): { "$exists": false } };
    let size = doc! { "$bsonSize": { "a": format!("${path}") } };
    condition.insert("$expr", doc! { "$lte": [size, left_bytes as i64] });
    Ok(Some(condition))
}

/// The opposite, of one.
pub(super) fn not_fits(field: &OverflowField, left: usize, value: &Bson) -> Result<Document> {
    let value = std::slice::from_ref(value);
    match fits(field.stored, left, field.room, value)? {
        Some(fits) => Ok(doc! { "$nor": [fits] }),
        None => Ok(doc! {}),
    }
}

/// How many of these have room in a document with such elements.
pub(super) fn room_for(field: &OverflowField, resident: &[Bson], values: &[Bson]) -> Result<usize> {
    let mut bytes = SIZE_OF_AN_ARRAY + sizes(resident)?;
    let left = field.after.saturating_sub(resident.len());
    let mut room = 0;
    for value in values.iter().take(left) {
        bytes += size(value)?;
        if bytes > field.room {
            break;
        }
        room += 1;
    }
    Ok(room)
}

/// Whether these can be all elements in a document.
pub(super) fn fits_inside(field: &OverflowField, elements: &[Bson]) -> Result<bool> {
    let bytes = SIZE_OF_AN_ARRAY + sizes(elements)?;
    Ok(elements.len() <= most_inside(field) && bytes <= field.room)
}

/// Whether these can stay in a document: as the server measures them, so that what a push has had room for is not too large.
pub(super) fn can_stay(field: &OverflowField, elements: &[Bson]) -> Result<bool> {
    let bytes = close(&doc! { "a": elements.to_vec() })?.as_bytes().len();
    Ok(elements.len() <= most_inside(field) && bytes <= field.room)
}

/// The condition that they cannot, as far as a server can tell.
pub(crate) fn too_long_or_large(field: &OverflowField) -> Document {
    let too_long = doc! { format!("{}.{}", field.stored, field.after): { "$exists": true } };
    let size = doc! { "$bsonSize": { "a": format!("${}", field.stored) } };
    let too_large = doc! { "$expr": { "$gt": [size, field.room as i64] } };
    doc! { "$or": [too_long, too_large] }
}

/// The bytes of a document with an array without elements.
pub(super) const SIZE_OF_AN_ARRAY: usize = 16;

pub(super) fn has_room_in_tail(
    field: &OverflowField,
    header: &Header,
    values: &[Bson],
) -> Result<bool> {
    let bytes = SIZE_OF_AN_ARRAY + sizes(header.tail.iter().chain(values))?;
    let count = header.tail.len() + values.len();
    Ok(count <= room_in_tail(field) && bytes <= field.part)
}
