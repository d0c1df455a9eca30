//! The program `odm`. See the library `odm_cli`.

use std::panic;
use std::process::ExitCode;

fn main() -> ExitCode {
    hide_panics_of_redb();
    odm_cli::run_without_models(std::env::args_os())
}

/// Keeps the panics of redb out of the standard error. redb panics on some damaged pages, and the engine turns such a panic into an
/// error, which the program prints.
fn hide_panics_of_redb() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let location = info.location();
        if !location.is_some_and(|location| is_of_redb(location.file())) {
            print(info);
        }
    }));
}

/// Whether a file of the source is in a folder such as `redb-4.0.0`.
fn is_of_redb(file: &str) -> bool {
    let mut folders = file.split(['/', '\\']);
    folders.any(|folder| {
        let version = folder.strip_prefix("redb-");
        version.is_some_and(|version| version.starts_with(|digit: char| digit.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_panics_of_redb_are_hidden() {
        assert!(is_of_redb(
            "/home/me/.cargo/registry/src/index/redb-4.0.0/src/tree_store/btree.rs"
        ));
        assert!(!is_of_redb("odm-engine/src/store/redb/database_file.rs"));
        assert!(!is_of_redb("/home/me/redb-tools/src/main.rs"));
    }
}
