//! Operators for sizes in bytes.

mod binary_size;
mod bson_size;

use super::categories::OperatorRegistry;

pub(super) const OPERATORS: OperatorRegistry = &[
    ("$binarySize", binary_size::parse_binary_size),
    ("$bsonSize", bson_size::parse_bson_size),
];
