//! Timestamps.

mod part;

use super::categories::Registry;

pub(super) const OPERATORS: Registry = &[
    ("$tsIncrement", part::parse_increment),
    ("$tsSecond", part::parse_second),
];
