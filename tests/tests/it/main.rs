//! The suite on every backend, and what only one backend has.

mod cluster;
mod crash;
#[cfg(feature = "engine")]
mod engine;
mod failures;
mod mongodb;
mod out_of_sight;
mod project;
pub mod suite;
mod url;
mod url_options;

use odm_tests::{Fixture, models};
use suite::for_every_test;

/// A module of tests, named after the backend, with a test for every function of the suite.
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
