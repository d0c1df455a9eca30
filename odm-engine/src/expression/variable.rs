//! Operators for variables and literals.

mod r#let;
mod literal;

use super::categories::OperatorRegistry;

pub(super) const OPERATORS: OperatorRegistry = &[
    ("$const", literal::parse_literal),
    ("$let", r#let::parse_let),
    ("$literal", literal::parse_literal),
];
