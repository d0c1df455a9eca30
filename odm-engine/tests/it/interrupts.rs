//! Interrupted operations: cancelled by the caller, or past their deadline.

use std::time::{Duration, Instant};

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use odm_engine::{
    Aggregate, CollectionWrite, Count, Database, Delete, Direction, Error, Find, FindEach, Index,
    Interrupt, Update, WriteOperation,
};

use crate::all;

/// The maximum time until an operation ends, in a build without optimization on a busy machine.
const SOON: Duration = Duration::from_secs(5);

/// A database with a long array and many documents.
fn database() -> Database {
    let database = Database::memory();
    let elements: RawArrayBuf = (0..100_000).map(bson::RawBson::Int32).collect();
    let document = rawdoc! { "_id": 0, "elements": elements };
    database
        .insert("one", vec![document])
        .unwrap()
        .into_result()
        .unwrap();
    let documents = (0..20_000).map(|n| rawdoc! { "_id": n, "n": n }).collect();
    database
        .insert("many", documents)
        .unwrap()
        .into_result()
        .unwrap();
    database
}

/// Expressions and stages that would run for minutes or hours.
fn endless() -> Vec<(&'static str, &'static str, Vec<RawDocumentBuf>)> {
    let nested = rawdoc! { "$map": { "input": "$elements", "as": "a", "in": {
    "$sum": { "$map": { "input": "$elements", "as": "b", "in": { "$add": ["$$a", "$$b"] } } } } } };
    let growing = rawdoc! { "$reduce": { "input": "$elements", "initialValue": [], "in": {
    "$setUnion": [{ "$slice": ["$$value", 50_000] }, ["$$this"]] } } };
    let searching = rawdoc! { "$filter": { "input": "$elements", "as": "a", "cond": {
    "$in": [{ "$multiply": ["$$a", -1] }, "$elements"] } } };
    let joined = rawdoc! { "$lookup": {
        "from": "many", "let": { "n": "$n" }, "as": "others",
        "pipeline": [{ "$match": { "$expr": { "$gt": ["$$n", { "$add": ["$n", 1_000_000] }] } } }],
    } };
    let unwind = rawdoc! { "$unwind": "$others" };
    let lookup = rawdoc! { "$lookup": { "from": "many", "pipeline": [{ "$match": { "n": { "$lt": 5_000 } } }], "as": "others" } };
    vec![
        (
            "a map in a map",
            "one",
            vec![rawdoc! { "$project": { "x": nested } }],
        ),
        (
            "a reduction",
            "one",
            vec![rawdoc! { "$set": { "x": growing } }],
        ),
        (
            "a search in a filter",
            "one",
            vec![rawdoc! { "$match": { "$expr": { "$eq": [1, { "$size": searching }] } } }],
        ),
        ("a join of all with all", "many", vec![joined]),
        (
            "a product",
            "many",
            vec![lookup, unwind, rawdoc! { "$match": { "others.n": -1 } }],
        ),
        (
            "a group of a product",
            "many",
            vec![
                rawdoc! { "$lookup": { "from": "many", "pipeline": [{ "$limit": 5_000 }], "as": "others" } },
                rawdoc! { "$unwind": "$others" },
                rawdoc! { "$group": { "_id": { "$mod": ["$others.n", 7] }, "sum": { "$sum": "$n" } } },
            ],
        ),
    ]
}

fn run(database: &Database, collection: &str, pipeline: &[RawDocumentBuf]) -> Result<usize, Error> {
    let aggregate = Aggregate {
        pipeline: pipeline.to_vec(),
        ..Aggregate::default()
    };
    let documents = database.aggregate(collection, &aggregate)?;
    Ok(documents.collect::<odm_engine::Result<Vec<_>>>()?.len())
}

#[test]
fn a_read_ends_soon_after_it_was_cancelled() {
    let database = database();
    for (name, collection, pipeline) in endless() {
        let interrupt = Interrupt::new();
        let cancelled = std::thread::scope(|scope| {
            let read = scope.spawn(|| interrupt.run(|| run(&database, collection, &pipeline)));
            std::thread::sleep(Duration::from_millis(200));
            assert!(!read.is_finished(), "{name} is no long read");
            let started = Instant::now();
            interrupt.cancel();
            let error = read.join().unwrap().unwrap_err();
            assert!(error.is_cancelled(), "{name}: {error:?}");
            assert_eq!(error.code(), Some(11601));
            started.elapsed()
        });
        assert!(cancelled < SOON, "{name}: {cancelled:?}");
    }
}

#[test]
fn a_read_ends_at_its_deadline() {
    let database = database();
    for (name, collection, pipeline) in endless() {
        let started = Instant::now();
        let limit = Interrupt::after(Duration::from_millis(100));
        let error = limit.run(|| run(&database, collection, &pipeline));
        let error = error.unwrap_err();
        assert!(error.is_timed_out(), "{name}: {error:?}");
        assert_eq!(error.code(), Some(50));
        assert!(started.elapsed() < SOON, "{name}: {:?}", started.elapsed());
    }
    // The database still works.
    let quick = Interrupt::after(Duration::from_secs(600));
    assert_eq!(quick.run(|| all(&database, "many")).len(), 20_000);
}

