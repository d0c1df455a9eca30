use bson::{RawDocumentBuf, doc, rawdoc};
use odm::{
    ErrorKind, Result,
    backend::{
        Executor, Recorder,
        operation::{AggregateOperation, DocumentChange, Operation, UpdateOperation},
        read_to_end,
    },
};

use super::{TEST_COLLECTION, find, insert, update};
use crate::Fixture;

fn aggregate<const N: usize>(pipeline: [RawDocumentBuf; N]) -> AggregateOperation {
    AggregateOperation {
        collection: TEST_COLLECTION.into(),
        pipeline: pipeline.to_vec(),
        variables: rawdoc! {},
        options: Default::default(),
    }
}

async fn run(db: &dyn Executor, aggregate: AggregateOperation) -> Result<Vec<RawDocumentBuf>> {
    read_to_end(db.aggregate(aggregate).await?).await
}

async fn fill(db: &dyn Executor) {
    let things = [(1, "a", 5), (2, "b", 7), (3, "a", 2)];
    let things = things.map(|(id, kind, n)| rawdoc! { "_id": id, "kind": kind, "n": n });
    db.insert(insert(things)).await.unwrap();
}

fn sums() -> AggregateOperation {
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
    let in_transaction = run(&*tx, sums()).await.unwrap();
    assert_eq!(in_transaction[1], rawdoc! { "_id": "b", "sum": 8 });
    let committed = run(&*db, sums()).await.unwrap();
    assert_eq!(committed[1], rawdoc! { "_id": "b", "sum": 7 });
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
    let double = UpdateOperation {
        change: DocumentChange::Pipeline(stages),
        multi: true,
        ..update(rawdoc! { "kind": "a" }, rawdoc! {})
    };
    let updated = db.update(double).await.unwrap();
    assert_eq!((updated.matched, updated.modified), (2, 2));
    let mut changed = find(rawdoc! { "twice": { "$exists": true } });
    changed.sort = Some(rawdoc! { "_id": 1 });
    assert_eq!(
        read_to_end(db.find(changed).await.unwrap()).await.unwrap(),
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
            "from": TEST_COLLECTION, "localField": "kind", "foreignField": "kind", "as": "all",
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

/// A stage that adds a removed field again puts the field into its old position.
pub async fn removed_fields_keep_their_position(db: Fixture) {
    let db = db.backend();
    let document = rawdoc! {
        "_id": 1, "a": 1, "b": { "x": 1, "y": 2, "z": 3 }, "c": [{ "p": 1, "q": 2 }, { "p": 3, "q": 4 }], "d": 4
    };
    db.insert(insert([document.clone()])).await.unwrap();
    let operation = |stages: &[RawDocumentBuf]| AggregateOperation {
        pipeline: stages.to_vec(),
        ..aggregate([])
    };
    let unset = |path: &str| rawdoc! { "$unset": path };
    let set = |path: &str| RawDocumentBuf::try_from(&doc! { "$set": { path: 9 } }).unwrap();
    let with = |a: i32| {
        rawdoc! {
            "_id": 1, "a": a, "b": { "x": 1, "y": 2, "z": 3 }, "c": [{ "p": 1, "q": 2 }, { "p": 3, "q": 4 }], "d": 4
        }
    };
    let nested = rawdoc! {
        "_id": 1, "a": 1, "b": { "x": 1, "y": 9, "z": 3 }, "c": [{ "p": 1, "q": 2 }, { "p": 3, "q": 4 }], "d": 4
    };
    let elements = rawdoc! {
        "_id": 1, "a": 1, "b": { "x": 1, "y": 2, "z": 3 }, "c": [{ "p": 9, "q": 2 }, { "p": 9, "q": 4 }], "d": 4
    };
    let replaced = rawdoc! {
        "_id": 1, "a": 1, "b": { "z": 8, "y": 9 }, "c": [{ "p": 1, "q": 2 }, { "p": 3, "q": 4 }], "d": 4
    };
    let removed = rawdoc! { "$set": { "a": "$$REMOVE" } };
    let filter = rawdoc! { "$match": { "d": 4 } };
    let exclude = rawdoc! { "$project": { "a": 0, "_id": 0 } };
    let id = rawdoc! { "$set": { "a": 9, "_id": 1 } };
    let two = rawdoc! { "$unset": ["b", "d"] };
    let literal = rawdoc! { "$set": { "d": 4, "b": { "$literal": { "z": 8, "y": 9 } } } };
    for (stages, expected) in [
        (vec![unset("a"), set("a")], with(9)),
        (vec![removed, set("a")], with(9)),
        (vec![unset("a"), filter, set("a")], with(9)),
        (vec![exclude, id], with(9)),
        (vec![unset("b.y"), set("b.y")], nested),
        (vec![unset("c.p"), set("c.p")], elements),
        (vec![two, literal], replaced),
    ] {
        let found = run(&*db, operation(&stages)).await.unwrap();
        assert_eq!(found, [expected], "{stages:?}");
    }
    // Without the field in between, a new field is the last.
    let renewed = vec![
        unset("a"),
        rawdoc! { "$project": { "d": 1, "a": 1 } },
        set("a"),
    ];
    let found = run(&*db, operation(&renewed)).await.unwrap();
    assert_eq!(found, [rawdoc! { "_id": 1, "d": 4, "a": 9 }]);

    let stages = vec![unset("a"), set("a")];
    let change = UpdateOperation {
        change: DocumentChange::Pipeline(stages),
        ..update(rawdoc! {}, rawdoc! {})
    };
    db.update(change).await.unwrap();
    let stored = db.find(find(rawdoc! {})).await.unwrap();
    assert_eq!(read_to_end(stored).await.unwrap(), [with(9)]);
}
