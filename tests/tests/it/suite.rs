//! The tests that every backend passes: plain functions that get an empty database.
//!
//! [`for_every_test`] lists them, and a test checks that none is left out.
#![expect(missing_docs, reason = "the name of a test says what it tests")]
#![expect(clippy::missing_panics_doc, reason = "a test panics when it fails")]

pub mod backend;
pub mod typed;

/// Hands the list of all tests to a macro, grouped by the files in `suite/`.
macro_rules! for_every_test {
    ($run:ident $($context:tt)*) => {
        $run! { $($context)*
            backend {
                count: [
                    counts_all_or_what_matches,
                    stops_at_the_limit,
                ]
            }
            typed {
                counts: [
                    a_bulk_is_counted,
                    a_transaction_is_whole,
                    documents_are_counted,
                    many_at_once_are_counted,
                    of_which_documents,
                    owners_come_and_go,
                    several_references_count,
                    the_check_finds_what_was_changed_from_outside,
                    the_latest_are_kept,
                    what_goes_with_another_is_not_counted,
                    what_is_counted_costs,
                    what_is_made_of_others_is_not_written,
                    wherever_a_write_dies_counts_are_exact,
                ]
                copies: [
                    a_bulk_fills_and_follows,
                    a_chain_follows,
                    a_source_is_only_read,
                    a_transaction_is_whole,
                    an_insert_that_ends_early,
                    copies_are_filled_at_insert,
                    copies_follow_their_source,
                    copies_in_arrays_follow,
                    copies_in_arrays_of_arrays_follow,
                    how_far_behind_copies_are,
                    many_dependents_follow_behind,
                    references_that_change_bring_other_copies,
                    snapshots_stay,
                    the_check_finds_what_was_changed_from_outside,
                    the_indexes_are_declared,
                    what_cannot_be_copied_is_refused,
                    what_is_gone,
                    wherever_a_write_dies_copies_converge,
                    whoever_comes_second_sees_the_first,
                ]
                snapshots: [
                    drift_costs_one_query_for_each_source,
                    drift_is_found,
                    it_remembers_where_it_is_from,
                    what_remembered_nothing_is_compared_by_its_reference,
                    where_it_is_from_stays,
                ]
            }
        }
    };
}

pub(crate) use for_every_test;

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::{Path, PathBuf},
    };

    /// A function that is not in the list would never run.
    #[test]
    fn every_test_is_listed() {
        let list = include_str!("suite.rs");
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/suite");
        for file in rust_files_in_groups(&dir) {
            let group = name(file.parent().expect("a group"));
            let (_, listed) = list
                .split_once(&format!("{group} {{"))
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
}
