//! A program that is killed in the middle leaves a usable file.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use bson::rawdoc;
use odm_engine::{Count, Database, Delete};

use crate::{Shop, assert_success, insert, run_on};

/// Runs a command, and kills the program after a time. Returns whether the program had ended before.
fn kill_after(milliseconds: u64, command: &str, file: &Path, arguments: &[&str]) -> bool {
    let mut program = Command::new(env!("CARGO_BIN_EXE_odm"));
    let program = program.arg(command).arg(file).args(arguments);
    let mut child = program
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(milliseconds));
    let has_ended = child
        .try_wait()
        .unwrap()
        .is_some_and(|status| status.success());
    let _ = child.kill();
    child.wait().unwrap();
    has_ended
}

/// Runs a command again with a longer time until the command ends. Calls `check` after each run.
fn kill_at_many_times(command: &str, file: &Path, arguments: &[&str], mut check: impl FnMut(bool)) {
    let mut milliseconds = 1;
    loop {
        let has_ended = kill_after(milliseconds, command, file, arguments);
        check(has_ended);
        if has_ended {
            return;
        }
        milliseconds += milliseconds / 4 + 2;
    }
}

#[test]
fn a_killed_compaction_keeps_the_content() {
    let shop = Shop::new();
    let database = Database::open(shop.file()).unwrap();
    let large = (0..3_000).map(|id| rawdoc! { "_id": id, "text": "x".repeat(1_000) });
    insert(&database, "large", large.collect());
    let delete = Delete {
        filter: rawdoc! { "_id": { "$mod": [2, 0] } },
        multi: true,
        ..Delete::default()
    };
    database.delete("large", &delete).unwrap();
    database.close();
    kill_at_many_times("compact", &shop.file(), &[], |_| {
        let database = Database::open(shop.file()).unwrap();
        database.validate().unwrap();
        for (collection, count) in [("large", 1_500), ("orders", 2_500), ("people", 3)] {
            assert_eq!(
                database.count(collection, &Count::default()).unwrap(),
                count
            );
        }
    });
    assert!(!shop.path("shop.odm.unfinished").exists());
}

#[test]
fn a_killed_dump_has_no_name() {
    let shop = Shop::new();
    let (directory, copy) = (shop.path("dump"), shop.path("copy.odm"));
    kill_at_many_times(
        "dump",
        &shop.file(),
        &[directory.to_str().unwrap()],
        |has_ended| {
            let dump = directory.join("shop");
            assert!(dump.exists() || !has_ended);
            if dump.exists() {
                assert_success(&run_on(
                    "restore",
                    &copy,
                    &[dump.to_str().unwrap(), "--drop"],
                ));
                let restored = Database::open(&copy).unwrap();
                assert_eq!(restored.count("orders", &Count::default()).unwrap(), 2_500);
                assert_eq!(restored.count("people", &Count::default()).unwrap(), 3);
                if !has_ended {
                    fs::remove_dir_all(&dump).unwrap();
                }
            }
        },
    );
}

#[test]
fn a_killed_restore_is_repeated() {
    let shop = Shop::new();
    let (directory, copy) = (shop.path("dump"), shop.path("copy.odm"));
    assert_success(&shop.run("dump", &[directory.to_str().unwrap()]));
    let arguments = [directory.to_str().unwrap(), "--drop"];
    kill_at_many_times("restore", &copy, &arguments, |has_ended| {
        if copy.exists() {
            let restored = Database::open(&copy).unwrap();
            restored.validate().unwrap();
            let count = restored.count("orders", &Count::default()).unwrap();
            assert!(count == 2_500 || !has_ended);
        }
    });
}
