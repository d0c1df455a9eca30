//! Arrays as sets: neither the order nor the number of equal elements matters.

mod all_elements_true;
mod any_element_true;
mod elements;
mod set_difference;
mod set_equals;
mod set_intersection;
mod set_is_subset;
mod set_union;

use super::categories::Registry;

pub(super) const OPERATORS: Registry = &[
    ("$allElementsTrue", all_elements_true::parse),
    ("$anyElementTrue", any_element_true::parse),
    ("$setDifference", set_difference::parse),
    ("$setEquals", set_equals::parse),
    ("$setIntersection", set_intersection::parse),
    ("$setIsSubset", set_is_subset::parse),
    ("$setUnion", set_union::parse),
];
