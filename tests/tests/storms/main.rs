//! Many writers at once, on every backend, and what is lost under them: a target of its own, as optimised it is built in a tenth of the
//! time that the suite takes.

mod copy_storm;
mod count_storm;
#[cfg(feature = "engine")]
mod kill;
mod lagging;
mod link_storm;
mod outage;
mod overflow_storm;
mod storm;

use odm_tests::Fixture;

/// A module of tests, named after the backend, with a test for every storm.
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

/// Hands the list of all storms to a macro.
macro_rules! for_every_storm {
    ($run:ident $($context:tt)*) => {
        $run! { $($context)*
            copy_storm: [
                at_rest_every_copy_is_as_its_source,
            ]
            count_storm: [
                at_rest_every_count_is_exact,
            ]
            link_storm: [
                at_rest_and_at_every_moment_all_sides_agree,
            ]
            overflow_storm: [
                at_rest_every_element_is_where_it_was_pushed,
            ]
            storm: [
                every_field_has_its_last_value,
                with_a_version_no_update_is_lost,
            ]
        }
    };
}

#[cfg(feature = "engine")]
for_every_storm!(on engine_memory:);
#[cfg(feature = "engine")]
for_every_storm!(on engine_disk:);
for_every_storm!(on mongodb_standalone:);
for_every_storm!(on mongodb_replica_set:);
