//! Pipelines that write their documents: `$out` and `$merge`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use odm_engine::{Aggregate, Database, Direction, Error, Index, Update, Watch};

use crate::{all, find};

fn run(database: &Database, collection: &str, pipeline: &[RawDocumentBuf]) -> Result<(), Error> {
    let aggregate = Aggregate {
        pipeline: pipeline.to_vec(),
        ..Aggregate::default()
    };
    assert!(aggregate.is_write());
    let documents = database.aggregate(collection, &aggregate)?;
    assert_eq!(documents.count(), 0);
    Ok(())
}

fn insert(database: &Database, collection: &str, documents: &[RawDocumentBuf]) {
    let report = database.insert(collection, documents.to_vec()).unwrap();
    report.into_result().unwrap();
}

/// Returns a database with some sales.
fn sales() -> Database {
    let database = Database::memory();
    let sales = [(1, "tea", 3), (2, "coffee", 5), (3, "tea", 4)];
    let sales = sales.map(|(id, item, sum)| rawdoc! { "_id": id, "item": item, "sum": sum });
    insert(&database, "sales", &sales);
    database
}

fn totals() -> RawDocumentBuf {
    rawdoc! { "$group": { "_id": "$item", "total": { "$sum": "$sum" } } }
}

fn merge(options: RawDocumentBuf) -> RawDocumentBuf {
    rawdoc! { "$merge": options }
}

#[test]
fn out_replaces_the_content_and_keeps_the_indexes() {
    let database = sales();
    let by_total = Index::new([("total", Direction::Descending)]).unique();
    database.create_indexes("totals", &[by_total]).unwrap();
    insert(
        &database,
        "totals",
        &[rawdoc! { "_id": "milk", "total": 9 }],
    );
    let before = database.list_indexes("totals").unwrap();
    let sorted = rawdoc! { "$sort": { "_id": 1 } };
    run(
        &database,
        "sales",
        &[totals(), sorted, rawdoc! { "$out": "totals" }],
    )
    .unwrap();
    let expected = [
        rawdoc! { "_id": "coffee", "total": 5 },
        rawdoc! { "_id": "tea", "total": 7 },
    ];
    assert_eq!(all(&database, "totals"), expected);
    assert_eq!(database.list_indexes("totals").unwrap(), before);
    assert_eq!(find(&database, "totals", rawdoc! { "total": 7 }).len(), 1);
    database.validate().unwrap();
}

#[test]
fn out_without_documents_leaves_an_empty_collection() {
    let database = sales();
    let none = rawdoc! { "$match": { "item": "milk" } };
    run(&database, "sales", &[none, rawdoc! { "$out": "none" }]).unwrap();
    run(&database, "missing", &[rawdoc! { "$out": "sales" }]).unwrap();
    assert_eq!(database.list_collections().unwrap(), ["none", "sales"]);
    assert_eq!(
        all(&database, "none").len() + all(&database, "sales").len(),
        0
    );
}

#[test]
fn a_failed_write_changes_nothing() {
    let database = sales();
    let unique = Index::new([("total", Direction::Ascending)]).unique();
    database.create_indexes("totals", &[unique]).unwrap();
    insert(&database, "totals", &[rawdoc! { "_id": 0, "total": 0 }]);
    let all_equal = rawdoc! { "$set": { "total": 1 } };
    for stage in [
        rawdoc! { "$out": "totals" },
        merge(rawdoc! { "into": "totals" }),
    ] {
        let error = run(&database, "sales", &[all_equal.clone(), stage]).unwrap_err();
        assert!(error.is_duplicate_key(), "{error}");
        assert_eq!(all(&database, "totals"), [rawdoc! { "_id": 0, "total": 0 }]);
    }
    // The second document fails.
    let failing = rawdoc! { "$set": { "x": { "$divide": [1, { "$subtract": ["$_id", 2] }] } } };
    for stage in [
        rawdoc! { "$out": "totals" },
        merge(rawdoc! { "into": "totals" }),
    ] {
        let error = run(&database, "sales", &[failing.clone(), stage]).unwrap_err();
        assert!(error.is_bad_value(), "{error}");
        assert_eq!(all(&database, "totals"), [rawdoc! { "_id": 0, "total": 0 }]);
    }
    database.validate().unwrap();
}

