//! Boolean operators.

mod logical;
mod not;

use super::categories::OperatorRegistry;

pub(super) const OPERATORS: OperatorRegistry = &[
    ("$and", logical::parse_and),
    ("$not", not::parse_not),
    ("$or", logical::parse_or),
];
