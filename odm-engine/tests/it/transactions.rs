use bson::rawdoc;
use odm_engine::{Count, Database, Delete, Direction, Find, Index, Update};

use crate::all;

fn two() -> Database {
    let database = Database::memory();
    let documents = vec![rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }];
    database
        .insert("c", documents)
        .unwrap()
        .into_result()
        .unwrap();
    database
}

fn delete(id: i32) -> Delete {
    Delete {
        filter: rawdoc! { "_id": id },
        ..Delete::default()
    }
}

#[test]
fn only_the_transaction_itself_reads_its_uncommitted_writes() {
    let database = two();
    let transaction = database.begin().unwrap();
    transaction
        .insert("c", vec![rawdoc! { "_id": 3 }])
        .unwrap()
        .into_result()
        .unwrap();
    transaction.delete("c", &delete(1)).unwrap();
    transaction
        .insert("new", vec![rawdoc! { "_id": 1 }])
        .unwrap()
        .into_result()
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
        .into_result()
        .unwrap();
    assert_eq!(transaction.find("c", &Find::default()).unwrap().count(), 2);
}

#[test]
fn the_second_writer_of_a_document_conflicts() {
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
        .into_result()
        .unwrap();
    let error = b
        .insert("c", vec![rawdoc! { "_id": 11, "email": "x" }])
        .unwrap_err();
    assert!(error.is_write_conflict());
    a.commit().unwrap();
    let error = database.insert("c", vec![rawdoc! { "_id": 12, "email": "x" }]);
    assert!(error.unwrap().into_result().unwrap_err().is_duplicate_key());
}

#[test]
fn a_conflict_takes_precedence_over_invalid_new_keys() {
    let indexed = || {
        let database = two();
        let unique = Index::new([("u", Direction::Ascending)]).unique().sparse();
        let parallel = Index::new([("a", Direction::Ascending), ("b", Direction::Ascending)]);
        database.create_indexes("c", &[unique, parallel]).unwrap();
        let duplicate = vec![rawdoc! { "_id": 3, "u": 3 }];
        database
            .insert("c", duplicate)
            .unwrap()
            .into_result()
            .unwrap();
        database
    };
    let set = |id: i32, fields| Update {
        filter: rawdoc! { "_id": id },
        update: rawdoc! { "$set": fields },
        ..Update::default()
    };
    // Without a conflict, the second update fails with a specific code.
    for (fields, code_without_conflict) in [
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
        // The conflict also occurs if the other transaction has ended.
        let error = c.update("c", &set(1, fields.clone())).unwrap_err();
        assert!(error.is_write_conflict(), "{error}");
        let single_transaction = database.begin().unwrap();
        let error = single_transaction.update("c", &set(1, fields)).unwrap_err();
        assert_eq!(error.code(), Some(code_without_conflict));
    }

    // An insert checks the indexes in order, and the index on `_id` comes first.
    let database = indexed();
    let (a, b) = (database.begin().unwrap(), database.begin().unwrap());
    let first = vec![rawdoc! { "_id": 10 }];
    a.insert("c", first).unwrap().into_result().unwrap();
    let second = vec![
        rawdoc! { "_id": 11 },
        rawdoc! { "_id": 10, "a": [1], "b": [1] },
    ];
    assert!(b.insert("c", second).unwrap_err().is_write_conflict());
}

#[test]
fn an_identical_replacement_conflicts() {
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
    // An equal replacement that contains the `_id` is not a modification.
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
        .into_result()
        .unwrap();
    b.insert("c", vec![rawdoc! { "_id": 11, "a": [1, 2] }])
        .unwrap()
        .into_result()
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
        .into_result()
        .unwrap();
    let index = Index::new([("a", Direction::Ascending)]);
    database.create_indexes("c", &[index]).unwrap();
    assert!(transaction.commit().unwrap_err().is_write_conflict());
}

#[test]
fn an_ended_transaction_rejects_further_operations() {
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
fn a_dropped_transaction_leaves_no_data_and_no_claims() {
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

    // The skipped documents are examined, too.
    let skipping = Find { skip: 9, ..failing };
    let error = database.find("c", &skipping).unwrap().next().unwrap();
    assert_eq!(error.unwrap_err().code(), Some(28765));
}

#[test]
fn a_duplicate_key_aborts_the_transaction() {
    let database = two();
    let transaction = database.begin().unwrap();
    let report = transaction.insert("c", vec![rawdoc! { "_id": 1 }]).unwrap();
    assert!(report.into_result().unwrap_err().is_duplicate_key());
    assert!(transaction.commit().unwrap_err().is_transaction_over());
}
