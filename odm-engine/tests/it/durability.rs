use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use bson::rawdoc;
use odm_engine::{Count, Database, Direction, Index};

use crate::all;

#[test]
fn what_was_acknowledged_is_there_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    {
        let database = Database::open(&path).unwrap();
        let index = Index::new([("a", Direction::Descending)])
            .partial(rawdoc! { "a": { "$gt": 0 } })
            .unique();
        database.create_indexes("c", &[index]).unwrap();
        let documents = vec![rawdoc! { "_id": 2, "a": 1 }, rawdoc! { "_id": 1, "a": 2 }];
        database.insert("c", documents).unwrap().all().unwrap();
    }
    let database = Database::open(&path).unwrap();
    assert_eq!(all(&database, "c").len(), 2);
    let indexes = database.list_indexes("c").unwrap();
    let names: Vec<_> = indexes.iter().map(|index| index.name.as_str()).collect();
    assert_eq!(names, ["_id_", "a_-1"]);
    let refused = database
        .insert("c", vec![rawdoc! { "_id": 3, "a": 1 }])
        .unwrap();
    assert!(refused.all().unwrap_err().is_duplicate_key());
    database
        .insert("c", vec![rawdoc! { "_id": 0 }])
        .unwrap()
        .all()
        .unwrap();
    let ids: Vec<_> = all(&database, "c")
        .iter()
        .map(|document| document.get_i32("_id").unwrap())
        .collect();
    assert_eq!(ids, [2, 1, 0]);
}

#[test]
fn a_file_is_opened_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let first = Database::open(&path).unwrap();
    assert!(Database::open(&path).unwrap_err().is_in_use());
    drop(first);
    Database::open(&path).unwrap();
}

/// Runs one test of this file in a process of its own, with the path of a database.
fn in_another_process(test: &str, path: &Path) -> ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, path);
    child
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap()
}

/// Set for the processes that tests start.
const CHILD: &str = "ODM_ENGINE_TEST_DATABASE";

/// Does nothing by itself; see [`what_was_acknowledged_survives_the_death_of_the_process`].
#[test]
fn child_writes_and_dies() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let database = Database::open(path).unwrap();
    database
        .insert("c", vec![rawdoc! { "_id": 1 }])
        .unwrap()
        .all()
        .unwrap();
    let unfinished = database.begin().unwrap();
    unfinished
        .insert("c", vec![rawdoc! { "_id": 2 }])
        .unwrap()
        .all()
        .unwrap();
    std::process::abort();
}

#[test]
fn what_was_acknowledged_survives_the_death_of_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let died = in_another_process("durability::child_writes_and_dies", &path);
    assert!(!died.success());
    let database = Database::open(&path).unwrap();
    assert_eq!(all(&database, "c"), [rawdoc! { "_id": 1 }]);
}

/// Does nothing by itself; see [`another_process_is_kept_out`].
#[test]
fn child_is_kept_out() {
    if let Some(path) = std::env::var_os(CHILD) {
        assert!(Database::open(path).unwrap_err().is_in_use());
    }
}

#[test]
fn another_process_is_kept_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let _open = Database::open(&path).unwrap();
    assert!(in_another_process("durability::child_is_kept_out", &path).success());
}

#[test]
fn foreign_files_are_told_apart_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    for content in [b"short".to_vec(), vec![b'x'; 100_000]] {
        let path = directory.path().join("foreign");
        fs::write(&path, &content).unwrap();
        assert!(Database::open(&path).unwrap_err().is_foreign_file());
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    let path = directory.path().join("other.redb");
    drop(redb::Database::create(&path).unwrap());
    assert!(Database::open(&path).unwrap_err().is_foreign_file());
}

#[test]
fn a_truncated_file_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    {
        let database = Database::open(&path).unwrap();
        let documents = (0..2000).map(|n| rawdoc! { "_id": n, "text": "x".repeat(500) });
        database
            .insert("c", documents.collect())
            .unwrap()
            .all()
            .unwrap();
    }
    let whole = fs::read(&path).unwrap();
    for length in [
        10,
        64,
        300,
        512,
        4000,
        4096,
        5000,
        8192,
        whole.len() / 2,
        whole.len() - 1,
    ] {
        let copy = directory.path().join(format!("truncated-{length}"));
        fs::write(&copy, &whole[..length]).unwrap();
        let error = Database::open(&copy).unwrap_err();
        assert!(error.is_damaged(), "{length}: {error:?}");
    }
}

#[test]
fn damaged_bytes_never_panic() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    {
        let database = Database::open(&path).unwrap();
        let index = Index::new([("n", Direction::Ascending)]);
        database.create_indexes("c", &[index]).unwrap();
        let documents = (0..300).map(|n| rawdoc! { "_id": n, "n": n, "text": "x".repeat(50) });
        database
            .insert("c", documents.collect())
            .unwrap()
            .all()
            .unwrap();
    }
    let whole = fs::read(&path).unwrap();
    // A fixed sequence of places, over the header and the first pages.
    for step in 0..200_usize {
        let mut bytes = whole.clone();
        let place = (step * 7919) % bytes.len().min(200_000);
        for byte in bytes.iter_mut().skip(place).take(4) {
            *byte ^= 0xA5;
        }
        let copy = directory.path().join("damaged.odm");
        fs::write(&copy, &bytes).unwrap();
        if let Ok(database) = Database::open(&copy) {
            let cursor = database.find("c", &odm_engine::Find::default()).unwrap();
            for document in cursor {
                if document.is_err() {
                    break;
                }
            }
        }
    }
}

#[test]
fn many_threads_share_commits_and_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let database = Database::open(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let database = &database;
            scope.spawn(move || {
                for n in 0..25 {
                    let document = rawdoc! { "_id": thread * 100 + n };
                    database.insert("c", vec![document]).unwrap().all().unwrap();
                }
            });
        }
    });
    drop(database);
    let database = Database::open(&path).unwrap();
    assert_eq!(database.count("c", &Count::default()).unwrap(), 200);
}
