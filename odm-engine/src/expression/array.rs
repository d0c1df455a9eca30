//! Arrays.

mod map;

use super::categories::Registry;

pub(super) const OPERATORS: Registry = &[("$map", map::parse)];
