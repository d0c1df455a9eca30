//! Sizes in bytes.

mod binary_size;
mod bson_size;

use super::categories::Registry;

pub(super) const OPERATORS: Registry = &[
    ("$binarySize", binary_size::parse),
    ("$bsonSize", bson_size::parse),
];
