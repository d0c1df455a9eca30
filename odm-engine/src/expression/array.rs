//! Array operators.

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

use super::categories::OperatorRegistry;

pub(super) use index_of_array::{position_or_minus_one, search_range};

pub(super) const OPERATORS: OperatorRegistry = &[
    ("$arrayElemAt", array_elem_at::parse_array_elem_at),
    ("$arrayToObject", array_to_object::parse_array_to_object),
    ("$concatArrays", concat_arrays::parse_concat_arrays),
    ("$filter", filter::parse_filter),
    ("$first", first::parse_first),
    ("$firstN", first_n::parse_first),
    ("$in", r#in::parse_in),
    ("$indexOfArray", index_of_array::parse_index_of_array),
    ("$isArray", is_array::parse_is_array),
    ("$last", first::parse_last),
    ("$lastN", first_n::parse_last),
    ("$map", map::parse_map),
    ("$maxN", max_n::parse_max),
    ("$minN", max_n::parse_min),
    ("$objectToArray", object_to_array::parse_object_to_array),
    ("$range", range::parse_range),
    ("$reduce", reduce::parse_reduce),
    ("$reverseArray", reverse_array::parse_reverse_array),
    ("$size", size::parse_size),
    ("$slice", slice::parse_slice),
    ("$sortArray", sort_array::parse_sort_array),
    ("$zip", zip::parse_zip),
];
