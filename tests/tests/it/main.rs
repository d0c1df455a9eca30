//! The test suite on every backend, and tests for single backends.

#[cfg(feature = "mongodb")]
mod client;
#[cfg(feature = "mongodb")]
mod cluster;
mod crash;
mod engine;
#[cfg(feature = "mongodb")]
mod failures;
mod hidden_documents;
mod metrics;
#[cfg(feature = "mongodb")]
mod mongodb;
mod problem;
mod project;
pub mod suite;
mod testing;
#[cfg(feature = "mongodb")]
mod url;
#[cfg(feature = "mongodb")]
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

for_every_test!(on engine_memory:);
for_every_test!(on engine_disk:);
#[cfg(feature = "mongodb")]
for_every_test!(on mongodb_standalone:);
#[cfg(feature = "mongodb")]
for_every_test!(on mongodb_replica_set:);
