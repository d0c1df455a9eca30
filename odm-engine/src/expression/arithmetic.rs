//! Arithmetic operators.

mod abs;
mod add;
mod ceil;
mod divide;
mod exp;
mod ln;
mod log;
mod modulo;
mod multiply;
mod pow;
mod round;
mod sqrt;
mod subtract;

use super::categories::OperatorRegistry;

pub(super) const OPERATORS: OperatorRegistry = &[
    ("$abs", abs::parse_abs),
    ("$add", add::parse_add),
    ("$ceil", ceil::parse_ceil),
    ("$divide", divide::parse_divide),
    ("$exp", exp::parse_exp),
    ("$floor", ceil::parse_floor),
    ("$ln", ln::parse_ln),
    ("$log", log::parse_log),
    ("$log10", ln::parse_log10),
    ("$mod", modulo::parse_mod),
    ("$multiply", multiply::parse_multiply),
    ("$pow", pow::parse_pow),
    ("$round", round::parse_round),
    ("$sqrt", sqrt::parse_sqrt),
    ("$subtract", subtract::parse_subtract),
    ("$trunc", round::parse_trunc),
];
