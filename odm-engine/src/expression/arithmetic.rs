//! Numbers.

mod abs;

use super::categories::Registry;

pub(super) const OPERATORS: Registry = &[("$abs", abs::parse)];
