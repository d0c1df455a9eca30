//! Variables and constants.

mod r#let;
mod literal;

use super::categories::Registry;

pub(super) const OPERATORS: Registry = &[
    ("$const", literal::parse),
    ("$let", r#let::parse),
    ("$literal", literal::parse),
];
