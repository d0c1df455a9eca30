//! Time limits of reads.

use std::time::{Duration, Instant};

use bson::{RawDocumentBuf, rawdoc};
use odm::{
    ErrorKind, Result,
    backend::{
        BoxFuture, Executor,
        operation::{
            AggregateOperation, CountOperation, DistinctOperation, FindEach, FindOperation,
            FindSeveral, ReadOptions,
        },
        read_to_end,
    },
};

use super::{TEST_COLLECTION, count, find, insert};
use crate::Fixture;

/// Returns a filter that matches every document and is slow.
fn slow_filter() -> RawDocumentBuf {
    let sum = rawdoc! { "$reduce": {
        "input": { "$range": [0, 2_000] },
        "initialValue": 0,
        "in": { "$add": ["$$value", { "$mod": ["$$this", 7] }] },
    } };
    rawdoc! { "$expr": { "$gt": [sum, 0] } }
}

/// A read with or without a time limit.
type RunRead = for<'d> fn(&'d dyn Executor, Option<Duration>) -> BoxFuture<'d, Result<()>>;

const READS: [(&str, RunRead); 8] = [
    ("find", |db, max_time| {
        let find = FindOperation {
            options: ReadOptions::default().with_max_time(max_time),
            ..find(slow_filter())
        };
        Box::pin(async move { read_to_end(db.find(find).await?).await.map(drop) })
    }),
    ("find_all", |db, max_time| {
        let find = FindOperation {
            options: ReadOptions::default().with_max_time(max_time),
            ..find(slow_filter())
        };
        Box::pin(async move { db.find_all(find).await.map(drop) })
    }),
    ("count", |db, max_time| {
        let count = CountOperation {
            options: ReadOptions::default().with_max_time(max_time),
            ..count(slow_filter())
        };
        Box::pin(async move { db.count(count).await.map(drop) })
    }),
    ("distinct", |db, max_time| {
        let distinct = DistinctOperation {
            collection: TEST_COLLECTION.into(),
            path: "n".to_owned(),
            filter: slow_filter(),
            options: ReadOptions::default().with_max_time(max_time),
        };
        Box::pin(async move { db.distinct(distinct).await.map(drop) })
    }),
    ("aggregate", |db, max_time| {
        let aggregate = AggregateOperation {
            collection: TEST_COLLECTION.into(),
            pipeline: vec![rawdoc! { "$match": slow_filter() }],
            variables: rawdoc! {},
            options: ReadOptions::default().with_max_time(max_time),
        };
        Box::pin(async move { db.aggregate_all(aggregate).await.map(drop) })
    }),
    ("find_each", |db, max_time| {
        let each = FindEach {
            collection: TEST_COLLECTION.into(),
            path: "n".to_owned(),
            keys: vec![0.into(), 1.into()],
            filter: slow_filter(),
            projection: None,
            sort: None,
            limit: None,
            options: ReadOptions::default().with_max_time(max_time),
        };
        Box::pin(async move { read_to_end(db.find_each(each).await?).await.map(drop) })
    }),
    ("find_several", |db, max_time| {
        let find = FindOperation {
            options: ReadOptions::default().with_max_time(max_time),
            ..find(slow_filter())
        };
        let several = FindSeveral {
            finds: vec![find.clone(), find],
        };
        Box::pin(async move { read_to_end(db.find_several(several).await?).await.map(drop) })
    }),
    ("explain", |db, max_time| {
        let find = FindOperation {
            options: ReadOptions::default().with_max_time(max_time),
            ..find(slow_filter())
        };
        Box::pin(async move { db.explain(find).await.map(drop) })
    }),
];

/// Every kind of read ends soon after its time limit. A read within the limit is unaffected.
pub async fn a_read_that_takes_too_long_is_a_timeout(fixture: Fixture) {
    let db = fixture.backend();
    let things = (0..300).map(|id| rawdoc! { "_id": id, "n": id % 2 });
    db.insert(insert(things)).await.unwrap();
    for (name, read) in READS {
        let begun = Instant::now();
        let read_in = read(&*db, Some(Duration::from_millis(15))).await;
        let error = read_in.expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Timeout, "{name}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{name}");
        read(&*db, Some(Duration::from_secs(600))).await.unwrap();
    }
}

/// In a transaction, a timeout ends the transaction like any error.
pub async fn a_timeout_ends_a_transaction(fixture: Fixture) {
    let db = fixture.backend();
    if !db.capabilities().transactions {
        return;
    }
    let things = (0..300).map(|id| rawdoc! { "_id": id, "n": id % 2 });
    db.insert(insert(things)).await.unwrap();
    let tx = db.begin().await.unwrap();
    tx.insert(insert([rawdoc! { "_id": 1_000 }])).await.unwrap();
    let find = FindOperation {
        options: ReadOptions::default().with_max_time(Some(Duration::from_millis(15))),
        ..find(slow_filter())
    };
    let error = tx.find_all(find).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    tx.abort().await;
    assert_eq!(db.count(count(rawdoc! {})).await.unwrap(), 300);
}

/// The time that a caller spends between batches does not count.
pub async fn the_time_between_batches_does_not_count(fixture: Fixture) {
    let db = fixture.backend();
    let things = (0..3_000).map(|id| rawdoc! { "_id": id });
    db.insert(insert(things)).await.unwrap();
    let find = FindOperation {
        options: ReadOptions::default().with_max_time(Some(Duration::from_secs(2))),
        ..find(rawdoc! {})
    };
    let mut cursor = db.find(find).await.unwrap();
    let mut read = cursor.next_batch().await.unwrap().len();
    assert!(read < 3_000);
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    loop {
        match cursor.next_batch().await.unwrap().len() {
            0 => break,
            some => read += some,
        }
    }
    assert_eq!(read, 3_000);
}
