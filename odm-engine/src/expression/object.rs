//! Documents.

mod fields;
mod get_field;
mod merge_objects;
mod set_field;

use super::categories::Registry;

pub(super) use fields::Fields;

pub(super) const OPERATORS: Registry = &[
    ("$getField", get_field::parse),
    ("$mergeObjects", merge_objects::parse),
    ("$setField", set_field::parse),
    ("$unsetField", set_field::parse_unset),
];
