//! What belongs nowhere else.

mod hash;
mod rand;
mod refused;

use super::categories::Registry;

pub(super) const OPERATORS: Registry = &[
    ("$function", refused::parse_function),
    ("$meta", refused::parse_meta),
    ("$rand", rand::parse),
    ("$toHashedIndexKey", hash::parse),
];
