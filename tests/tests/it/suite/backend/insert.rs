use bson::{bson, rawdoc};
use futures_util::FutureExt;
use odm::{
    ErrorKind,
    backend::{
        Backend,
        operation::{Direction, Index, InsertOperation},
    },
};

use super::{TEST_COLLECTION, count, insert, matching_ids, unique};
use crate::Fixture;

async fn unique_email(db: &dyn Backend) {
    let index = Index::new(vec![("email".to_owned(), Direction::Ascending)]);
    db.create_indexes(TEST_COLLECTION, vec![unique(index)])
        .await
        .expect("an index");
}

pub async fn a_dropped_insert_keeps_the_order(db: Fixture) {
    let db = db.backend();
    let _ = db
        .insert(insert([rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }]))
        .now_or_never();
    db.insert(insert([rawdoc! { "_id": 3 }])).await.unwrap();
    let stored = matching_ids(&*db, rawdoc! {}).await;
    assert!(stored.contains(&3));
    assert!(
        !stored.contains(&2) || stored.contains(&1),
        "in order: {stored:?}"
    );
}

pub async fn a_duplicate_array_element_is_named(db: Fixture) {
    let db = db.backend();
    unique_email(&*db).await;
    let same = rawdoc! { "_id": 1, "email": ["a", "b", "a"] };
    db.insert(insert([same])).await.unwrap();
    let error = db
        .insert(insert([rawdoc! { "_id": 2, "email": ["c", "b"] }]))
        .await
        .unwrap_err();
    assert!(error.is_duplicate_key());
    assert_eq!(error.value(), Some(&bson!({ "email": "b" })));
}

pub async fn a_duplicate_id_is_named(db: Fixture) {
    let db = db.backend();
    db.insert(insert([rawdoc! { "_id": "x", "v": 1 }]))
        .await
        .unwrap();
    let error = db
        .insert(insert([rawdoc! { "_id": "x", "v": 2 }]))
        .await
        .unwrap_err();
    assert!(error.is_duplicate_key());
    assert_eq!(error.index(), Some("_id_"));
    assert_eq!(error.id(), Some(&bson!("x")));
    assert_eq!(error.value(), Some(&bson!({ "_id": "x" })));
    assert_eq!(error.collection(), Some(TEST_COLLECTION));
    assert_eq!(error.inserted(), Some(0));
    assert_eq!(db.count(count(rawdoc! { "v": 1 })).await.unwrap(), 1);
}

pub async fn a_duplicate_key_is_named(db: Fixture) {
    let db = db.backend();
    unique_email(&*db).await;
    db.insert(insert([rawdoc! { "_id": 1, "email": "a@b" }]))
        .await
        .unwrap();
    let error = db
        .insert(insert([rawdoc! { "_id": 2, "email": "a@b" }]))
        .await
        .unwrap_err();
    assert!(error.is_duplicate_key());
    assert_eq!(error.index(), Some("email_1"));
    assert_eq!(error.value(), Some(&bson!({ "email": "a@b" })));
    assert_eq!(error.id(), Some(&bson!(2)));
    assert_eq!(error.code(), Some(11000));
    let text = error.to_string();
    for part in [TEST_COLLECTION, "email_1", "a@b", "_id 2"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

pub async fn many_documents(db: Fixture) {
    let db = db.backend();
    let text = "x".repeat(10_000);
    let documents = (0..3_000).map(|i| rawdoc! { "_id": i, "text": text.as_str() });
    db.insert(insert(documents)).await.unwrap();
    assert_eq!(db.count(count(rawdoc! {})).await.unwrap(), 3_000);
}

pub async fn an_empty_insert_succeeds(db: Fixture) {
    let db = db.backend();
    db.insert(insert([])).await.unwrap();
    assert_eq!(db.count(count(rawdoc! {})).await.unwrap(), 0);
}

pub async fn stops_at_the_first_failure(db: Fixture) {
    let db = db.backend();
    unique_email(&*db).await;
    let error = insert([
        rawdoc! { "_id": 1, "email": "a" },
        rawdoc! { "_id": 2, "email": "b" },
        rawdoc! { "_id": 3, "email": "a" },
        rawdoc! { "_id": 4, "email": "b" },
        rawdoc! { "_id": 5, "email": "c" },
    ]);
    let error = db.insert(error).await.unwrap_err();
    assert!(error.is_duplicate_key());
    assert_eq!(error.inserted(), Some(2));
    let positions: Vec<_> = error.failures().map(|(position, _)| position).collect();
    assert_eq!(positions, [2]);
    assert_eq!(error.id(), Some(&bson!(3)));
    assert_eq!(matching_ids(&*db, rawdoc! {}).await, [1, 2]);
}

pub async fn unordered_goes_on_after_a_failure(db: Fixture) {
    let db = db.backend();
    unique_email(&*db).await;
    let unordered = InsertOperation {
        ordered: false,
        ..insert([
            rawdoc! { "_id": 1, "email": "a" },
            rawdoc! { "_id": 1, "email": "b" },
            rawdoc! { "_id": 2, "email": "b" },
            rawdoc! { "_id": 3, "email": "a" },
            rawdoc! { "_id": 4, "email": "c" },
        ])
    };
    let error = db.insert(unordered).await.unwrap_err();
    assert!(error.is_duplicate_key());
    assert_eq!(error.inserted(), Some(3));
    assert_eq!(error.collection(), Some(TEST_COLLECTION));
    let failures: Vec<_> = error
        .failures()
        .map(|(position, error)| {
            assert!(error.is_duplicate_key());
            (position, error.index(), error.id(), error.value())
        })
        .collect();
    let (by_id, by_email) = (bson!({ "_id": 1 }), bson!({ "email": "a" }));
    let expected = [
        (1, Some("_id_"), Some(&bson!(1)), Some(&by_id)),
        (3, Some("email_1"), Some(&bson!(3)), Some(&by_email)),
    ];
    assert_eq!(failures, expected);
    assert_eq!(error.id(), Some(&bson!(1)));
    assert_eq!(matching_ids(&*db, rawdoc! {}).await, [1, 2, 4]);

    let fine = InsertOperation {
        ordered: false,
        ..insert([rawdoc! { "_id": 5, "email": "d" }])
    };
    db.insert(fine).await.unwrap();
}

pub async fn unordered_ends_a_transaction_at_the_first_failure(db: Fixture) {
    let db = db.backend();
    if !db.capabilities().transactions {
        return;
    }
    db.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    let tx = db.begin().await.unwrap();
    let unordered = InsertOperation {
        ordered: false,
        ..insert([2, 1, 3, 1].map(|id| rawdoc! { "_id": id }))
    };
    let error = tx.insert(unordered).await.unwrap_err();
    assert!(error.is_duplicate_key());
    assert_eq!(error.inserted(), Some(1));
    let positions: Vec<_> = error.failures().map(|(position, _)| position).collect();
    assert_eq!(positions, [1]);
    assert_eq!(
        tx.commit().await.unwrap_err().kind(),
        ErrorKind::TransactionOver
    );
    assert_eq!(matching_ids(&*db, rawdoc! {}).await, [1]);
}
