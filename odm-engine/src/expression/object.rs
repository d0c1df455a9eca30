//! Document operators.

mod document_builder;
mod get_field;
mod merge_objects;
mod set_field;

use super::categories::OperatorRegistry;

pub(super) use document_builder::DocumentBuilder;

pub(super) const OPERATORS: OperatorRegistry = &[
    ("$getField", get_field::parse_get_field),
    ("$mergeObjects", merge_objects::parse_merge_objects),
    ("$setField", set_field::parse_set_field),
    ("$unsetField", set_field::parse_unset_field),
];