#[test]
fn a_pipeline_reads_the_state_before_its_write() {
    let database = sales();
    let shifted = rawdoc! { "$set": { "_id": { "$add": ["$_id", 2] } } };
    let into = merge(rawdoc! { "into": "sales", "whenMatched": "replace" });
    run(&database, "sales", &[shifted.clone(), into]).unwrap();
    let items: Vec<_> = all(&database, "sales")
        .iter()
        .map(|sale| {
            (
                sale.get_i32("_id").unwrap(),
                sale.get_str("item").unwrap().to_owned(),
            )
        })
        .collect();
    let expected = [
        (1, "tea"),
        (2, "coffee"),
        (3, "tea"),
        (4, "coffee"),
        (5, "tea"),
    ];
    assert_eq!(items, expected.map(|(id, item)| (id, item.to_owned())));
    run(&database, "sales", &[shifted, rawdoc! { "$out": "sales" }]).unwrap();
    assert_eq!(all(&database, "sales").len(), 5);
    database.validate().unwrap();
}

#[test]
fn merge_has_every_mode() {
    let target = || rawdoc! { "_id": "tea", "total": 1, "note": "old" };
    let coffee = || rawdoc! { "_id": "coffee", "total": 5 };
    for (options, expected) in [
        (
            rawdoc! { "into": "t" },
            Ok(vec![
                coffee(),
                rawdoc! { "_id": "tea", "total": 7, "note": "old" },
            ]),
        ),
        (
            rawdoc! { "into": { "coll": "t" }, "whenMatched": "replace", "whenNotMatched": "discard" },
            Ok(vec![rawdoc! { "_id": "tea", "total": 7 }]),
        ),
        (
            rawdoc! { "into": "t", "whenMatched": "keepExisting" },
            Ok(vec![coffee(), target()]),
        ),
        (rawdoc! { "into": "t", "whenMatched": "fail" }, Err(11000)),
        (
            rawdoc! { "into": "t", "whenNotMatched": "fail" },
            Err(13113),
        ),
        (
            rawdoc! {
                "into": "t",
                "let": { "more": { "$add": ["$total", 10] }, "gone": "$missing" },
                "whenMatched": [{ "$set": { "total": { "$add": ["$total", "$$more", "$$new.total"] }, "gone": "$$gone" } }],
                "whenNotMatched": "insert",
            },
            Ok(vec![
                coffee(),
                rawdoc! { "_id": "tea", "total": 25, "note": "old" },
            ]),
        ),
        (
            rawdoc! { "into": "t", "whenMatched": [{ "$set": { "_id": 7 } }] },
            Err(66),
        ),
    ] {
        let database = sales();
        insert(&database, "t", &[target()]);
        let written = run(&database, "sales", &[totals(), merge(options.clone())]);
        let written = written.map_err(|error| error.code().unwrap());
        let mut documents = all(&database, "t");
        documents.sort_by_key(|document| document.get_str("_id").unwrap().to_owned());
        match expected {
            Ok(expected) => assert_eq!((written, documents), (Ok(()), expected), "{options:?}"),
            Err(code) => {
                assert_eq!(
                    (written, documents),
                    (Err(code), vec![target()]),
                    "{options:?}"
                );
            }
        }
    }
}

