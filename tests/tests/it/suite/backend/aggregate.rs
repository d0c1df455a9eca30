use bson::{RawDocumentBuf, rawdoc};
use odm::{
    ErrorKind, Result,
    backend::{
        Executor, Recorder, drain,
        operation::{Aggregate, Change, Operation, Update},
    },
};

use super::{THINGS, find, insert, update};
use crate::Fixture;

fn aggregate<const N: usize>(pipeline: [RawDocumentBuf; N]) -> Aggregate {
    Aggregate {
        collection: THINGS.into(),
        pipeline: pipeline.to_vec(),
        variables: rawdoc! {},
        max_time: None,
    }
}

async fn run(db: &dyn Executor, aggregate: Aggregate) -> Result<Vec<RawDocumentBuf>> {
    drain(db.aggregate(aggregate).await?).await
}

async fn fill(db: &dyn Executor) {
    let things = [(1, "a", 5), (2, "b", 7), (3, "a", 2)];
    let things = things.map(|(id, kind, n)| rawdoc! { "_id": id, "kind": kind, "n": n });
    db.insert(insert(things)).await.unwrap();
}

fn sums() -> Aggregate {
    aggregate([
        rawdoc! { "$group": { "_id": "$kind", "sum": { "$sum": "$n" } } },
        rawdoc! { "$sort": { "_id": 1 } },
    ])
}

pub async fn a_missing_collection_is_empty(db: Fixture) {
    assert_eq!(run(&*db.backend(), sums()).await.unwrap(), []);
}

pub async fn a_stage_that_writes_is_unsupported(db: Fixture) {
    let db = db.backend();
    fill(&*db).await;
    for stage in [
        rawdoc! { "$out": "other" },
        rawdoc! { "$merge": { "into": "other" } },
    ] {
        let error = run(&*db, aggregate([stage])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

pub async fn a_transaction_sees_its_own_writes(db: Fixture) {
    let db = db.backend();
    if !db.capabilities().transactions {
        return;
    }
    fill(&*db).await;
    let tx = db.begin().await.unwrap();
    let more = rawdoc! { "_id": 4, "kind": "b", "n": 1 };
    tx.insert(insert([more])).await.unwrap();
    let inside = run(&*tx, sums()).await.unwrap();
    assert_eq!(inside[1], rawdoc! { "_id": "b", "sum": 8 });
    let outside = run(&*db, sums()).await.unwrap();
    assert_eq!(outside[1], rawdoc! { "_id": "b", "sum": 7 });
    tx.abort().await;
}

pub async fn an_unknown_stage_is_unsupported(db: Fixture) {
    let unknown = aggregate([rawdoc! { "$nonsense": {} }]);
    let error = run(&*db.backend(), unknown).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("$nonsense"), "{error}");
}

pub async fn documents_are_changed_by_pipelines(db: Fixture) {
    let db = db.backend();
    fill(&*db).await;
    let stages = vec![
        rawdoc! { "$set": { "twice": { "$add": ["$n", "$n"] } } },
        rawdoc! { "$unset": "kind" },
    ];
    let double = Update {
        change: Change::Pipeline(stages),
        multi: true,
        ..update(rawdoc! { "kind": "a" }, rawdoc! {})
    };
    let updated = db.update(double).await.unwrap();
    assert_eq!((updated.matched, updated.modified), (2, 2));
    let mut changed = find(rawdoc! { "twice": { "$exists": true } });
    changed.sort = Some(rawdoc! { "_id": 1 });
    assert_eq!(
        drain(db.find(changed).await.unwrap()).await.unwrap(),
        [
            rawdoc! { "_id": 1, "n": 5, "twice": 10 },
            rawdoc! { "_id": 3, "n": 2, "twice": 4 }
        ]
    );
}

pub async fn documents_are_grouped_joined_and_computed(db: Fixture) {
    let recorder = Recorder::new(db.backend());
    fill(&recorder).await;
    assert_eq!(
        run(&recorder, sums()).await.unwrap(),
        [
            rawdoc! { "_id": "a", "sum": 7 },
            rawdoc! { "_id": "b", "sum": 7 }
        ]
    );
    let siblings = aggregate([
        rawdoc! { "$match": { "_id": { "$ne": 2 } } },
        rawdoc! { "$lookup": {
            "from": THINGS, "localField": "kind", "foreignField": "kind", "as": "all",
            "pipeline": [{ "$sort": { "_id": -1 } }, { "$project": { "_id": 1 } }],
        } },
        rawdoc! { "$project": { "ids": "$all._id", "first": { "$eq": ["$_id", 1] } } },
        rawdoc! { "$sort": { "_id": 1 } },
    ]);
    recorder.clear();
    assert_eq!(
        run(&recorder, siblings.clone()).await.unwrap(),
        [
            rawdoc! { "_id": 1, "ids": [3, 1], "first": true },
            rawdoc! { "_id": 3, "ids": [3, 1], "first": false }
        ]
    );
    assert_eq!(recorder.operations(), [Operation::Aggregate(siblings)]);
    assert_eq!(recorder.queries(), 1);
}

pub async fn variables_have_values(db: Fixture) {
    let db = db.backend();
    fill(&*db).await;
    let mut at_least = aggregate([
        rawdoc! { "$match": { "$expr": { "$gte": ["$n", "$$least"] } } },
        rawdoc! { "$sort": { "_id": 1 } },
        rawdoc! { "$project": { "_id": 1 } },
    ]);
    at_least.variables = rawdoc! { "least": 5 };
    assert_eq!(
        run(&*db, at_least).await.unwrap(),
        [rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }]
    );
}
