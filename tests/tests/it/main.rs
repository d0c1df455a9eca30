//! The test suite on every backend, and tests for single backends.

mod client;
mod cluster;
mod crash;
#[cfg(feature = "engine")]
mod engine;
mod failures;
mod hidden_documents;
#[cfg(feature = "engine")]
mod metrics;
mod mongodb;
mod problem;
mod project;
pub mod suite;
#[cfg(feature = "engine")]
mod testing;
mod url;
mod url_options;

use odm_tests::{Fixture, models};
use suite::for_every_test;

/// Defines a module with the name of the backend, with a test for each function of the suite.
macro_rules! on {
    ($fixture:ident: $($group:ident { $($module:ident: [$($test:ident,)*])* })*) => {
        mod $fixture {
            $(mod $group {
                $(mod $module {
                    $(#[tokio::test]
                    async fn $test() {
                        let fixture = crate::Fixture::$fixture().await;
                        let cleanup = fixture.cleanup();
                        crate::suite::$group::$module::$test(fixture).await;
                        cleanup.await;
                    })*
                })*
            })*
        }
    };
}

#[cfg(feature = "engine")]
for_every_test!(on engine_memory:);
#[cfg(feature = "engine")]
for_every_test!(on engine_disk:);
for_every_test!(on mongodb_standalone:);
for_every_test!(on mongodb_replica_set:);
