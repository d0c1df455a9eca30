//! Runs the functions of a suite on a backend.
//!
//! The targets `it` and `derived` have a suite each. The macro `for_every_test` of a suite lists the functions.

use std::{
    fs,
    path::{Path, PathBuf},
};

use futures_util::future::LocalBoxFuture;

use crate::Fixture;

/// The stack of a test, in bytes: half of the stack of a worker thread of Tokio. The write path must not need more, also in a
/// debug build.
const STACK_SIZE: usize = 1024 * 1024;

/// Opens an empty database.
pub type Open = fn() -> LocalBoxFuture<'static, Fixture>;

/// A test of a suite.
pub type Test = fn(Fixture) -> LocalBoxFuture<'static, ()>;

/// Runs a test with an empty database, on a thread with a small stack.
///
/// The parameters are function pointers, because the compiler would generate the code of a runtime again for each function type.
///
/// # Panics
///
/// If the test panics.
pub fn run_test(open: Open, test: Test) {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let fixture = open().await;
            let cleanup = fixture.cleanup();
            test(fixture).await;
            cleanup.await;
        });
    };
    let thread = std::thread::current();
    let builder = std::thread::Builder::new().stack_size(STACK_SIZE);
    let builder = builder.name(thread.name().unwrap_or("test").to_owned());
    if let Err(panic) = builder.spawn(run).expect("a thread").join() {
        std::panic::resume_unwind(panic);
    }
}

/// Defines a module with the name of a backend, with a test for each function of the suite: `for_every_test!(run_suite_on engine_memory:)`.
#[macro_export]
#[expect(
    clippy::crate_in_macro_def,
    reason = "the suite is a module of the target that calls the macro"
)]
macro_rules! run_suite_on {
    ($fixture:ident: $($group:ident { $($module:ident: [$($test:ident,)*])* })*) => {
        mod $fixture {
            fn open() -> ::futures_util::future::LocalBoxFuture<'static, $crate::Fixture> {
                Box::pin($crate::Fixture::$fixture())
            }

            $(mod $group {
                $(mod $module {
                    $(#[test]
                    fn $test() {
                        $crate::suite::run_test(crate::$fixture::open, |fixture| {
                            Box::pin(crate::suite::$group::$module::$test(fixture))
                        });
                    })*
                })*
            })*
        }
    };
}

/// Asserts that `list`, the source of a suite, lists each public function of the files in `dir`. A function outside of the list would
/// never run.
///
/// # Panics
///
/// If a function is missing in the list.
pub fn assert_complete(list: &str, dir: &str) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
    for file in rust_files_in_groups(&dir) {
        let group = name(file.parent().expect("a group"));
        let (_, listed) = list
            .split_once(&format!(" {group} {{"))
            .expect("a listed group");
        let module = name(&file);
        let listed = listed.split_once(&format!(" {module}: ["));
        let (_, listed) = listed.unwrap_or_else(|| panic!("{group}::{module} is not listed"));
        let (listed, _) = listed.split_once(']').expect("the end of a list");
        let code = fs::read_to_string(&file).expect("a source file");
        for test in code
            .lines()
            .filter_map(|line| line.strip_prefix("pub async fn "))
        {
            let (test, _) = test.split_once('(').expect("a function");
            assert!(
                listed.contains(&format!(" {test},")),
                "{group}::{module}::{test} is not listed in suite.rs"
            );
        }
    }
}

fn rust_files_in_groups(dir: &Path) -> Vec<PathBuf> {
    let entries = |dir: &Path| fs::read_dir(dir).expect("a directory").flatten();
    let groups = entries(dir)
        .map(|entry| entry.path())
        .filter(|path| path.is_dir());
    groups
        .flat_map(|group| entries(&group).map(|entry| entry.path()))
        .collect()
}

fn name(path: &Path) -> &str {
    path.file_stem()
        .and_then(|name| name.to_str())
        .expect("a name")
}
