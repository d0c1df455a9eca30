//! The expression operators by name, in MongoDB's categories.
//!
//! A new operator needs a file in the folder of its category and a line in the category's registry.

use super::call::OperatorCall;
use super::{
    Expression, accumulator, arithmetic, array, boolean, comparison, conditional, date,
    miscellaneous, object, set, size, string, timestamp, trigonometry, types, variable,
};
use crate::Result;

/// The parser of an operator's operand.
pub(super) type OperatorParser = fn(&OperatorCall<'_>) -> Result<Expression>;

/// The operators of a category, sorted by name.
pub(super) type OperatorRegistry = &'static [(&'static str, OperatorParser)];

/// All categories.
pub(super) const CATEGORIES: &[OperatorRegistry] = &[
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

/// Returns the parser of an operator.
pub(super) fn find_parser(name: &str) -> Option<OperatorParser> {
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
