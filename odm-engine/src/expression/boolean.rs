//! Yes and no.

mod logical;
mod not;

use super::categories::Registry;

pub(super) const OPERATORS: Registry = &[
    ("$and", logical::parse_and),
    ("$not", not::parse),
    ("$or", logical::parse_or),
];
