use bson::{RawBsonRef, RawDocumentBuf, rawdoc};
use odm_engine::{
    Count, Cursor, Database, Delete, Direction, Find, FindEach, Index, InsertReport, Transaction,
    Update,
};

use crate::{all, find};

fn count(database: &Database, filter: RawDocumentBuf) -> u64 {
    let count = Count {
        filter,
        ..Count::default()
    };
    database.count("c", &count).unwrap()
}

#[test]
fn an_update_that_fails_half_way_keeps_its_first_half() {
    let database = Database::memory();
    let unique = Index::new([("a", Direction::Ascending)]).unique();
    database.create_indexes("c", &[unique]).unwrap();
    let documents = (1..=3).map(|id| rawdoc! { "_id": id, "a": id }).collect();
    database
        .insert("c", documents)
        .unwrap()
        .into_result()
        .unwrap();
    let update = Update {
        update: rawdoc! { "$set": { "a": 9 } },
        multi: true,
        ..Update::default()
    };
    let report = database.update("c", &update).unwrap();
    assert_eq!((report.matched, report.modified), (1, 1));
    assert!(report.failure.unwrap().is_duplicate_key());
    assert_eq!(count(&database, rawdoc! { "a": 9 }), 1);

    let transaction = database.begin().unwrap();
    let restore = Update {
        update: rawdoc! { "$set": { "a": 7 } },
        ..update
    };
    assert!(transaction.update("c", &restore).unwrap().failure.is_some());
    assert!(transaction.commit().unwrap_err().is_transaction_over());
    assert_eq!(count(&database, rawdoc! { "a": 7 }), 0);
}

#[test]
fn handles_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    fn sent<T: Send + 'static>() {}
    shared::<Database>();
    shared::<Transaction>();
    sent::<Cursor>();
}

#[test]
fn documents_come_back_in_order_of_insertion() {
    let database = Database::memory();
    let documents = vec![
        rawdoc! { "_id": 3 },
        rawdoc! { "_id": 1 },
        rawdoc! { "_id": 2 },
    ];
    database
        .insert("c", documents.clone())
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!(all(&database, "c"), documents);
    let count = |skip, limit| {
        let filter = rawdoc! {};
        let count = Count {
            filter,
            skip,
            limit,
            ..Count::default()
        };
        database.count("c", &count).unwrap()
    };
    assert_eq!((count(0, None), count(0, Some(2))), (3, 2));
    assert_eq!(
        (count(1, None), count(2, Some(2)), count(4, None)),
        (2, 1, 0)
    );
    assert_eq!(count(1, Some(u64::MAX)), 2);
}

#[test]
fn insertion_stops_at_the_first_failure_and_keeps_earlier_documents() {
    let database = Database::memory();
    let documents = [1, 2, 1, 3].map(|id| rawdoc! { "_id": id, "a": "x" });
    let report = database.insert("c", documents.to_vec()).unwrap();
    assert_eq!(report.inserted, 2);
    let [failure] = &report.failures[..] else {
        panic!("one failure ends it: {report:?}")
    };
    assert_eq!(failure.position, 2);
    let failure = &failure.error;
    assert!(failure.is_duplicate_key());
    assert_eq!(failure.code(), Some(11000));
    let duplicate = failure.duplicate_key().unwrap();
    assert_eq!((duplicate.collection(), duplicate.index()), ("c", "_id_"));
    assert_eq!(duplicate.key_pattern(), &*rawdoc! { "_id": 1 });
    assert_eq!(duplicate.key_value(), &*rawdoc! { "_id": 1 });
    assert_eq!(all(&database, "c").len(), 2);
}

#[test]
fn an_unordered_insertion_goes_on_after_a_failure() {
    let database = Database::memory();
    let documents = [1, 1, 2, 2, 3].map(|id| rawdoc! { "_id": id }).to_vec();
    let report = database.insert_unordered("c", documents.clone()).unwrap();
    let positions = |report: &InsertReport| {
        let failures = report.failures.iter();
        failures.map(|failure| failure.position).collect::<Vec<_>>()
    };
    assert_eq!((report.inserted, positions(&report)), (3, vec![1, 3]));
    assert_eq!(count(&database, rawdoc! {}), 3);
    assert!(report.into_result().unwrap_err().is_duplicate_key());

    let transaction = database.begin().unwrap();
    let documents = [4, 1, 5, 1].map(|id| rawdoc! { "_id": id }).to_vec();
    let report = transaction.insert_unordered("c", documents).unwrap();
    assert_eq!((report.inserted, positions(&report)), (1, vec![1]));
    assert!(transaction.commit().unwrap_err().is_transaction_over());
    assert_eq!(count(&database, rawdoc! {}), 3);
}

