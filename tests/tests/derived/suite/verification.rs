//! The check, the repair, rejected pending work, and upgrades.

pub mod check;
pub mod copy;
pub mod explain;
pub mod rejections;
pub mod repair;
pub mod upgrade;
