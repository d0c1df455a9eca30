//! Overflow arrays.

pub mod overflow;
pub mod overflow_combinations;
pub mod overflow_delete_rules;
pub mod overflow_faults;
pub mod overflow_inverses;
pub mod overflow_maintenance;
pub mod overflow_order;
pub mod overflow_references;
pub mod overflow_sets;
pub mod overflow_several_arrays;
pub mod overflow_sizes;
pub mod overflow_snapshots;
pub mod overflow_versions;
