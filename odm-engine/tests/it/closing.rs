//! Closing a database: by `close`, and by dropping the last handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::rawdoc;
use odm_engine::{Count, Database, Direction, Find, Index, Watch};

use crate::all;

fn insert(database: &Database, id: i32) -> odm_engine::Result<usize> {
    database
        .insert("c", vec![rawdoc! { "_id": id }])?
        .into_result()
}

#[test]
fn a_closed_database_can_be_opened_again_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    for round in 0..80 {
        let database = Database::open(&path).unwrap();
        insert(&database, round).unwrap();
        let clone = database.clone();
        // Cursors, transactions and streams do not keep a closed database open.
        let cursor = database.find("c", &Find::default()).unwrap();
        let transaction = database.begin().unwrap();
        let changes = database.watch(&Watch::default()).unwrap();
        database.close();
        database.close();
        let opened = Database::open(&path).unwrap();
        assert_eq!(all(&opened, "c").len(), usize::try_from(round).unwrap() + 1);
        assert!(insert(&clone, -1).unwrap_err().is_closed());
        drop((cursor, transaction, changes));
    }
}

#[test]
fn every_operation_on_a_closed_database_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Database::open(directory.path().join("data.odm")).unwrap();
    for database in [Database::memory(), disk] {
        insert(&database, 1).unwrap();
        let transaction = database.begin().unwrap();
        transaction
            .insert("c", vec![rawdoc! { "_id": 2 }])
            .unwrap()
            .into_result()
            .unwrap();
        let mut changes = database.watch(&Watch::default()).unwrap();
        database.close();
        assert!(insert(&database, 3).unwrap_err().is_closed());
        assert!(
            database
                .find("c", &Find::default())
                .unwrap_err()
                .is_closed()
        );
        assert!(
            database
                .count("c", &Count::default())
                .unwrap_err()
                .is_closed()
        );
        assert!(database.list_collections().unwrap_err().is_closed());
        assert!(database.drop_collection("c").unwrap_err().is_closed());
        assert!(database.begin().unwrap_err().is_closed());
        assert!(database.watch(&Watch::default()).unwrap_err().is_closed());
        assert!(database.validate().unwrap_err().is_closed());
        assert!(database.reopen().unwrap_err().is_closed());
        assert!(database.delete_expired().unwrap_err().is_closed());
        assert!(database.set_change_log(None).unwrap_err().is_closed());
        assert!(
            transaction
                .count("c", &Count::default())
                .unwrap_err()
                .is_closed()
        );
        assert!(transaction.commit().is_err());
        assert!(
            changes
                .next(Duration::from_secs(1))
                .unwrap_err()
                .is_closed()
        );
    }
}

/// Writes that run during `close` either succeed or fail with `Closed`. Acknowledged writes survive.
#[test]
fn closing_waits_for_running_writes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let database = Database::open(&path).unwrap();
    let acknowledged: Vec<i32> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let database = &database;
                scope.spawn(move || {
                    let ids = (0..).map(|n| writer * 1_000_000 + n);
                    ids.take_while(|id| match insert(database, *id) {
                        Ok(_) => true,
                        Err(error) => {
                            assert!(error.is_closed(), "{error:?}");
                            false
                        }
                    })
                    .collect::<Vec<_>>()
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(200));
        database.close();
        let writers = writers.into_iter();
        writers.flat_map(|writer| writer.join().unwrap()).collect()
    });
    let database = Database::open(&path).unwrap();
    database.validate().unwrap();
    let mut documents: Vec<_> = all(&database, "c")
        .iter()
        .map(|document| document.get_i32("_id").unwrap())
        .collect();
    documents.sort_unstable();
    let mut acknowledged = acknowledged;
    acknowledged.sort_unstable();
    assert_eq!(documents, acknowledged);
    assert!(!documents.is_empty());
}

/// The expiry thread does not keep a database open, even during a deletion.
#[test]
fn the_deletion_of_expired_documents_ends_with_the_last_handle() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let index = Index::new([("at", Direction::Ascending)]).expire_after(Duration::ZERO);
    for round in 0..20_i64 {
        let database = Database::open(&path).unwrap();
        let old_date = bson::DateTime::from_millis(1);
        let documents = (0..3_000_i64)
            .map(|n| rawdoc! { "_id": round * 10_000 + n, "at": old_date })
            .collect();
        database
            .insert("c", documents)
            .unwrap()
            .into_result()
            .unwrap();
        database.set_expiry_period(Duration::from_millis(1));
        database
            .create_indexes("c", std::slice::from_ref(&index))
            .unwrap();
        let is_deleting = || {
            !database
                .count("c", &Count::default())
                .unwrap()
                .is_multiple_of(3_000)
        };
        let deadline = std::time::Instant::now() + Duration::from_secs(5);
        while !is_deleting() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        drop(database);
        let opened = Database::open(&path);
        assert!(opened.is_ok(), "{round}: {opened:?}");
        opened.unwrap().drop_collection("c").unwrap();
    }
}

/// Dropping a handle while another thread reads: the reader continues or gets an error, and the file is released.
#[test]
fn a_reader_keeps_no_file_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let database = Database::open(&path).unwrap();
    let documents = (0..2_000).map(|n| rawdoc! { "_id": n, "text": "x".repeat(1_000) });
    let inserted = database.insert("c", documents.collect()).unwrap();
    inserted.into_result().unwrap();
    let is_finished = Arc::<AtomicBool>::default();
    let cursor = database.find("c", &Find::default()).unwrap();
    let reader = {
        let is_finished = Arc::clone(&is_finished);
        std::thread::spawn(move || {
            let mut cursor = cursor;
            while !is_finished.load(Ordering::Relaxed) {
                match cursor.next() {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Some(error),
                    None => return None,
                }
            }
            None
        })
    };
    drop(database);
    let database = Database::open(&path).unwrap();
    is_finished.store(true, Ordering::Relaxed);
    let error = reader.join().unwrap();
    assert!(error.is_none_or(|error| error.is_closed()));
    assert_eq!(all(&database, "c").len(), 2_000);
}
