//! The test suite on every backend, except the tests of derived data, and tests for single backends.

#[cfg(feature = "mongodb")]
mod client;
#[cfg(feature = "mongodb")]
mod cluster;
#[cfg(feature = "mongodb")]
mod copy_options;
mod engine;
#[cfg(feature = "mongodb")]
mod failures;
mod hidden_documents;
mod metrics;
#[cfg(feature = "mongodb")]
mod mongodb;
mod problem;
mod project;
#[cfg(feature = "mongodb")]
mod serve;
pub mod suite;
mod testing;
#[cfg(feature = "mongodb")]
mod url;
#[cfg(feature = "mongodb")]
mod url_options;

use odm_tests::{Fixture, models, run_suite_on};
use suite::for_every_test;

for_every_test!(run_suite_on engine_memory:);
for_every_test!(run_suite_on engine_disk:);
#[cfg(feature = "mongodb")]
for_every_test!(run_suite_on mongodb_standalone:);
#[cfg(feature = "mongodb")]
for_every_test!(run_suite_on mongodb_replica_set:);
