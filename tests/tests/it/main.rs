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
mod operation_lists;
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

/// The stack of a test, in bytes: half of the stack of a worker thread of Tokio. The write path must not need more, also in a
/// debug build.
const STACK_SIZE: usize = 1024 * 1024;

/// Runs a test on a thread with a small stack.
fn run_with_small_stack<F>(test: impl FnOnce() -> F + Send + 'static)
where
    F: Future<Output = ()>,
{
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(Box::pin(test()));
    };
    let thread = std::thread::current();
    let builder = std::thread::Builder::new().stack_size(STACK_SIZE);
    let builder = builder.name(thread.name().unwrap_or("test").to_owned());
    if let Err(panic) = builder.spawn(run).unwrap().join() {
        std::panic::resume_unwind(panic);
    }
}

/// Defines a module with the name of the backend, with a test for each function of the suite.
macro_rules! on {
    ($fixture:ident: $($group:ident { $($module:ident: [$($test:ident,)*])* })*) => {
        mod $fixture {
            $(mod $group {
                $(mod $module {
                    $(#[test]
                    fn $test() {
                        crate::run_with_small_stack(async || {
                            let fixture = crate::Fixture::$fixture().await;
                            let cleanup = fixture.cleanup();
                            crate::suite::$group::$module::$test(fixture).await;
                            cleanup.await;
                        });
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
