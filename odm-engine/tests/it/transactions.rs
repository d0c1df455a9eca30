use bson::rawdoc;
use odm_engine::{Count, Database, Delete, Direction, Find, Index, Update};

use crate::all;

fn two() -> Database {
    let database = Database::memory();
    let documents = vec![rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }];
    database.insert("c", documents).unwrap().all().unwrap();
    database
}

fn delete(id: i32) -> Delete {
    Delete {
        filter: rawdoc! { "_id": id },
        ..Delete::default()
    }
}

#[test]
fn a_transaction_reads_its_own_writes_and_nobody_else_does() {
    let database = two();
    let transaction = database.begin().unwrap();
    transaction
        .insert("c", vec![rawdoc! { "_id": 3 }])
        .unwrap()
        .all()
        .unwrap();
    transaction.delete("c", &delete(1)).unwrap();
    transaction
        .insert("new", vec![rawdoc! { "_id": 1 }])
        .unwrap()
        .all()
        .unwrap();
    let count = |name| transaction.count(name, &Count::default()).unwrap();
    assert_eq!((count("c"), count("new")), (2, 1));
    assert_eq!(all(&database, "c").len(), 2);
    assert!(all(&database, "new").is_empty());
    transaction.commit().unwrap();
    assert_eq!(
        all(&database, "c"),
        [rawdoc! { "_id": 2 }, rawdoc! { "_id": 3 }]
    );
    assert_eq!(all(&database, "new").len(), 1);
}

#[test]
fn a_transaction_does_not_see_later_commits() {
    let database = two();
    let transaction = database.begin().unwrap();
    database
        .insert("c", vec![rawdoc! { "_id": 3 }])
        .unwrap()
        .all()
        .unwrap();
    assert_eq!(transaction.find("c", &Find::default()).unwrap().count(), 2);
}

#[test]
fn the_second_to_change_a_document_loses() {
    let database = two();
    let (a, b) = (database.begin().unwrap(), database.begin().unwrap());
    a.delete("c", &delete(1)).unwrap();
    let error = b.delete("c", &delete(1)).unwrap_err();
    assert!(error.is_write_conflict());
    assert_eq!(error.code(), Some(112));
    assert!(b.commit().unwrap_err().is_transaction_over());
    a.commit().unwrap();
    assert_eq!(all(&database, "c").len(), 1);
}

#[test]
fn a_plain_write_that_commits_first_wins() {
    let database = two();
    let transaction = database.begin().unwrap();
    transaction.delete("c", &delete(1)).unwrap();
    database.delete("c", &delete(1)).unwrap();
    assert!(transaction.commit().unwrap_err().is_write_conflict());

    let transaction = database.begin().unwrap();
    database.delete("c", &delete(2)).unwrap();
    assert!(
        transaction
            .delete("c", &delete(2))
            .unwrap_err()
            .is_write_conflict()
    );
}

#[test]
fn unique_indexes_hold_across_transactions() {
    let database = two();
    let unique = Index::new([("email", Direction::Ascending)])
        .unique()
        .sparse();
    database.create_indexes("c", &[unique]).unwrap();
    let (a, b) = (database.begin().unwrap(), database.begin().unwrap());
    a.insert("c", vec![rawdoc! { "_id": 10, "email": "x" }])
        .unwrap()
        .all()
        .unwrap();
    let error = b
        .insert("c", vec![rawdoc! { "_id": 11, "email": "x" }])
        .unwrap_err();
    assert!(error.is_write_conflict());
    a.commit().unwrap();
    let error = database.insert("c", vec![rawdoc! { "_id": 12, "email": "x" }]);
    assert!(error.unwrap().all().unwrap_err().is_duplicate_key());
}

#[test]
fn a_conflict_comes_before_what_is_wrong_with_the_new_keys() {
    let indexed = || {
        let database = two();
        let unique = Index::new([("u", Direction::Ascending)]).unique().sparse();
        let parallel = Index::new([("a", Direction::Ascending), ("b", Direction::Ascending)]);
        database.create_indexes("c", &[unique, parallel]).unwrap();
        let taken = vec![rawdoc! { "_id": 3, "u": 3 }];
        database.insert("c", taken).unwrap().all().unwrap();
        database
    };
    let set = |id: i32, fields| Update {
        filter: rawdoc! { "_id": id },
        update: rawdoc! { "$set": fields },
        ..Update::default()
    };
    // The second of these fails with a code of its own where nobody is in the way.
    for (fields, alone) in [
        (rawdoc! { "a": [1, 2], "b": [1, 2] }, 171),
        (rawdoc! { "u": 3 }, 11000),
    ] {
        let database = indexed();
        let (a, b, c) = (database.begin(), database.begin(), database.begin());
        let (a, b, c) = (a.unwrap(), b.unwrap(), c.unwrap());
        let _changed = a.update("c", &set(1, rawdoc! { "x": 1 })).unwrap();
        let error = b.update("c", &set(1, fields.clone())).unwrap_err();
        assert!(error.is_write_conflict(), "{error}");
        a.commit().unwrap();
        // Nor does it matter whether the other one has ended.
        let error = c.update("c", &set(1, fields.clone())).unwrap_err();
        assert!(error.is_write_conflict(), "{error}");
        let alone_in_it = database.begin().unwrap();
        let error = alone_in_it.update("c", &set(1, fields)).unwrap_err();
        assert_eq!(error.code(), Some(alone));
    }

    // Of an insertion, the indexes are asked one after the other: the one on `_id` comes first.
    let database = indexed();
    let (a, b) = (database.begin().unwrap(), database.begin().unwrap());
    let first = vec![rawdoc! { "_id": 10 }];
    a.insert("c", first).unwrap().all().unwrap();
    let second = vec![
        rawdoc! { "_id": 11 },
        rawdoc! { "_id": 10, "a": [1], "b": [1] },
    ];
    assert!(b.insert("c", second).unwrap_err().is_write_conflict());
}

