use std::time::{Duration, Instant};

use bson::{DateTime, rawdoc};
use odm_engine::{Database, Direction, Index};

use crate::all;

fn with_documents() -> Database {
    let database = Database::memory();
    let index = Index::new([("at", Direction::Ascending)]).expire_after(Duration::from_secs(60));
    database.create_indexes("c", &[index]).unwrap();
    let now = DateTime::now().timestamp_millis();
    let ago = |seconds: i64| DateTime::from_millis(now - seconds * 1000);
    let documents = vec![
        rawdoc! { "_id": 1, "at": ago(61) },
        rawdoc! { "_id": 2, "at": ago(30) },
        rawdoc! { "_id": 3, "at": [ago(0), ago(100)] },
        rawdoc! { "_id": 4, "at": "not a date" },
        rawdoc! { "_id": 5 },
    ];
    database
        .insert("c", documents)
        .unwrap()
        .into_result()
        .unwrap();
    database
}

fn ids(database: &Database) -> Vec<i32> {
    let documents = all(database, "c");
    documents
        .iter()
        .map(|document| document.get_i32("_id").unwrap())
        .collect()
}

#[test]
fn documents_expire_some_time_after_their_date() {
    let database = with_documents();
    assert_eq!(database.delete_expired().unwrap(), 2);
    assert_eq!(ids(&database), [2, 4, 5]);
    assert_eq!(database.delete_expired().unwrap(), 0);
}

#[test]
fn a_background_thread_deletes_expired_documents() {
    let database = with_documents();
    database.set_expiry_period(Duration::from_millis(10));
    let started = Instant::now();
    while ids(&database).len() > 3 {
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "nothing has expired"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_thread_does_not_keep_the_database_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    for _ in 0..3 {
        let database = Database::open(&path).unwrap();
        let index = Index::new([("at", Direction::Ascending)]).expire_after(Duration::ZERO);
        database.create_indexes("c", &[index]).unwrap();
    }
}
