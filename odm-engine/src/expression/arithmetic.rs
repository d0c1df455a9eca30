//! Numbers.

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

use super::categories::Registry;

pub(super) const OPERATORS: Registry = &[
    ("$abs", abs::parse),
    ("$add", add::parse),
    ("$ceil", ceil::parse_ceil),
    ("$divide", divide::parse),
    ("$exp", exp::parse),
    ("$floor", ceil::parse_floor),
    ("$ln", ln::parse_ln),
    ("$log", log::parse),
    ("$log10", ln::parse_log10),
    ("$mod", modulo::parse),
    ("$multiply", multiply::parse),
    ("$pow", pow::parse),
    ("$round", round::parse_round),
    ("$sqrt", sqrt::parse),
    ("$subtract", subtract::parse),
    ("$trunc", round::parse_trunc),
];