#[test]
fn sort_skip_limit_and_batches() {
    let database = Database::memory();
    let documents = (0..100).map(|n| rawdoc! { "_id": n, "a": (n * 37) % 100 });
    database
        .insert("c", documents.collect())
        .unwrap()
        .into_result()
        .unwrap();
    let query = Find {
        sort: Some(rawdoc! { "a": -1 }),
        skip: 10,
        limit: Some(25),
        ..Find::default()
    };
    let mut cursor = database.find("c", &query).unwrap();
    let mut sizes = Vec::new();
    let mut values = Vec::new();
    while let Some(batch) = cursor.next_batch(10).unwrap() {
        sizes.push(batch.len());
        values.extend(batch.iter().map(|document| document.get_i32("a").unwrap()));
    }
    assert_eq!(sizes, [10, 10, 5]);
    assert_eq!(values, (65..90).rev().collect::<Vec<_>>());
}

#[test]
fn a_cursor_does_not_see_later_writes() {
    let database = Database::memory();
    let documents = (0..200).map(|n| rawdoc! { "_id": n });
    database
        .insert("c", documents.collect())
        .unwrap()
        .into_result()
        .unwrap();
    let mut cursor = database.find("c", &Find::default()).unwrap();
    cursor.next().unwrap().unwrap();
    let delete_all = Delete {
        multi: true,
        ..Delete::default()
    };
    assert_eq!(database.delete("c", &delete_all).unwrap().deleted, 200);
    assert_eq!(cursor.count(), 199);
    assert!(all(&database, "c").is_empty());
}

#[test]
fn find_each_groups_by_key() {
    let database = Database::memory();
    let documents = (0..12).map(|n| rawdoc! { "_id": n, "owner": n % 3, "odd": n % 2 == 1 });
    database
        .insert("c", documents.collect())
        .unwrap()
        .into_result()
        .unwrap();
    let each = FindEach {
        path: "owner".into(),
        keys: vec![2.into(), 7.into(), 0.into()],
        filter: rawdoc! { "odd": true },
        sort: Some(rawdoc! { "_id": -1 }),
        limit: Some(1),
        ..FindEach::default()
    };
    let results = database.find_each("c", &each).unwrap();
    let ids = |group: &Vec<RawDocumentBuf>| -> Vec<i32> {
        group
            .iter()
            .map(|document| document.get_i32("_id").unwrap())
            .collect()
    };
    assert_eq!(
        results.iter().map(ids).collect::<Vec<_>>(),
        [vec![11], vec![], vec![9]]
    );
}

#[test]
fn the_first_match_alone_is_deleted() {
    let database = Database::memory();
    let documents = [1, 2, 3].map(|id| rawdoc! { "_id": id, "a": id > 1 });
    database
        .insert("c", documents.to_vec())
        .unwrap()
        .into_result()
        .unwrap();
    let delete_first = Delete {
        filter: rawdoc! { "a": true },
        ..Delete::default()
    };
    assert_eq!(database.delete("c", &delete_first).unwrap().deleted, 1);
    let remaining = find(&database, "c", rawdoc! {});
    assert_eq!(
        remaining,
        [
            rawdoc! { "_id": 1, "a": false },
            rawdoc! { "_id": 3, "a": true }
        ]
    );
}

#[test]
fn missing_ids_are_made() {
    let database = Database::memory();
    database
        .insert("c", vec![rawdoc! { "a": 1 }])
        .unwrap()
        .into_result()
        .unwrap();
    let stored = all(&database, "c");
    let first = stored[0].iter().next().unwrap().unwrap();
    assert_eq!(first.0, "_id");
    assert!(matches!(first.1, RawBsonRef::ObjectId(_)));
}

#[test]
fn documents_have_a_size_limit() {
    let database = Database::memory();
    let of_size = |bytes: usize| {
        let empty = rawdoc! { "_id": 1, "text": "" }.as_bytes().len();
        rawdoc! { "_id": 1, "text": "x".repeat(bytes - empty) }
    };
    let insert = |bytes| {
        database
            .insert("c", vec![of_size(bytes)])
            .unwrap()
            .into_result()
    };
    assert_eq!(insert((16 << 20) + 1).unwrap_err().code(), Some(2));
    assert_eq!(insert(17 << 20).unwrap_err().code(), Some(10334));
    insert(16 << 20).unwrap();
    let grow = Update {
        update: rawdoc! { "$set": { "more": 1 } },
        ..Update::default()
    };
    assert_eq!(database.update("c", &grow).unwrap_err().code(), Some(17419));
}
