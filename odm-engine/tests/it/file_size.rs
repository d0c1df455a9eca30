//! The size of the file while documents come, change and go.

use std::fs;
use std::path::Path;

use bson::{RawDocumentBuf, rawdoc};
use odm_engine::{Database, Delete, Direction, Find, Index, Update};

const DOCUMENTS: i32 = 4_000;

/// Returns a document of about 300 bytes. Each round has other keys in the indexes.
fn document(id: i32, round: i32) -> RawDocumentBuf {
    rawdoc! { "_id": id, "n": (id * 7_919 + round) % DOCUMENTS, "round": round, "text": "x".repeat(240) }
}

fn open_with_indexes(path: &Path) -> Database {
    let database = Database::open(path).unwrap();
    let indexes = ["n", "round"].map(|field| Index::new([(field, Direction::Ascending)]));
    database.create_indexes("c", &indexes).unwrap();
    database
}

/// Returns the largest size of the file in bytes, at the end of the first rounds and of the remaining rounds.
fn largest_sizes(path: &Path, rounds: i32, run_round: impl Fn(i32)) -> (u64, u64) {
    let sizes = (0..rounds).map(|round| {
        run_round(round);
        fs::metadata(path).unwrap().len()
    });
    let sizes: Vec<_> = sizes.collect();
    let (first, rest) = sizes.split_at(sizes.len() / 3);
    (*first.iter().max().unwrap(), *rest.iter().max().unwrap())
}

/// The space of old versions of documents and index entries is used again.
#[test]
fn updates_do_not_grow_the_file_without_bound() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("updates.odm");
    let database = open_with_indexes(&path);
    let documents = (0..DOCUMENTS).map(|id| document(id, 0)).collect();
    let inserted = database.insert("c", documents).unwrap();
    assert_eq!(inserted.into_result().unwrap(), 4_000);
    let (first, rest) = largest_sizes(&path, 30, |round| {
        // A part of the documents in a large write, and some in small writes.
        let update = Update {
            filter: rawdoc! { "n": { "$gte": DOCUMENTS / 2 } },
            update: rawdoc! { "$inc": { "n": -1, "round": 1 } },
            multi: true,
            ..Update::default()
        };
        assert!(database.update("c", &update).unwrap().modified > 0);
        for id in (0..DOCUMENTS).skip(round as usize).step_by(50) {
            let update = Update {
                filter: rawdoc! { "_id": id },
                update: document(id, round),
                ..Update::default()
            };
            assert_eq!(database.update("c", &update).unwrap().matched, 1);
        }
    });
    assert!(rest <= first * 3 / 2, "{first} {rest}");
    database.validate().unwrap();
}

/// The space of deleted documents is used again, also after the database was closed and opened.
#[test]
fn deletes_and_inserts_do_not_grow_the_file_without_bound() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.odm");
    let (first, rest) = largest_sizes(&path, 24, |round| {
        let database = open_with_indexes(&path);
        let ids = round * DOCUMENTS..(round + 1) * DOCUMENTS;
        let documents = ids.map(|id| document(id, round)).collect();
        let inserted = database.insert("c", documents).unwrap();
        assert_eq!(inserted.into_result().unwrap(), 4_000);
        let old = Delete {
            filter: rawdoc! { "_id": { "$lt": round * DOCUMENTS } },
            multi: true,
            ..Delete::default()
        };
        database.delete("c", &old).unwrap();
    });
    assert!(rest <= first * 3 / 2, "{first} {rest}");
    let database = open_with_indexes(&path);
    assert_eq!(database.find("c", &Find::default()).unwrap().count(), 4_000);
    database.validate().unwrap();
}

/// An open cursor keeps the old versions. The space is used again after the cursor is dropped.
#[test]
fn the_space_that_a_reader_keeps_is_used_again_later() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reader.odm");
    let database = open_with_indexes(&path);
    let documents = (0..DOCUMENTS).map(|id| document(id, 0)).collect();
    let inserted = database.insert("c", documents).unwrap();
    assert_eq!(inserted.into_result().unwrap(), 4_000);
    let rewrite = || {
        let update = Update {
            filter: rawdoc! {},
            update: rawdoc! { "$inc": { "round": 1 } },
            multi: true,
            ..Update::default()
        };
        assert_eq!(database.update("c", &update).unwrap().modified, 4_000);
    };
    let mut reader = database.find("c", &Find::default()).unwrap();
    assert!(reader.next().unwrap().is_ok());
    let (_, with_reader) = largest_sizes(&path, 9, |_| rewrite());
    assert_eq!(reader.map(Result::unwrap).count(), 3_999);
    let (_, without) = largest_sizes(&path, 9, |_| rewrite());
    assert!(without <= with_reader, "{with_reader} {without}");
}
