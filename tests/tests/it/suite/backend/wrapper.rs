use std::time::{Duration, Instant};

use bson::rawdoc;
use futures_util::FutureExt;
use odm::{
    Error, ErrorKind,
    backend::{
        Backend, Executor, Fault, Faults, Recorder,
        operation::{DistinctOperation, FindAndModify, FindAndModifyKind, Operation},
    },
};

use super::{TEST_COLLECTION, count, delete, find, insert, matching_ids, update};
use crate::Fixture;

fn refusal() -> Error {
    Error::new(ErrorKind::Backend, "injected")
}

pub async fn a_delayed_operation_happens_later(db: Fixture) {
    let faults = Faults::new(db.backend());
    faults.inject(
        1,
        Operation::is_write,
        Fault::Delay(Duration::from_millis(50)),
    );
    let start = Instant::now();
    faults.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(50));
    assert_eq!(matching_ids(&faults, rawdoc! {}).await, [1]);
}

pub async fn a_fault_after_keeps_the_effect(db: Fixture) {
    let faults = Faults::new(db.backend());
    faults.inject(1, Operation::is_write, Fault::lost_answer());
    let error = faults
        .insert(insert([rawdoc! { "_id": 1 }]))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection);
    assert_eq!(matching_ids(&faults, rawdoc! {}).await, [1]);
}

pub async fn a_fault_before_prevents(db: Fixture) {
    let faults = Faults::new(db.backend());
    faults.inject(1, Operation::is_write, Fault::FailBefore(refusal()));
    let error = faults
        .insert(insert([rawdoc! { "_id": 1 }]))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Backend);
    assert!(matching_ids(&faults, rawdoc! {}).await.is_empty());
}

pub async fn a_fault_ends_a_transaction(db: Fixture) {
    let faults = Faults::new(db.backend());
    if !faults.capabilities().transactions {
        return;
    }
    faults.inject(2, Operation::is_write, Fault::lost_answer());
    let tx = faults.begin().await.unwrap();
    tx.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    tx.insert(insert([rawdoc! { "_id": 2 }])).await.unwrap_err();
    assert_eq!(
        tx.commit().await.unwrap_err().kind(),
        ErrorKind::TransactionOver
    );
    assert!(matching_ids(&faults, rawdoc! {}).await.is_empty());

    let committed = |operation: &Operation| matches!(operation, Operation::Commit);
    faults.inject(1, committed, Fault::lost_answer());
    let tx = faults.begin().await.unwrap();
    tx.insert(insert([rawdoc! { "_id": 3 }])).await.unwrap();
    assert_eq!(tx.commit().await.unwrap_err().kind(), ErrorKind::Connection);
    assert_eq!(matching_ids(&faults, rawdoc! {}).await, [3]);
}

pub async fn a_hanging_operation_can_be_dropped(db: Fixture) {
    let faults = Faults::new(db.backend());
    for (id, fault) in [(1, Fault::HangBefore), (2, Fault::HangAfter)] {
        faults.inject(1, Operation::is_write, fault);
        let insert = faults.insert(insert([rawdoc! { "_id": id }]));
        let hung = tokio::time::timeout(Duration::from_millis(300), insert);
        assert!(hung.await.is_err());
    }
    assert_eq!(matching_ids(&faults, rawdoc! {}).await, [2]);
}

pub async fn faults_count_matching_operations(db: Fixture) {
    let faults = Faults::new(db.backend());
    let kept = faults.clone();
    kept.inject(2, Operation::is_query, Fault::FailBefore(refusal()));
    kept.inject(9, Operation::is_query, Fault::FailBefore(refusal()));
    assert!(faults.insert(insert([rawdoc! { "_id": 1 }])).await.is_ok());
    assert!(faults.count(count(rawdoc! {})).await.is_ok());
    assert_eq!(kept.pending(), 2);
    assert!(faults.count(count(rawdoc! {})).await.is_err());
    assert!(faults.count(count(rawdoc! {})).await.is_ok());
    assert_eq!(kept.pending(), 1);
    kept.clear();
    assert_eq!(kept.pending(), 0);
}

pub async fn the_recorder_keeps_order_and_transactions(db: Fixture) {
    let recorder = Recorder::new(db.backend());
    let kept = recorder.clone();
    let inserted = insert([rawdoc! { "_id": 1 }]);
    recorder.insert(inserted.clone()).await.unwrap();
    // Poll a count only once, and drop the future. The record is cleared next.
    assert!(
        recorder
            .count(count(rawdoc! {}))
            .now_or_never()
            .is_none_or(|counted| counted.is_ok())
    );
    kept.clear();

    recorder.insert(inserted.clone()).await.unwrap_err();
    drop(recorder.find(find(rawdoc! {})).await.unwrap());
    recorder.list_indexes(TEST_COLLECTION).await.unwrap();
    let distinct = DistinctOperation {
        collection: TEST_COLLECTION.into(),
        path: "a".to_owned(),
        filter: rawdoc! {},
        options: Default::default(),
    };
    recorder.distinct(distinct.clone()).await.unwrap();
    let delete_one = FindAndModify {
        collection: TEST_COLLECTION.into(),
        filter: rawdoc! {},
        sort: None,
        projection: None,
        modification: FindAndModifyKind::Delete,
        origin: Default::default(),
    };
    recorder.find_and_modify(delete_one.clone()).await.unwrap();
    recorder.create_collection("new").await.unwrap();
    recorder.list_collections().await.unwrap();
    recorder.drop_collection("new").await.unwrap();
    let mut expected = vec![
        Operation::Insert(inserted),
        Operation::Find(find(rawdoc! {})),
        Operation::ListIndexes(TEST_COLLECTION.into()),
        Operation::Distinct(distinct),
        Operation::FindAndModify(delete_one),
        Operation::CreateCollection("new".into()),
        Operation::ListCollections,
        Operation::DropCollection("new".into()),
    ];
    if recorder.capabilities().transactions {
        let tx = recorder.begin().await.unwrap();
        let set = update(rawdoc! {}, rawdoc! { "$set": { "a": 1 } });
        tx.update(set.clone()).await.unwrap();
        tx.delete(delete(rawdoc! {})).await.unwrap();
        tx.commit().await.unwrap();
        recorder.begin().await.unwrap().abort().await;
        expected.extend([
            Operation::Begin,
            Operation::Update(set),
            Operation::Delete(delete(rawdoc! {})),
            Operation::Commit,
            Operation::Begin,
            Operation::Abort,
        ]);
    }
    assert_eq!(kept.operations(), expected);
    assert_eq!(kept.queries(), 2);
    assert_eq!(
        kept.writes(),
        expected
            .iter()
            .filter(|operation| operation.is_write())
            .count()
    );
}
