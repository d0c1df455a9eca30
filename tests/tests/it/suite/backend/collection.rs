use std::sync::Arc;

use bson::rawdoc;
use odm::{
    ErrorKind,
    backend::{
        self, Backend, Executor, Recorder,
        operation::{Direction, Index},
        read_to_end,
    },
};

use super::{TEST_COLLECTION, find, find_sorted, insert, matching_ids};
use crate::Fixture;

pub async fn created_listed_and_dropped(db: Fixture) {
    let db = db.backend();
    assert!(db.list_collections().await.unwrap().is_empty());
    db.create_collection("b").await.unwrap();
    db.create_collection("b").await.unwrap();
    db.create_collection("a").await.unwrap();
    db.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    assert_eq!(
        db.list_collections().await.unwrap(),
        ["a", "b", TEST_COLLECTION]
    );
    db.drop_collection("b").await.unwrap();
    db.drop_collection("b").await.unwrap();
    db.drop_collection("never").await.unwrap();
    assert_eq!(db.list_collections().await.unwrap(), ["a", TEST_COLLECTION]);
    assert_eq!(matching_ids(&*db, rawdoc! {}).await, [1]);
}

pub async fn creating_an_existing_collection_keeps_documents(db: Fixture) {
    let db = db.backend();
    db.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    db.create_collection(TEST_COLLECTION).await.unwrap();
    assert_eq!(matching_ids(&*db, rawdoc! {}).await, [1]);
}

pub async fn dropping_removes_documents_and_indexes(db: Fixture) {
    let db = db.backend();
    let index = Index::new(vec![("a".to_owned(), Direction::Ascending)]);
    db.create_indexes(TEST_COLLECTION, vec![index])
        .await
        .unwrap();
    let documents = (0..500).map(|id| rawdoc! { "_id": id, "a": [id, -1] });
    db.insert(insert(documents)).await.unwrap();
    db.drop_collection(TEST_COLLECTION).await.unwrap();
    assert!(find_sorted(&*db, rawdoc! { "a": -1 }).await.is_empty());
    assert!(db.list_indexes(TEST_COLLECTION).await.unwrap().is_empty());
    // A new collection with the same name has no old documents and no old indexes.
    db.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    assert_eq!(matching_ids(&*db, rawdoc! {}).await, [1]);
    assert!(db.list_indexes(TEST_COLLECTION).await.unwrap().is_empty());
}

pub async fn an_invalid_name_is_rejected(db: Fixture) {
    let db = db.backend();
    for name in ["", "a$b"] {
        let error = db.create_collection(name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
}

pub async fn a_snapshot_outlives_a_drop(db: Fixture) {
    let db = db.backend();
    let documents = (0..500).map(|id| rawdoc! { "_id": id });
    db.insert(insert(documents)).await.unwrap();
    if !db.capabilities().transactions {
        return;
    }
    // A server delays the drop of a collection until transactions on the collection end.
    let tx = db.begin().await.unwrap();
    assert_eq!(matching_ids(&*tx, rawdoc! { "_id": 7 }).await, [7]);
    let dropped = tokio::spawn({
        let db = db.clone();
        async move { db.drop_collection(TEST_COLLECTION).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let seen = read_to_end(tx.find(find(rawdoc! {})).await.unwrap()).await;
    assert_eq!(seen.unwrap().len(), 500);
    tx.commit().await.unwrap();
    dropped.await.unwrap().unwrap();
    assert!(matching_ids(&*db, rawdoc! {}).await.is_empty());
}

/// Also through the wrappers around a backend. A MongoDB server is not in this process.
pub async fn a_backup_has_all_collections(fixture: Fixture) {
    let wrapped = Arc::new(Recorder::new(fixture.backend()));
    wrapped.create_collection("empty").await.unwrap();
    let documents = (0..500).map(|id| rawdoc! { "_id": id });
    wrapped.insert(insert(documents)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.odm");
    match wrapped.backup(&path).await {
        Ok(()) => {
            wrapped
                .insert(insert([rawdoc! { "_id": 500 }]))
                .await
                .unwrap();
            let copy = backend::open(&format!("odm:{}", path.display()))
                .await
                .unwrap();
            let names = copy.list_collections().await.unwrap();
            assert_eq!(names, ["empty", TEST_COLLECTION]);
            let ids = matching_ids(&*copy, rawdoc! {}).await;
            assert_eq!(ids, (0..500).collect::<Vec<_>>());
            let error = wrapped.backup(&path).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("mongodump"), "{error}");
            assert!(!path.exists() && !is_engine(&fixture));
        }
    }
}

/// Also through the wrappers around a backend. Only a file becomes shorter.
pub async fn a_compaction_keeps_all_documents(fixture: Fixture) {
    let wrapped = Arc::new(Recorder::new(fixture.backend()));
    let documents = (0..500).map(|id| rawdoc! { "_id": id });
    wrapped.insert(insert(documents)).await.unwrap();
    match wrapped.compact().await {
        Ok(report) => assert!(report.bytes_before > 0 && report.bytes_after > 0),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(
                !format!("{:?}", fixture.backend()).contains(".odm"),
                "{error}"
            );
        }
    }
    let last = wrapped.insert(insert([rawdoc! { "_id": 500 }])).await;
    last.unwrap();
    let ids = matching_ids(&*wrapped, rawdoc! {}).await;
    assert_eq!(ids, (0..=500).collect::<Vec<_>>());
}

fn is_engine(fixture: &Fixture) -> bool {
    format!("{:?}", fixture.backend()).contains("Engine")
}
