//! The operators by name, in MongoDB's categories.
//!
//! A new operator is a file in the folder of its category, and a line in the category's registry.

use super::call::Call;
use super::{
    Expression, accumulator, arithmetic, array, boolean, comparison, conditional, date,
    miscellaneous, object, set, size, string, timestamp, trigonometry, types, variable,
};
use crate::Result;

/// How an operator reads its operand.
pub(super) type Parser = fn(&Call<'_>) -> Result<Expression>;

/// The operators of a category, sorted by name.
pub(super) type Registry = &'static [(&'static str, Parser)];

/// All categories.
pub(super) const CATEGORIES: &[Registry] = &[
    accumulator::OPERATORS,
    arithmetic::OPERATORS,
    array::OPERATORS,
    boolean::OPERATORS,
    comparison::OPERATORS,
    conditional::OPERATORS,
    date::OPERATORS,
    miscellaneous::OPERATORS,
    object::OPERATORS,
    set::OPERATORS,
    size::OPERATORS,
    string::OPERATORS,
    timestamp::OPERATORS,
    trigonometry::OPERATORS,
    types::OPERATORS,
    variable::OPERATORS,
];

/// The parser of an operator.
pub(super) fn find(name: &str) -> Option<Parser> {
    CATEGORIES.iter().find_map(|registry| {
        let at = registry
            .binary_search_by_key(&name, |(known, _)| known)
            .ok()?;
        registry.get(at).map(|(_, parse)| *parse)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registries_are_sorted_and_disjoint() {
        for registry in CATEGORIES {
            assert!(registry.is_sorted_by(|(a, _), (b, _)| a < b));
        }
        let mut all: Vec<_> = CATEGORIES
            .iter()
            .copied()
            .flatten()
            .map(|(name, _)| name)
            .collect();
        all.sort_unstable();
        assert!(all.is_sorted_by(|a, b| a < b));
    }
}
