//! Choices.

mod cond;

use super::categories::Registry;

pub(super) const OPERATORS: Registry = &[("$cond", cond::parse)];