#[test]
fn merge_matches_by_the_fields_of_a_unique_index() {
    let database = sales();
    let unique = Index::new([("item", Direction::Ascending)]).unique();
    let options = || rawdoc! { "into": "t", "on": "item", "whenMatched": "merge" };
    let pipeline = [
        totals(),
        rawdoc! { "$project": { "_id": 0, "item": "$_id", "total": 1 } },
        merge(options()),
    ];
    let refused = run(&database, "sales", &pipeline).unwrap_err();
    assert_eq!(refused.code(), Some(51183));
    database.create_indexes("t", &[unique]).unwrap();
    insert(
        &database,
        "t",
        &[rawdoc! { "_id": 1, "item": "tea", "total": 0 }],
    );
    run(&database, "sales", &pipeline).unwrap();
    run(&database, "sales", &pipeline).unwrap();
    assert_eq!(
        find(&database, "t", rawdoc! { "item": "tea" }),
        [rawdoc! { "_id": 1, "item": "tea", "total": 7 }]
    );
    assert_eq!(all(&database, "t").len(), 2);
    for (document, code) in [
        (rawdoc! { "item": ["a"] }, 51185),
        (rawdoc! { "item": bson::RawBson::Null }, 51132),
        (rawdoc! { "total": 1 }, 51132),
    ] {
        let database = database.clone();
        insert(&database, "odd", &[document]);
        let error = run(&database, "odd", &[merge(options())]).unwrap_err();
        assert_eq!(error.code(), Some(code));
        database.drop_collection("odd").unwrap();
    }
}

#[test]
fn a_transaction_refuses_writing_stages() {
    let database = sales();
    for stage in [rawdoc! { "$out": "o" }, merge(rawdoc! { "into": "o" })] {
        let transaction = database.begin().unwrap();
        insert_one(&transaction);
        let aggregate = Aggregate {
            pipeline: vec![stage],
            ..Aggregate::default()
        };
        let error = transaction.aggregate("sales", &aggregate).unwrap_err();
        assert_eq!(error.code(), Some(263));
        assert!(transaction.commit().is_err(), "an error ends a transaction");
    }
    assert_eq!(database.list_collections().unwrap(), ["sales"]);
}

fn insert_one(session: &odm_engine::Session) {
    let report = session.insert("sales", vec![rawdoc! {}]).unwrap();
    report.into_result().unwrap();
}

#[test]
fn a_change_stream_sees_the_documents() {
    let database = sales();
    let mut changes = database.watch(&Watch::default()).unwrap();
    insert(&database, "totals", &[rawdoc! { "_id": "milk" }]);
    run(
        &database,
        "sales",
        &[totals(), rawdoc! { "$out": "totals" }],
    )
    .unwrap();
    let mut kinds = Vec::new();
    while let Some(event) = changes.try_next().unwrap() {
        kinds.push(event.get_str("operationType").unwrap().to_owned());
    }
    assert_eq!(kinds, ["insert", "drop", "insert", "insert"]);
}

#[test]
fn a_replaced_collection_in_a_file_survives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let database = Database::open(&path).unwrap();
    let by_n = Index::new([("n", Direction::Ascending)]);
    database.create_indexes("t", &[by_n]).unwrap();
    // More keys than a write removes at once.
    let many: Vec<_> = (0..2_000).map(|n| rawdoc! { "_id": n, "n": n }).collect();
    insert(&database, "t", &many);
    for rest in [1_000, 10] {
        let pipeline = [
            rawdoc! { "$match": { "n": { "$lt": rest } } },
            rawdoc! { "$out": "t" },
        ];
        run(&database, "t", &pipeline).unwrap();
        database.validate().unwrap();
    }
    database.close();
    let database = Database::open(&path).unwrap();
    database.validate().unwrap();
    assert_eq!(
        find(&database, "t", rawdoc! { "n": { "$gte": 0 } }).len(),
        10
    );
    let merged = [
        rawdoc! { "$set": { "m": 1 } },
        merge(rawdoc! { "into": "t" }),
    ];
    run(&database, "t", &merged).unwrap();
    assert_eq!(find(&database, "t", rawdoc! { "m": 1 }).len(), 10);
    insert(&database, "t", &[rawdoc! { "_id": 11, "n": 11 }]);
    database.validate().unwrap();
}

