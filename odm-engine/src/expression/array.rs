//! Arrays.

mod array_elem_at;
mod array_to_object;
mod concat_arrays;
mod filter;
mod first;
mod first_n;
mod r#in;
mod index_of_array;
mod is_array;
mod map;
mod max_n;
mod object_to_array;
mod range;
mod reduce;
mod reverse_array;
mod size;
mod slice;
mod sort_array;
mod zip;

use super::categories::Registry;

pub(super) use index_of_array::{position, search_range};

pub(super) const OPERATORS: Registry = &[
    ("$arrayElemAt", array_elem_at::parse),
    ("$arrayToObject", array_to_object::parse),
    ("$concatArrays", concat_arrays::parse),
    ("$filter", filter::parse),
    ("$first", first::parse_first),
    ("$firstN", first_n::parse_first),
    ("$in", r#in::parse),
    ("$indexOfArray", index_of_array::parse),
    ("$isArray", is_array::parse),
    ("$last", first::parse_last),
    ("$lastN", first_n::parse_last),
    ("$map", map::parse),
    ("$maxN", max_n::parse_max),
    ("$minN", max_n::parse_min),
    ("$objectToArray", object_to_array::parse),
    ("$range", range::parse),
    ("$reduce", reduce::parse),
    ("$reverseArray", reverse_array::parse),
    ("$size", size::parse),
    ("$slice", slice::parse),
    ("$sortArray", sort_array::parse),
    ("$zip", zip::parse),
];
