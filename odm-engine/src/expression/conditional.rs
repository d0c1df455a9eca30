//! Choices.

mod cond;
mod if_null;
mod switch;

use super::categories::Registry;

pub(super) const OPERATORS: Registry = &[
    ("$cond", cond::parse),
    ("$ifNull", if_null::parse),
    ("$switch", switch::parse),
];
