//! Rollups of children, computed fields, trees, and indexes that ignore case.

pub mod averages;
pub mod computed;
pub mod ignore_case;
pub mod rollup_conditions;
pub mod rollups;
pub mod trees;
