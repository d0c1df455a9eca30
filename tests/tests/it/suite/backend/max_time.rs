//! Time limits of reads.

use std::time::{Duration, Instant};

use bson::{RawDocumentBuf, rawdoc};
use odm::{
    ErrorKind, Result,
    backend::{
        BoxFuture, Executor, drain,
        operation::{Aggregate, Count, Distinct, Find, FindEach, FindSeveral},
    },
};

use super::{THINGS, count, find, insert};
use crate::Fixture;

/// Matches every document, and takes a while with each.
fn slow() -> RawDocumentBuf {
    let sum = rawdoc! { "$reduce": {
        "input": { "$range": [0, 2_000] },
        "initialValue": 0,
        "in": { "$add": ["$$value", { "$mod": ["$$this", 7] }] },
    } };
    rawdoc! { "$expr": { "$gt": [sum, 0] } }
}

/// A read of some kind, with a time limit or without.
type Read = for<'d> fn(&'d dyn Executor, Option<Duration>) -> BoxFuture<'d, Result<()>>;

const READS: [(&str, Read); 8] = [
    ("find", |db, max_time| {
        let find = Find {
            max_time,
            ..find(slow())
        };
        Box::pin(async move { drain(db.find(find).await?).await.map(drop) })
    }),
    ("find_all", |db, max_time| {
        let find = Find {
            max_time,
            ..find(slow())
        };
        Box::pin(async move { db.find_all(find).await.map(drop) })
    }),
    ("count", |db, max_time| {
        let count = Count {
            max_time,
            ..count(slow())
        };
        Box::pin(async move { db.count(count).await.map(drop) })
    }),
    ("distinct", |db, max_time| {
        let distinct = Distinct {
            collection: THINGS.into(),
            path: "n".to_owned(),
            filter: slow(),
            max_time,
        };
        Box::pin(async move { db.distinct(distinct).await.map(drop) })
    }),
    ("aggregate", |db, max_time| {
        let aggregate = Aggregate {
            collection: THINGS.into(),
            pipeline: vec![rawdoc! { "$match": slow() }],
            variables: rawdoc! {},
            max_time,
        };
        Box::pin(async move { db.aggregate_all(aggregate).await.map(drop) })
    }),
    ("find_each", |db, max_time| {
        let each = FindEach {
            collection: THINGS.into(),
            path: "n".to_owned(),
            keys: vec![0.into(), 1.into()],
            filter: slow(),
            projection: None,
            sort: None,
            limit: None,
            max_time,
        };
        Box::pin(async move { drain(db.find_each(each).await?).await.map(drop) })
    }),
    ("find_several", |db, max_time| {
        let find = Find {
            max_time,
            ..find(slow())
        };
        let several = FindSeveral {
            finds: vec![find.clone(), find],
        };
        Box::pin(async move { drain(db.find_several(several).await?).await.map(drop) })
    }),
    ("explain", |db, max_time| {
        let find = Find {
            max_time,
            ..find(slow())
        };
        Box::pin(async move { db.explain(find).await.map(drop) })
    }),
];

/// Every kind of read is ended soon after its limit, and is not touched by one that it keeps to.
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

/// In a transaction it is an error as any other: it ends the transaction.
pub async fn a_timeout_ends_a_transaction(fixture: Fixture) {
    let db = fixture.backend();
    if !db.capabilities().transactions {
        return;
    }
    let things = (0..300).map(|id| rawdoc! { "_id": id, "n": id % 2 });
    db.insert(insert(things)).await.unwrap();
    let tx = db.begin().await.unwrap();
    tx.insert(insert([rawdoc! { "_id": 1_000 }])).await.unwrap();
    let find = Find {
        max_time: Some(Duration::from_millis(15)),
        ..find(slow())
    };
    let error = tx.find_all(find).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    tx.abort().await;
    assert_eq!(db.count(count(rawdoc! {})).await.unwrap(), 300);
}

/// Who takes its time with what was read is not too slow.
pub async fn the_time_between_batches_does_not_count(fixture: Fixture) {
    let db = fixture.backend();
    let things = (0..3_000).map(|id| rawdoc! { "_id": id });
    db.insert(insert(things)).await.unwrap();
    let find = Find {
        max_time: Some(Duration::from_secs(2)),
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
