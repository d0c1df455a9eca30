use std::time::Duration;

use bson::{bson, rawdoc};
use odm::{
    ErrorKind,
    backend::{
        Backend,
        operation::{Direction, Index},
    },
};

use super::{TEST_COLLECTION, insert, matching_ids, unique};
use crate::Fixture;

fn ascending(path: &str) -> Index {
    Index::new(vec![(path.to_owned(), Direction::Ascending)])
}

async fn sorted(db: &dyn Backend) -> Vec<Index> {
    let mut indexes = db.list_indexes(TEST_COLLECTION).await.expect("a list");
    indexes.sort_by(|a, b| a.name.cmp(&b.name));
    indexes
}

pub async fn a_missing_collection_has_none(db: Fixture) {
    assert_eq!(db.backend().list_indexes("nowhere").await.unwrap(), []);
}

pub async fn creating_again_changes_nothing(db: Fixture) {
    let db = db.backend();
    db.create_indexes(TEST_COLLECTION, Vec::new())
        .await
        .unwrap();
    for _ in 0..2 {
        db.create_indexes(
            TEST_COLLECTION,
            vec![unique(ascending("a")), ascending("b")],
        )
        .await
        .unwrap();
    }
    assert_eq!(sorted(&*db).await, [unique(ascending("a")), ascending("b")]);
}

pub async fn descending_and_compound_unique(db: Fixture) {
    let db = db.backend();
    let index = unique(Index::new(vec![
        ("a".to_owned(), Direction::Descending),
        ("b.c".to_owned(), Direction::Ascending),
    ]));
    assert_eq!(index.name, "a_-1_b.c_1");
    db.create_indexes(TEST_COLLECTION, vec![index])
        .await
        .unwrap();
    db.insert(insert([
        rawdoc! { "_id": 1, "a": 1, "b": { "c": 1 } },
        rawdoc! { "_id": 2, "a": 1, "b": { "c": 2 } },
        rawdoc! { "_id": 3, "a": 2, "b": { "c": 1 } },
    ]))
    .await
    .unwrap();
    let second = insert([rawdoc! { "_id": 4, "a": 1, "b": { "c": 2 } }]);
    let error = db.insert(second).await.unwrap_err();
    assert_eq!(error.index(), Some("a_-1_b.c_1"));
    assert_eq!(error.value(), Some(&bson!({ "a": 1, "b.c": 2 })));
}

pub async fn different_options_are_refused(db: Fixture) {
    let db = db.backend();
    db.create_indexes(TEST_COLLECTION, vec![ascending("a")])
        .await
        .unwrap();
    let error = db
        .create_indexes(TEST_COLLECTION, vec![unique(ascending("a"))])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.collection(), Some(TEST_COLLECTION));
    assert!(error.to_string().contains("a_1"), "{error}");

    let other_keys = Index {
        name: "a_1".to_owned(),
        ..ascending("b")
    };
    let error = db
        .create_indexes(TEST_COLLECTION, vec![other_keys])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(sorted(&*db).await, [ascending("a")]);
}

pub async fn dropping(db: Fixture) {
    let db = db.backend();
    db.create_indexes(
        TEST_COLLECTION,
        vec![unique(ascending("a")), ascending("b")],
    )
    .await
    .unwrap();
    db.drop_index(TEST_COLLECTION, "a_1").await.unwrap();
    assert_eq!(sorted(&*db).await, [ascending("b")]);
    db.insert(insert((0..2).map(|i| rawdoc! { "_id": i, "a": 1 })))
        .await
        .unwrap();

    assert!(
        db.drop_index(TEST_COLLECTION, "a_1")
            .await
            .unwrap_err()
            .is_not_found()
    );
    assert!(
        db.drop_index("nowhere", "a_1")
            .await
            .unwrap_err()
            .is_not_found()
    );
}

pub async fn a_partial_unique_index_covers_matching_documents(db: Fixture) {
    let db = db.backend();
    let partial = Some(rawdoc! { "active": true });
    let index = Index {
        partial,
        ..unique(ascending("a"))
    };
    db.create_indexes(TEST_COLLECTION, vec![index])
        .await
        .unwrap();
    db.insert(insert([
        rawdoc! { "_id": 1, "a": 1, "active": true },
        rawdoc! { "_id": 2, "a": 1, "active": false },
        rawdoc! { "_id": 3, "a": 1 },
    ]))
    .await
    .unwrap();
    let second = insert([rawdoc! { "_id": 4, "a": 1, "active": true }]);
    assert!(db.insert(second).await.unwrap_err().is_duplicate_key());
    assert_eq!(matching_ids(&*db, rawdoc! { "a": 1 }).await, [1, 2, 3]);
}

pub async fn a_sparse_unique_index_ignores_missing_fields(db: Fixture) {
    let db = db.backend();
    let index = Index {
        sparse: true,
        ..unique(ascending("a"))
    };
    db.create_indexes(TEST_COLLECTION, vec![index, unique(ascending("b"))])
        .await
        .unwrap();
    db.insert(insert([
        rawdoc! { "_id": 1, "b": 1 },
        rawdoc! { "_id": 2, "b": 2 },
    ]))
    .await
    .unwrap();
    // A null is a value. Without `sparse`, a missing field counts as null.
    db.insert(insert([rawdoc! { "_id": 3, "a": null, "b": null }]))
        .await
        .unwrap();
    let error = db
        .insert(insert([rawdoc! { "_id": 4, "a": null, "b": 4 }]))
        .await
        .unwrap_err();
    assert_eq!(error.index(), Some("a_1"));
    let error = db.insert(insert([rawdoc! { "_id": 5 }])).await.unwrap_err();
    assert_eq!(error.index(), Some("b_1"));
}

pub async fn index_specifications_round_trip(db: Fixture) {
    let db = db.backend();
    let compound = Index::new(vec![
        ("host".to_owned(), Direction::Ascending),
        ("time".to_owned(), Direction::Descending),
    ]);
    let expiring = Index {
        expire_after: Some(Duration::from_secs(3600)),
        ..ascending("at")
    };
    let partial = Some(rawdoc! { "price": { "$gt": 10 } });
    let partial = Index {
        partial,
        name: "dear".to_owned(),
        ..unique(ascending("price"))
    };
    let sparse = Index {
        sparse: true,
        ..ascending("deep.er")
    };
    let mut indexes = vec![compound, expiring, partial, sparse];
    db.create_indexes(TEST_COLLECTION, indexes.clone())
        .await
        .unwrap();
    indexes.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(sorted(&*db).await, indexes);
}

pub async fn a_unique_index_over_duplicates_fails(db: Fixture) {
    let db = db.backend();
    db.insert(insert((0..2).map(|i| rawdoc! { "_id": i, "a": "same" })))
        .await
        .unwrap();
    let error = db
        .create_indexes(TEST_COLLECTION, vec![unique(ascending("a"))])
        .await
        .unwrap_err();
    assert!(error.is_duplicate_key());
    assert_eq!(error.index(), Some("a_1"));
    assert_eq!(error.value(), Some(&bson!({ "a": "same" })));
    assert_eq!(sorted(&*db).await, []);
}
