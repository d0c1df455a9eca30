use bson::rawdoc;
use odm::backend::{
    drain,
    operation::{Direction, Index},
};

use super::{THINGS, find, found, ids, insert};
use crate::Fixture;

pub async fn created_listed_and_dropped(db: Fixture) {
    let db = db.backend();
    assert!(db.list_collections().await.unwrap().is_empty());
    db.create_collection("b").await.unwrap();
    db.create_collection("b").await.unwrap();
    db.create_collection("a").await.unwrap();
    db.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    assert_eq!(db.list_collections().await.unwrap(), ["a", "b", THINGS]);
    db.drop_collection("b").await.unwrap();
    db.drop_collection("b").await.unwrap();
    db.drop_collection("never").await.unwrap();
    assert_eq!(db.list_collections().await.unwrap(), ["a", THINGS]);
    assert_eq!(ids(&*db, rawdoc! {}).await, [1]);
}

pub async fn creating_leaves_the_documents_of_one_that_exists(db: Fixture) {
    let db = db.backend();
    db.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    db.create_collection(THINGS).await.unwrap();
    assert_eq!(ids(&*db, rawdoc! {}).await, [1]);
}

pub async fn dropping_takes_documents_and_indexes_along(db: Fixture) {
    let db = db.backend();
    let index = Index::new(vec![("a".to_owned(), Direction::Ascending)]);
    db.create_indexes(THINGS, vec![index]).await.unwrap();
    let documents = (0..500).map(|id| rawdoc! { "_id": id, "a": [id, -1] });
    db.insert(insert(documents)).await.unwrap();
    db.drop_collection(THINGS).await.unwrap();
    assert!(found(&*db, rawdoc! { "a": -1 }).await.is_empty());
    assert!(db.list_indexes(THINGS).await.unwrap().is_empty());
    // One of the same name is another one.
    db.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    assert_eq!(ids(&*db, rawdoc! {}).await, [1]);
    assert!(db.list_indexes(THINGS).await.unwrap().is_empty());
}

pub async fn a_name_that_is_none_is_refused(db: Fixture) {
    let db = db.backend();
    for name in ["", "a$b"] {
        let error = db.create_collection(name).await.unwrap_err();
        assert_eq!(error.kind(), odm::ErrorKind::Invalid, "{error}");
    }
}

pub async fn a_snapshot_outlives_the_collection(db: Fixture) {
    let db = db.backend();
    let documents = (0..500).map(|id| rawdoc! { "_id": id });
    db.insert(insert(documents)).await.unwrap();
    if !db.capabilities().transactions {
        return;
    }
    // A server lets nobody drop a collection that a transaction uses: it waits.
    let tx = db.begin().await.unwrap();
    assert_eq!(ids(&*tx, rawdoc! { "_id": 7 }).await, [7]);
    let dropped = tokio::spawn({
        let db = db.clone();
        async move { db.drop_collection(THINGS).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let seen = drain(tx.find(find(rawdoc! {})).await.unwrap()).await;
    assert_eq!(seen.unwrap().len(), 500);
    tx.commit().await.unwrap();
    dropped.await.unwrap().unwrap();
    assert!(ids(&*db, rawdoc! {}).await.is_empty());
}
