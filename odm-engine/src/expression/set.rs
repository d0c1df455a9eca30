//! Set operators: arrays as sets, without order and duplicates.

mod all_elements_true;
mod any_element_true;
mod elements;
mod set_difference;
mod set_equals;
mod set_intersection;
mod set_is_subset;
mod set_union;

use super::categories::OperatorRegistry;

pub(super) const OPERATORS: OperatorRegistry = &[
    (
        "$allElementsTrue",
        all_elements_true::parse_all_elements_true,
    ),
    ("$anyElementTrue", any_element_true::parse_any_element_true),
    ("$setDifference", set_difference::parse_set_difference),
    ("$setEquals", set_equals::parse_set_equals),
    ("$setIntersection", set_intersection::parse_set_intersection),
    ("$setIsSubset", set_is_subset::parse_set_is_subset),
    ("$setUnion", set_union::parse_set_union),
];
