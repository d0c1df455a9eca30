use std::sync::Arc;

use bson::{doc, rawdoc};
use futures_util::future::join;
use odm::{
    Error, ErrorKind, Result,
    backend::{Backend, BackendTransaction, operation::UpdateOperation, read_to_end},
};

use super::{count, delete, find, find_sorted, insert, matching_ids, update};
use crate::Fixture;

/// Begins a transaction. Returns `None` if the backend has no transactions and returns `Unsupported`.
async fn begin(db: &dyn Backend) -> Option<Arc<dyn BackendTransaction>> {
    match db.begin().await {
        Ok(transaction) => {
            assert!(db.capabilities().transactions);
            Some(transaction)
        }
        Err(error) => {
            assert!(!db.capabilities().transactions, "{error}");
            assert!(error.is_unsupported());
            None
        }
    }
}

async fn increment(db: &dyn BackendTransaction) -> Result<()> {
    let inc = update(rawdoc! { "_id": 1 }, rawdoc! { "$inc": { "n": 1 } });
    db.update(inc).await.map(|_| ())
}

pub async fn a_cursor_continues_in_its_transaction(db: Fixture) {
    let db = db.backend();
    let Some(tx) = begin(&*db).await else { return };
    tx.insert(insert((0..1_000).map(|i| rawdoc! { "_id": i })))
        .await
        .unwrap();
    let mut cursor = tx.find(find(rawdoc! {})).await.unwrap();
    let first = cursor.next_batch().await.unwrap().len();
    // The session is free between two batches.
    assert_eq!(tx.count(count(rawdoc! {})).await.unwrap(), 1_000);
    assert_eq!(first + read_to_end(cursor).await.unwrap().len(), 1_000);
    tx.commit().await.unwrap();
    assert_eq!(db.count(count(rawdoc! {})).await.unwrap(), 1_000);
}

pub async fn a_cursor_ends_with_its_transaction(db: Fixture) {
    let db = db.backend();
    let Some(tx) = begin(&*db).await else { return };
    tx.insert(insert((0..1_000).map(|i| rawdoc! { "_id": i })))
        .await
        .unwrap();
    let mut cursor = tx.find(find(rawdoc! {})).await.unwrap();
    let first = cursor.next_batch().await.unwrap();
    drop(tx);
    // The cursor may return its buffered documents. Then the cursor must return an error, because an early end would look like a
    // complete result.
    let rest = read_to_end(cursor).await;
    match rest {
        Err(error) => assert_eq!(error.kind(), ErrorKind::TransactionOver),
        Ok(rest) => assert_eq!(first.len() + rest.len(), 1_000),
    }
    assert_eq!(db.count(count(rawdoc! {})).await.unwrap(), 0);
}

pub async fn a_read_snapshot_is_stable(db: Fixture) {
    let db = db.backend();
    db.insert(insert([rawdoc! { "_id": 1, "n": 0 }]))
        .await
        .unwrap();
    let Some(tx) = begin(&*db).await else { return };
    assert_eq!(matching_ids(&*tx, rawdoc! {}).await, [1]);
    db.insert(insert([rawdoc! { "_id": 2 }])).await.unwrap();
    db.update(update(rawdoc! { "_id": 1 }, rawdoc! { "$set": { "n": 1 } }))
        .await
        .unwrap();
    assert_eq!(
        find_sorted(&*tx, rawdoc! {}).await,
        [doc! { "_id": 1, "n": 0 }]
    );
    tx.abort().await;
}

pub async fn abort_discards_writes(db: Fixture) {
    let db = db.backend();
    db.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    let Some(tx) = begin(&*db).await else { return };
    tx.insert(insert([rawdoc! { "_id": 2 }])).await.unwrap();
    tx.delete(delete(rawdoc! { "_id": 1 })).await.unwrap();
    tx.abort().await;
    tx.abort().await;
    assert_eq!(matching_ids(&*db, rawdoc! {}).await, [1]);
}

pub async fn after_the_end_every_call_fails(db: Fixture) {
    let db = db.backend();
    for commit in [true, false] {
        let Some(tx) = begin(&*db).await else { return };
        match commit {
            true => tx.commit().await.unwrap(),
            false => tx.abort().await,
        }
        let over = |error: Error| assert_eq!(error.kind(), ErrorKind::TransactionOver);
        over(tx.find(find(rawdoc! {})).await.err().unwrap());
        over(tx.count(count(rawdoc! {})).await.unwrap_err());
        over(tx.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap_err());
        over(increment(&*tx).await.unwrap_err());
        over(tx.delete(delete(rawdoc! {})).await.unwrap_err());
        over(tx.commit().await.unwrap_err());
        tx.abort().await;
    }
}