#[test]
fn a_cursor_keeps_the_interrupts_of_its_creation() {
    let database = database();
    let interrupt = Interrupt::new();
    let mut cursor = interrupt
        .run(|| database.find("many", &Find::default()))
        .unwrap();
    assert!(cursor.next().unwrap().is_ok());
    let read = std::thread::spawn(move || cursor.nth(5_000).unwrap().map(|_| cursor));
    let mut cursor = read.join().unwrap().unwrap();
    interrupt.cancel();
    assert!(cursor.next().unwrap().unwrap_err().is_cancelled());
    // The read adds a second interrupt.
    let mut cursor = database.find("many", &Find::default()).unwrap();
    let reading = Interrupt::new();
    assert!(reading.run(|| cursor.next()).unwrap().is_ok());
    reading.cancel();
    assert!(reading.run(|| cursor.next()).unwrap().is_err());
}

/// Every command fails if its deadline has already passed.
#[test]
fn every_command_checks_its_interrupts() {
    let database = database();
    let index = Index::new([("n", Direction::Ascending)]);
    let no_match = rawdoc! { "n": { "$lt": 0 } };
    let add_one = Update {
        update: rawdoc! { "$inc": { "n": 1 } },
        multi: true,
        ..Update::default()
    };
    let remove_all = Delete {
        multi: true,
        ..Delete::default()
    };
    let each = FindEach {
        path: "n".to_owned(),
        keys: (0..1000).map(bson::RawBson::Int32).collect(),
        ..FindEach::default()
    };
    let sorted = Find {
        sort: Some(rawdoc! { "n": -1 }),
        ..Find::default()
    };
    let interrupt = Interrupt::new();
    interrupt.cancel();
    interrupt.run(|| {
        let read = |find: &Find| {
            let documents = database.find("many", find)?;
            documents.collect::<odm_engine::Result<Vec<_>>>()
        };
        let results = [
            read(&Find::default()).map(drop),
            read(&sorted).map(drop),
            database.count("many", &Count::default()).map(drop),
            database.distinct("many", "n", &no_match).map(drop),
            database.explain("many", &Find::default()).map(drop),
            database.find_each("many", &each).map(drop),
            database
                .find_several(&[("many".into(), Find::default())])
                .map(drop),
            database.update("many", &add_one).map(drop),
            database.delete("many", &remove_all).map(drop),
            database.create_indexes("many", std::slice::from_ref(&index)),
            database.validate(),
        ];
        for (command, result) in results.into_iter().enumerate() {
            let error = result.expect_err(&format!("command {command}"));
            assert!(error.is_cancelled(), "{command}: {error:?}");
        }
    });
    // No write has changed data.
    assert_eq!(database.list_indexes("many").unwrap().len(), 1);
    let expected: Vec<_> = (0..20_000).map(|n| rawdoc! { "_id": n, "n": n }).collect();
    assert_eq!(all(&database, "many"), expected);
    database.validate().unwrap();
}

/// A write that is interrupted half-way changes nothing, even a write that would keep its changes before an error.
#[test]
fn a_write_that_is_interrupted_changes_nothing() {
    let database = database();
    let update = Update {
        pipeline: Some(vec![rawdoc! { "$set": { "x": {
        "$sum": { "$map": { "input": { "$range": [0, 2_000] }, "in": { "$add": ["$$this", "$n"] } } } } } }]),
        multi: true,
        ..Update::default()
    };
    let limit = Interrupt::after(Duration::from_millis(300));
    let error = limit.run(|| database.update("many", &update)).unwrap_err();
    assert!(error.is_timed_out(), "{error:?}");
    let expected: Vec<_> = (0..20_000).map(|n| rawdoc! { "_id": n, "n": n }).collect();
    assert_eq!(all(&database, "many"), expected);
}

/// An insert and a bulk write end between two documents.
#[test]
fn an_interrupted_insert_stores_nothing() {
    let database = Database::memory();
    let documents: Vec<_> = (0..100).map(|n| rawdoc! { "_id": n }).collect();
    let writes = documents.iter().map(|document| CollectionWrite {
        collection: "c".into(),
        write: WriteOperation::Insert(document.clone()),
        stop_if_unmatched: false,
    });
    let writes: Vec<_> = writes.collect();
    let passed = Interrupt::at(Instant::now());
    let inserted = passed.run(|| database.insert("c", documents));
    assert!(inserted.unwrap_err().is_timed_out());
    let written = passed.run(|| database.bulk_write(&writes, false));
    assert!(written.unwrap_err().is_timed_out());
    assert_eq!(all(&database, "c"), Vec::<RawDocumentBuf>::new());
}

/// A cancelled read does not abort its transaction, because it returned no data.
#[test]
fn a_transaction_goes_on_after_a_cancelled_read() {
    let database = database();
    let transaction = database.begin().unwrap();
    let document = vec![rawdoc! { "_id": 1 }];
    transaction
        .insert("d", document)
        .unwrap()
        .into_result()
        .unwrap();
    let interrupt = Interrupt::new();
    interrupt.cancel();
    let counted = interrupt.run(|| transaction.count("many", &Count::default()));
    assert!(counted.unwrap_err().is_cancelled());
    let mut cursor = transaction.find("many", &Find::default()).unwrap();
    assert!(interrupt.run(|| cursor.next()).unwrap().is_err());
    transaction.commit().unwrap();
    assert_eq!(all(&database, "d").len(), 1);

    let transaction = database.begin().unwrap();
    let expired = Interrupt::at(Instant::now());
    let counted = expired.run(|| transaction.count("many", &Count::default()));
    assert!(counted.unwrap_err().is_timed_out());
    assert!(transaction.commit().unwrap_err().is_transaction_over());
}
