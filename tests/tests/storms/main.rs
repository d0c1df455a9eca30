//! Many concurrent writers on every backend, with crashes and outages. A separate target, because an optimised build of the
//! target takes a tenth of the time of the suite.

mod copy_storm;
mod kill;
mod lagging;
mod link_storm;
mod outage;
mod overflow_storm;
mod rollup_storm;
mod storm;

use odm_tests::Fixture;

/// Defines a module of tests for a backend, with a test for every storm.
macro_rules! on {
    ($fixture:ident: $($module:ident: [$($test:ident,)*])*) => {
        mod $fixture {
            $(mod $module {
                $(#[tokio::test]
                async fn $test() {
                    let fixture = crate::Fixture::$fixture().await;
                    let cleanup = fixture.cleanup();
                    crate::$module::$test(fixture).await;
                    cleanup.await;
                })*
            })*
        }
    };
}

/// Passes the list of all storms to a macro.
macro_rules! for_every_storm {
    ($run:ident $($context:tt)*) => {
        $run! { $($context)*
            copy_storm: [
                copies_equal_their_sources_after_pending_work,
            ]
            link_storm: [
                inverses_agree_during_and_after_the_storm,
            ]
            overflow_storm: [
                no_element_is_lost_after_pending_work,
            ]
            rollup_storm: [
                rollups_are_exact_after_pending_work,
            ]
            storm: [
                concurrent_saves_keep_every_field,
                with_a_version_no_update_is_lost,
            ]
        }
    };
}

for_every_storm!(on engine_memory:);
for_every_storm!(on engine_disk:);
for_every_storm!(on mongodb_standalone:);
for_every_storm!(on mongodb_replica_set:);
