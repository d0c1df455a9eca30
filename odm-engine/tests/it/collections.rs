use bson::rawdoc;
use odm_engine::{Count, Database, Direction, Find, Index};

use crate::all;

fn filled() -> Database {
    let database = Database::memory();
    let index = Index::new([("a", Direction::Ascending)]);
    database.create_indexes("c", &[index]).unwrap();
    let documents = (0..10).map(|id| rawdoc! { "_id": id, "a": [id, 7] });
    let report = database.insert("c", documents.collect()).unwrap();
    report.into_result().unwrap();
    database
}

#[test]
fn collections_are_created_and_listed() {
    let database = filled();
    database.create_collection("b").unwrap();
    assert_eq!(database.list_collections().unwrap(), ["b", "c"]);
    let rejection = database.create_collection("c").unwrap_err();
    assert_eq!(rejection.code(), Some(48));
    let rejection = database.create_collection("a$b").unwrap_err();
    assert_eq!(rejection.code(), Some(73));
    assert_eq!(database.list_indexes("b").unwrap().len(), 1);
}

#[test]
fn dropping_a_collection_deletes_documents_and_indexes() {
    let database = filled();
    database.drop_collection("c").unwrap();
    database.drop_collection("c").unwrap();
    assert!(database.list_collections().unwrap().is_empty());
    assert!(database.list_indexes("c").unwrap().is_empty());
    assert!(all(&database, "c").is_empty());

    // A new collection with the same name is a different collection.
    let again = vec![rawdoc! { "_id": 3, "a": 7 }];
    database
        .insert("c", again.clone())
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!(all(&database, "c"), again);
    assert_eq!(database.list_indexes("c").unwrap().len(), 1);
}

#[test]
fn a_drop_is_durable_and_leaves_other_collections() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    {
        let database = Database::open(&path).unwrap();
        for name in ["a", "b"] {
            let documents = vec![rawdoc! { "_id": 1 }];
            database
                .insert(name, documents)
                .unwrap()
                .into_result()
                .unwrap();
        }
        database.drop_collection("b").unwrap();
    }
    let database = Database::open(&path).unwrap();
    assert_eq!(database.list_collections().unwrap(), ["a"]);
    assert_eq!(all(&database, "a").len(), 1);
    let documents = vec![rawdoc! { "_id": 2 }];
    database
        .insert("b", documents)
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!(all(&database, "b"), [rawdoc! { "_id": 2 }]);
}

#[test]
fn cursors_and_transactions_survive_a_drop() {
    let database = filled();
    let mut cursor = database.find("c", &Find::default()).unwrap();
    cursor.next().unwrap().unwrap();
    let (reading, writing) = (database.begin().unwrap(), database.begin().unwrap());
    let insert = writing.insert("c", vec![rawdoc! { "_id": 100 }]).unwrap();
    insert.into_result().unwrap();
    database.drop_collection("c").unwrap();
    let count = Count {
        filter: rawdoc! { "a": 7 },
        ..Count::default()
    };
    assert_eq!(cursor.count(), 9);
    assert_eq!(reading.count("c", &count).unwrap(), 10);
    reading.commit().unwrap();
    assert!(writing.commit().unwrap_err().is_write_conflict());

    // This also holds for a new collection with the same name.
    let (database, again) = (filled(), vec![rawdoc! { "_id": 5 }]);
    let writing = database.begin().unwrap();
    database.drop_collection("c").unwrap();
    database
        .insert("c", again.clone())
        .unwrap()
        .into_result()
        .unwrap();
    let insert = writing.insert("c", vec![rawdoc! { "_id": 100 }]);
    insert.unwrap().into_result().unwrap();
    assert!(writing.commit().unwrap_err().is_write_conflict());
    assert_eq!(all(&database, "c"), again);
}

#[test]
fn a_collection_created_in_a_transaction_is_there_after_the_commit() {
    let database = Database::memory();
    let transaction = database.begin().unwrap();
    transaction.create_collection("c").unwrap();
    assert!(database.list_collections().unwrap().is_empty());
    transaction.commit().unwrap();
    assert_eq!(database.list_collections().unwrap(), ["c"]);

    let (a, b) = (database.begin().unwrap(), database.begin().unwrap());
    a.create_collection("d").unwrap();
    assert!(b.create_collection("d").unwrap_err().is_write_conflict());
}