#[test]
fn a_replacement_by_the_same_stands_in_the_way_too() {
    let database = two();
    let replace = |replacement| Update {
        filter: rawdoc! { "_id": 1 },
        update: replacement,
        ..Update::default()
    };
    let (a, b) = (database.begin().unwrap(), database.begin().unwrap());
    let report = a.update("c", &replace(rawdoc! {})).unwrap();
    assert_eq!(report.modified, 1);
    let error = b.update("c", &replace(rawdoc! { "a": 1 })).unwrap_err();
    assert!(error.is_write_conflict());
    // With its `_id` it is no change.
    let report = database
        .update("c", &replace(rawdoc! { "_id": 1 }))
        .unwrap();
    assert_eq!((report.matched, report.modified), (1, 0));
}

#[test]
fn writes_to_different_documents_do_not_conflict() {
    let database = two();
    let shared = Index::new([("a", Direction::Ascending)]);
    database.create_indexes("c", &[shared]).unwrap();
    let (a, b) = (database.begin().unwrap(), database.begin().unwrap());
    a.insert("c", vec![rawdoc! { "_id": 10, "a": [1, 2] }])
        .unwrap()
        .all()
        .unwrap();
    b.insert("c", vec![rawdoc! { "_id": 11, "a": [1, 2] }])
        .unwrap()
        .all()
        .unwrap();
    a.commit().unwrap();
    b.commit().unwrap();
    assert_eq!(all(&database, "c").len(), 4);
}

#[test]
fn an_index_created_meanwhile_makes_the_commit_fail() {
    let database = two();
    let transaction = database.begin().unwrap();
    transaction
        .insert("c", vec![rawdoc! { "_id": 3, "a": 1 }])
        .unwrap()
        .all()
        .unwrap();
    let index = Index::new([("a", Direction::Ascending)]);
    database.create_indexes("c", &[index]).unwrap();
    assert!(transaction.commit().unwrap_err().is_write_conflict());
}

#[test]
fn the_end_of_a_transaction_is_final() {
    let database = two();
    let transaction = database.begin().unwrap();
    transaction.delete("c", &delete(1)).unwrap();
    transaction.abort().unwrap();
    transaction.abort().unwrap();
    let error = transaction.delete("c", &delete(1)).unwrap_err();
    assert!(error.is_transaction_over());
    assert_eq!(error.code(), Some(251));

    let transaction = database.begin().unwrap();
    transaction.delete("c", &delete(1)).unwrap();
    transaction.commit().unwrap();
    transaction.commit().unwrap();
    assert_eq!(transaction.abort().unwrap_err().code(), Some(256));
    assert!(
        transaction
            .find("c", &Find::default())
            .unwrap_err()
            .is_transaction_over()
    );
}

#[test]
fn a_dropped_transaction_leaves_nothing_and_blocks_nobody() {
    let database = two();
    let dropped = database.begin().unwrap();
    dropped.delete("c", &delete(1)).unwrap();
    drop(dropped);
    let next = database.begin().unwrap();
    next.delete("c", &delete(1)).unwrap();
    next.commit().unwrap();
    assert_eq!(all(&database, "c").len(), 1);
}

#[test]
fn an_error_of_a_cursor_aborts_the_transaction() {
    let database = two();
    let transaction = database.begin().unwrap();
    let failing = Find {
        filter: rawdoc! { "$expr": { "$abs": { "$type": "$_id" } } },
        ..Find::default()
    };
    let mut cursor = transaction.find("c", &failing).unwrap();
    assert_eq!(cursor.next().unwrap().unwrap_err().code(), Some(28765));
    assert!(transaction.commit().unwrap_err().is_transaction_over());

    // What is skipped is looked at too.
    let skipping = Find { skip: 9, ..failing };
    let error = database.find("c", &skipping).unwrap().next().unwrap();
    assert_eq!(error.unwrap_err().code(), Some(28765));
}

#[test]
fn a_duplicate_key_aborts_the_transaction() {
    let database = two();
    let transaction = database.begin().unwrap();
    let report = transaction.insert("c", vec![rawdoc! { "_id": 1 }]).unwrap();
    assert!(report.all().unwrap_err().is_duplicate_key());
    assert!(transaction.commit().unwrap_err().is_transaction_over());
}
