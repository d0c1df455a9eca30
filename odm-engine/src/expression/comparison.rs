//! Comparisons, in MongoDB's order over values of all types.

mod compare;

use super::categories::OperatorRegistry;

pub(super) const OPERATORS: OperatorRegistry = &[
    ("$cmp", compare::parse_cmp),
    ("$eq", compare::parse_eq),
    ("$gt", compare::parse_gt),
    ("$gte", compare::parse_gte),
    ("$lt", compare::parse_lt),
    ("$lte", compare::parse_lte),
    ("$ne", compare::parse_ne),
];
