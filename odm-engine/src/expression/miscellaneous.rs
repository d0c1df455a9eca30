//! Operators outside the other categories.

mod hash;
mod rand;
mod unsupported;

use super::categories::OperatorRegistry;

pub(super) const OPERATORS: OperatorRegistry = &[
    ("$function", unsupported::parse_function),
    ("$meta", unsupported::parse_meta),
    ("$rand", rand::parse_rand),
    ("$toHashedIndexKey", hash::parse_to_hashed_index_key),
];
