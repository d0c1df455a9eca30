use bson::{RawDocumentBuf, doc, oid::ObjectId, rawdoc};
use futures_util::FutureExt;
use odm::{
    ErrorKind,
    backend::{operation::FindOperation, read_to_end},
};

use super::{decoded, find, insert, matching_ids};
use crate::Fixture;

/// More documents than the first batch of any backend.
const MORE_THAN_A_BATCH: i32 = 2_000;

pub async fn a_missing_collection_is_empty(db: Fixture) {
    assert!(matching_ids(&*db.backend(), rawdoc! {}).await.is_empty());
}

pub async fn an_unknown_operator_is_unsupported(db: Fixture) {
    let db = db.backend();
    db.insert(insert([rawdoc! { "_id": 1, "a": 1 }]))
        .await
        .unwrap();
    let error = async {
        let cursor = db.find(find(rawdoc! { "a": { "$nonsense": 1 } })).await?;
        read_to_end(cursor).await
    };
    let error = error.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("$nonsense"), "{error}");
}

pub async fn batches_come_in_order_and_complete(db: Fixture) {
    let db = db.backend();
    let documents = (0..MORE_THAN_A_BATCH).map(|i| rawdoc! { "_id": i, "text": "x".repeat(100) });
    db.insert(insert(documents)).await.unwrap();
    let find = FindOperation {
        sort: Some(rawdoc! { "_id": -1 }),
        ..find(rawdoc! {})
    };
    let mut cursor = db.find(find).await.unwrap();
    let mut expected = (0..MORE_THAN_A_BATCH).rev();
    loop {
        let batch = cursor.next_batch().await.unwrap();
        if batch.is_empty() {
            break;
        }
        for document in batch {
            assert_eq!(document.get_i32("_id").ok(), expected.next());
        }
    }
    assert_eq!(expected.next(), None);
    assert!(
        cursor.next_batch().await.unwrap().is_empty(),
        "the end stays the end"
    );
}

pub async fn documents_come_back_byte_for_byte(db: Fixture) {
    let db = db.backend();
    let document = doc! {
        "_id": ObjectId::new(), "z": 1_i64, "a": -0.0, "nan": f64::NAN, "none": null, "text": "grün",
        "list": [1, "two", { "three": 3.0 }, []], "at": bson::DateTime::from_millis(-1),
        "regex": bson::Regex { pattern: bson::raw::cstr!("^a").to_owned(), options: bson::raw::cstr!("i").to_owned() },
        "stamp": bson::Timestamp { time: 1, increment: 2 }, "min": bson::Bson::MinKey,
        "bytes": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![0, 1] },
    };
    let document = RawDocumentBuf::try_from(&document).unwrap();
    db.insert(insert([document.clone()])).await.unwrap();
    let found = read_to_end(db.find(find(rawdoc! {})).await.unwrap())
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].as_bytes(), document.as_bytes());
}

pub async fn dropping_a_half_read_cursor_is_harmless(db: Fixture) {
    let db = db.backend();
    db.insert(insert((0..MORE_THAN_A_BATCH).map(|i| rawdoc! { "_id": i })))
        .await
        .unwrap();
    let mut cursor = db.find(find(rawdoc! {})).await.unwrap();
    assert!(!cursor.next_batch().await.unwrap().is_empty());
    drop(cursor);
    assert_eq!(
        matching_ids(&*db, rawdoc! { "_id": { "$lt": 3 } }).await,
        [0, 1, 2]
    );
}

pub async fn dropping_a_wait_for_a_batch_loses_no_documents(db: Fixture) {
    let db = db.backend();
    db.insert(insert((0..MORE_THAN_A_BATCH).map(|i| rawdoc! { "_id": i })))
        .await
        .unwrap();
    let find = FindOperation {
        sort: Some(rawdoc! { "_id": 1 }),
        ..find(rawdoc! {})
    };
    let mut cursor = db.find(find).await.unwrap();
    let mut found = cursor.next_batch().await.unwrap();
    // The first poll starts the work. A result that is ready immediately counts.
    found.extend(
        cursor
            .next_batch()
            .now_or_never()
            .into_iter()
            .flat_map(Result::unwrap),
    );
    found.extend(read_to_end(cursor).await.unwrap());
    let found = found
        .iter()
        .map(|document| document.get_i32("_id").unwrap());
    assert!(found.eq(0..MORE_THAN_A_BATCH));
}

pub async fn filter_sort_limit_and_projection(db: Fixture) {
    let db = db.backend();
    let documents = (0..10).map(|i| rawdoc! { "_id": i, "group": i % 3, "name": format!("n{i}") });
    db.insert(insert(documents)).await.unwrap();
    let find = FindOperation {
        projection: Some(rawdoc! { "name": 1 }),
        sort: Some(rawdoc! { "_id": -1 }),
        limit: Some(2),
        ..find(rawdoc! { "group": 0 })
    };
    let found = decoded(read_to_end(db.find(find).await.unwrap()).await.unwrap());
    assert_eq!(
        found,
        [
            doc! { "_id": 9, "name": "n9" },
            doc! { "_id": 6, "name": "n6" }
        ]
    );
}

pub async fn a_limit_of_zero_returns_no_documents(db: Fixture) {
    let db = db.backend();
    db.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    let find = FindOperation {
        limit: Some(0),
        ..find(rawdoc! {})
    };
    assert!(
        read_to_end(db.find(find).await.unwrap())
            .await
            .unwrap()
            .is_empty()
    );
}
