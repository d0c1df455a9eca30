//! Conditional operators.

mod cond;
mod if_null;
mod switch;

use super::categories::OperatorRegistry;

pub(super) const OPERATORS: OperatorRegistry = &[
    ("$cond", cond::parse_cond),
    ("$ifNull", if_null::parse_if_null),
    ("$switch", switch::parse_switch),
];
