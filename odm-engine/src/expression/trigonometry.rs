//! Trigonometric operators. Angles are in radians.

mod angle;
mod atan2;
mod function;

use super::categories::OperatorRegistry;

pub(super) const OPERATORS: OperatorRegistry = &[
    ("$acos", function::parse_acos),
    ("$acosh", function::parse_acosh),
    ("$asin", function::parse_asin),
    ("$asinh", function::parse_asinh),
    ("$atan", function::parse_atan),
    ("$atan2", atan2::parse_atan2),
    ("$atanh", function::parse_atanh),
    ("$cos", function::parse_cos),
    ("$cosh", function::parse_cosh),
    ("$degreesToRadians", angle::parse_degrees_to_radians),
    ("$radiansToDegrees", angle::parse_radians_to_degrees),
    ("$sin", function::parse_sin),
    ("$sinh", function::parse_sinh),
    ("$tan", function::parse_tan),
    ("$tanh", function::parse_tanh),
];
