use std::fs;

use bson::rawdoc;
use odm_engine::{Database, Direction, Index};

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
    assert!(refused.failure.unwrap().is_duplicate_key());
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