pub async fn an_error_ends_the_transaction(db: Fixture) {
    let db = db.backend();
    db.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    let Some(tx) = begin(&*db).await else { return };
    tx.insert(insert([rawdoc! { "_id": 2 }])).await.unwrap();
    let second = insert([rawdoc! { "_id": 3 }, rawdoc! { "_id": 1 }]);
    let error = tx.insert(second).await.unwrap_err();
    assert!(error.is_duplicate_key());
    assert_eq!(error.index(), Some("_id_"));
    assert_eq!(error.inserted(), Some(1));
    let error = tx.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TransactionOver);
    assert_eq!(matching_ids(&*db, rawdoc! {}).await, [1]);
}

pub async fn commit_shows_all_at_once(db: Fixture) {
    let db = db.backend();
    let Some(tx) = begin(&*db).await else { return };
    tx.insert(insert([rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }]))
        .await
        .unwrap();
    assert!(matching_ids(&*db, rawdoc! {}).await.is_empty());
    tx.commit().await.unwrap();
    assert_eq!(matching_ids(&*db, rawdoc! {}).await, [1, 2]);
}

pub async fn dropping_aborts(db: Fixture) {
    let db = db.backend();
    db.insert(insert([rawdoc! { "_id": 1, "n": 0 }]))
        .await
        .unwrap();
    let Some(tx) = begin(&*db).await else { return };
    increment(&*tx).await.unwrap();
    drop(tx);
    // The update waits for the lock of the dropped transaction, which MongoDB would otherwise hold for a minute.
    let set = update(
        rawdoc! { "_id": 1, "n": 0 },
        rawdoc! { "$set": { "n": 10 } },
    );
    assert_eq!(db.update(set).await.unwrap().modified, 1);
}

pub async fn one_of_two_overlapping_writers_wins(db: Fixture) {
    let db = db.backend();
    db.insert(insert([rawdoc! { "_id": 1, "n": 0 }]))
        .await
        .unwrap();
    let (Some(a), Some(b)) = (begin(&*db).await, begin(&*db).await) else {
        return;
    };
    for tx in [&a, &b] {
        assert_eq!(matching_ids(&**tx, rawdoc! {}).await, [1]);
    }
    let run = async |tx: &dyn BackendTransaction| {
        increment(tx).await?;
        tx.commit().await
    };
    let outcomes: [Result<()>; 2] = join(run(&*a), run(&*b)).await.into();
    let lost = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    let lost: Vec<_> = lost.map(Error::kind).collect();
    assert_eq!(lost, [ErrorKind::Conflict]);
    assert_eq!(
        find_sorted(&*db, rawdoc! {}).await,
        [doc! { "_id": 1, "n": 1 }]
    );
}

pub async fn concurrent_operations_run_in_turn(db: Fixture) {
    let db = db.backend();
    let Some(tx) = begin(&*db).await else { return };
    let first = tx.insert(insert([rawdoc! { "_id": 1 }]));
    let second = tx.insert(insert([rawdoc! { "_id": 2 }]));
    let (first, second) = join(first, second).await;
    first.and(second).unwrap();
    tx.commit().await.unwrap();
    assert_eq!(matching_ids(&*db, rawdoc! {}).await, [1, 2]);
}

pub async fn reads_its_own_writes(db: Fixture) {
    let db = db.backend();
    let Some(tx) = begin(&*db).await else { return };
    tx.insert(insert((0..4).map(|i| rawdoc! { "_id": i, "n": 0 })))
        .await
        .unwrap();
    let inc = update(
        rawdoc! { "_id": { "$gte": 2 } },
        rawdoc! { "$inc": { "n": 1 } },
    );
    tx.update(UpdateOperation { multi: true, ..inc })
        .await
        .unwrap();
    tx.delete(delete(rawdoc! { "_id": 0 })).await.unwrap();
    assert_eq!(matching_ids(&*tx, rawdoc! {}).await, [1, 2, 3]);
    assert_eq!(matching_ids(&*tx, rawdoc! { "n": 1 }).await, [2, 3]);
    assert_eq!(tx.count(count(rawdoc! { "n": 0 })).await.unwrap(), 1);
    tx.commit().await.unwrap();
    assert_eq!(matching_ids(&*db, rawdoc! { "n": 1 }).await, [2, 3]);
}

pub async fn the_first_to_commit_wins(db: Fixture) {
    let db = db.backend();
    db.insert(insert([rawdoc! { "_id": 1, "n": 0 }]))
        .await
        .unwrap();
    let Some(late) = begin(&*db).await else {
        return;
    };
    assert_eq!(matching_ids(&*late, rawdoc! {}).await, [1]);
    let early = begin(&*db).await.unwrap();
    increment(&*early).await.unwrap();
    early.commit().await.unwrap();

    let outcome = async {
        increment(&*late).await?;
        late.commit().await
    };
    assert!(outcome.await.unwrap_err().is_conflict());
    let over = late.count(count(rawdoc! {})).await.unwrap_err();
    assert_eq!(over.kind(), ErrorKind::TransactionOver);
    assert_eq!(
        find_sorted(&*db, rawdoc! {}).await,
        [doc! { "_id": 1, "n": 1 }]
    );
}