/// Each reader sees all documents of one write, and concurrent writes of one target happen one after the other.
#[test]
fn readers_and_writers_run_beside_each_write() {
    let database = Database::memory();
    let numbers: RawArrayBuf = (0..200).collect();
    insert(
        &database,
        "source",
        &[rawdoc! { "_id": 0, "numbers": numbers }],
    );
    let write = |database: &Database, writer: i32, round: i32, stage: RawDocumentBuf| {
        let pipeline = [
            rawdoc! { "$unwind": "$numbers" },
            rawdoc! { "$project": { "_id": "$numbers", "by": [writer, round] } },
            stage,
        ];
        run(database, "source", &pipeline).unwrap();
    };
    write(&database, 0, 0, rawdoc! { "$out": "target" });
    thread::scope(|scope| {
        let writers: Vec<_> = [
            rawdoc! { "$out": "target" },
            merge(rawdoc! { "into": "target", "whenMatched": "replace" }),
        ]
        .into_iter()
        .zip(1..)
        .map(|(stage, writer)| {
            let database = &database;
            scope.spawn(move || {
                for round in 0..10 {
                    write(database, writer, round, stage.clone());
                }
            })
        })
        .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            let documents = all(&database, "target");
            assert_eq!(documents.len(), 200);
            let by = |document: &RawDocumentBuf| document.get_array("by").unwrap().to_owned();
            let first = by(&documents[0]);
            assert!(documents.iter().all(|document| by(document) == first));
        }
    });
    database.validate().unwrap();
}

/// Writes into the target go on while a slow `$out` runs. Each acknowledged write is before the `$out`, which replaces it, or after it.
#[test]
fn writes_beside_out_are_kept() {
    let by_n = Index::new([("n", Direction::Ascending)]);
    // Slower than a write that holds the lock of writes.
    let slow = rawdoc! { "$set": { "x": { "$sum": { "$map": {
    "input": { "$range": [0, 100] }, "in": { "$add": ["$$this", "$n"] } } } } } };
    for source in ["source", "target"] {
        let database = Database::memory();
        for collection in BTreeSet::from([source, "target"]) {
            let by_n = std::slice::from_ref(&by_n);
            database.create_indexes(collection, by_n).unwrap();
            let documents: Vec<_> = (0..300).map(|id| rawdoc! { "_id": id, "n": 0 }).collect();
            insert(&database, collection, &documents);
        }
        let pipeline = [slow.clone(), rawdoc! { "$out": "target" }];
        let is_over = AtomicBool::new(false);
        let inserted = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut id = 10_000;
                while !is_over.load(Ordering::Relaxed) {
                    insert(&database, "target", &[rawdoc! { "_id": id, "n": id }]);
                    let update = Update {
                        filter: rawdoc! { "_id": id % 300 },
                        update: rawdoc! { "$inc": { "n": 1 } },
                        ..Update::default()
                    };
                    let updated = database.update("target", &update).unwrap();
                    assert!(updated.failure.is_none());
                    id += 1;
                }
                10_000..id
            });
            for _ in 0..3 {
                run(&database, source, &pipeline).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
            writer.join().unwrap()
        });
        database.validate().unwrap();
        let ids = |filter: RawDocumentBuf| {
            let documents = find(&database, "target", filter);
            let ids = documents
                .iter()
                .map(|document| document.get_i32("_id").unwrap());
            ids.collect::<BTreeSet<_>>()
        };
        let later = ids(rawdoc! { "n": { "$gte": 10_000 }, "x": { "$exists": false } });
        let first = later.first().map_or(inserted.end, |first| *first);
        assert_eq!(later, (first..inserted.end).collect());
        if source == "target" {
            assert_eq!(
                ids(rawdoc! { "_id": { "$gte": 10_000 } }),
                inserted.collect()
            );
        }
    }
}
