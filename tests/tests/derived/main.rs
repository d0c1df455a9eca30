//! The test suite of derived data on every backend: references, copies, rollups, overflow arrays, and the check.

mod crash;
mod operation_lists;
pub mod suite;

use odm_tests::{Fixture, models, run_suite_on};
use suite::for_every_test;

for_every_test!(run_suite_on engine_memory:);
for_every_test!(run_suite_on engine_disk:);
#[cfg(feature = "mongodb")]
for_every_test!(run_suite_on mongodb_standalone:);
#[cfg(feature = "mongodb")]
for_every_test!(run_suite_on mongodb_replica_set:);
