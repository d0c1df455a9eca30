//! Timestamp operators.

mod part;

use super::categories::OperatorRegistry;

pub(super) const OPERATORS: OperatorRegistry = &[
    ("$tsIncrement", part::parse_increment),
    ("$tsSecond", part::parse_second),
];
