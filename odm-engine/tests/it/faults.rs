//! A store that fails at each of its writes and syncs, and a power loss at each of them.
//!
//! The tests run one script of writes repeatedly, and inject the fault one operation later each time. Afterwards, acknowledged
//! writes must exist. Each unacknowledged write must exist either completely or not at all. Indexes must match the documents.
//!
//! By default, the tests try some of the positions. `ODM_ENGINE_FAULTS=all` tries every position, and `ODM_ENGINE_FAULTS=<n>`
//! tries every position with `n` different losses of unsynced writes.

pub(crate) mod disk;
mod full;
mod outage;

use std::collections::{BTreeMap, BTreeSet};

use bson::{RawDocumentBuf, rawdoc};
use disk::{Disk, Fault};
use odm_engine::{Aggregate, Database, Delete, Direction, Error, Index, Result, Update};

use crate::all;

/// The lengths of the log. With the short log, most commits are checkpoints. With the long log, all records fit.
const LOG_BYTES: [u64; 2] = [16 << 10, 1 << 20];

/// One write of an application.
type Step = fn(&Database) -> Result<()>;

/// The script of writes. Each step must be deterministic, because the same script also runs in memory.
const SCRIPT: [Step; 12] = [
    |database| database.create_indexes("a", &[Index::new([("n", Direction::Ascending)])]),
    |database| insert(database, "a", 0..40),
    |database| insert(database, "b", 0..3),
    |database| {
        update(
            database,
            "a",
            rawdoc! { "n": { "$lt": 5 } },
            rawdoc! { "$push": { "tags": "x" } },
        )
    },
    |database| {
        let tags = Index::new([("tags", Direction::Descending), ("n", Direction::Ascending)]);
        let partial = Index::new([("text", Direction::Ascending)]).unique();
        let partial = partial.partial(rawdoc! { "n": { "$gt": 35 } });
        database.create_indexes("a", &[tags, partial.named("partial")])
    },
    |database| {
        let transaction = database.begin()?;
        transaction
            .insert("b", vec![document(70), document(71)])?
            .into_result()?;
        let change = Update {
            filter: rawdoc! { "_id": { "$gt": 20 } },
            update: rawdoc! { "$inc": { "n": 100 }, "$set": { "text": "new" } },
            multi: true,
            ..Update::default()
        };
        // The unique index allows this text only once, so one document above 35 is enough.
        transaction.delete(
            "a",
            &Delete {
                filter: rawdoc! { "n": { "$gt": 30 } },
                multi: true,
                ..Delete::default()
            },
        )?;
        transaction.update("b", &change).map(drop)?;
        transaction.commit()
    },
    |database| insert(database, "a", 100..160),
    |database| database.drop_index("a", "n_1"),
    |database| {
        let all = Delete {
            filter: rawdoc! { "n": { "$mod": [3, 0] } },
            multi: true,
            ..Delete::default()
        };
        database.delete("a", &all).map(drop)
    },
    |database| {
        update(
            database,
            "a",
            rawdoc! {},
            rawdoc! { "$set": { "text": "y".repeat(900) }, "$unset": { "n": 1 } },
        )
    },
    |database| {
        let few = rawdoc! { "$match": { "_id": { "$lt": 30 } } };
        aggregate(database, "a", vec![few, rawdoc! { "$out": "b" }])
    },
    |database| {
        let shifted = rawdoc! { "$project": { "_id": { "$add": ["$_id", 15] }, "text": "merged" } };
        let merge = rawdoc! { "$merge": { "into": "b", "whenMatched": "replace" } };
        aggregate(database, "b", vec![shifted, merge])
    },
];

/// The content of a database.
#[derive(Debug, PartialEq)]
struct Dump(BTreeMap<&'static str, (Vec<RawDocumentBuf>, Vec<String>)>);

impl Dump {
    fn of(database: &Database) -> Dump {
        let collections = ["a", "b"].map(|name| {
            let mut documents = all(database, name);
            documents.sort_by_key(|document| document.get_i32("_id").unwrap());
            let indexes = database.list_indexes(name).unwrap();
            let indexes = indexes.into_iter().map(|index| index.name).collect();
            (name, (documents, indexes))
        });
        Dump(collections.into_iter().collect())
    }
}

fn document(id: i32) -> RawDocumentBuf {
    rawdoc! { "_id": id, "n": id, "tags": [id % 3, id % 5], "text": format!("{id} {}", "x".repeat(300)) }
}

fn insert(database: &Database, collection: &str, ids: std::ops::Range<i32>) -> Result<()> {
    database
        .insert(collection, ids.map(document).collect())?
        .into_result()
        .map(drop)
}

fn update(
    database: &Database,
    collection: &str,
    filter: RawDocumentBuf,
    update: RawDocumentBuf,
) -> Result<()> {
    let update = Update {
        filter,
        update,
        multi: true,
        ..Update::default()
    };
    database.update(collection, &update).map(drop)
}

fn aggregate(database: &Database, collection: &str, pipeline: Vec<RawDocumentBuf>) -> Result<()> {
    let aggregate = Aggregate {
        pipeline,
        ..Aggregate::default()
    };
    database.aggregate(collection, &aggregate).map(drop)
}

/// Returns the states before and after each step.
fn states() -> Vec<Dump> {
    let database = Database::memory();
    let mut states = vec![Dump::of(&database)];
    for step in SCRIPT {
        step(&database).unwrap();
        states.push(Dump::of(&database));
    }
    states
}

/// Runs the script until a step fails permanently. Returns the number of acknowledged steps.
fn run(disk: &Disk, log_bytes: u64, fault: Option<Fault>, states: &[Dump]) -> usize {
    let database = match Database::open_storage_with_log(disk.clone(), log_bytes) {
        Ok(database) => database,
        Err(error) => {
            assert_reported(&error, disk);
            return 0;
        }
    };
    for (step_count, step) in SCRIPT.iter().enumerate() {
        let Err(error) = step(&database) else {
            continue;
        };
        assert_reported(&error, disk);
        // Readers still see all acknowledged writes.
        assert_eq!(Dump::of(&database), states[step_count]);
        if fault == Some(Fault::Once) {
            // The failed write was rolled back, and the next write succeeds.
            assert!(error.message().contains("nothing was written"), "{error}");
            step(&database).unwrap();
            assert_eq!(Dump::of(&database), states[step_count + 1]);
            database.validate().unwrap();
            continue;
        }
        // Later writes are refused with a message about the unknown outcome.
        assert!(error.message().contains("is unknown"), "{error}");
        let rejection = insert(&database, "b", 500..501).unwrap_err();
        assert!(rejection.is_io() && rejection.message().contains("try to reopen"));
        assert!(database.begin().is_err());
        assert!(database.reopen().is_err());
        assert_eq!(Dump::of(&database), states[step_count]);
        return step_count;
    }
    SCRIPT.len()
}

fn assert_reported(error: &Error, disk: &Disk) {
    assert!(disk.has_failed(), "{error:?}");
    assert!(error.is_io(), "{error:?}");
}

fn check(at: u64, log_bytes: u64, fault: Fault, states: &[Dump]) {
    let disk = Disk::failing(at, fault);
    let step_count = run(&disk, log_bytes, Some(fault), states);
    let case = format!(
        "log of {log_bytes} bytes, operation {at}, {fault:?}, {step_count} steps acknowledged"
    );
    let disk = disk.restarted();
    let read = read_only(&disk, &case);
    let database = Database::open_storage(disk).expect(&case);
    database.validate().expect(&case);
    let actual = Dump::of(&database);
    // Without a commit, there is no database to read.
    assert!(read.as_ref().unwrap_or(&states[0]) == &actual, "{case}");
    let next = states.get(step_count + 1);
    assert!(
        actual == states[step_count] || Some(&actual) == next,
        "{case}"
    );
    insert(&database, "b", 900..901).expect(&case);
    database.validate().expect(&case);
}

/// Reads the database on a disk after a fault, without a change of the disk. Returns `None` without a commit.
fn read_only(disk: &Disk, case: &str) -> Option<Dump> {
    let before = disk.content();
    let dump = match Database::open_storage_read_only(disk.clone()) {
        Ok(database) => {
            database.validate().expect(case);
            Some(Dump::of(&database))
        }
        Err(error) => {
            assert!(error.is_foreign_file(), "{case}: {error}");
            None
        }
    };
    assert!(disk.content() == before, "{case}");
    dump
}

/// Returns the number of different losses to try at each position, and the step between positions.
fn extent(short: usize) -> (u64, usize) {
    match std::env::var("ODM_ENGINE_FAULTS") {
        Err(_) => (1, short),
        Ok(all) if all == "all" => (1, 1),
        Ok(seeds) => (
            seeds
                .parse()
                .expect("ODM_ENGINE_FAULTS is `all` or a number"),
            1,
        ),
    }
}

#[test]
fn a_fault_at_any_operation_loses_nothing_that_was_acknowledged() {
    let states = states();
    let (seeds, step) = extent(7);
    for log_bytes in LOG_BYTES {
        let healthy_disk = Disk::new(Vec::new());
        assert_eq!(run(&healthy_disk, log_bytes, None, &states), SCRIPT.len());
        for at in (0..healthy_disk.operations()).step_by(step) {
            check(at, log_bytes, Fault::Once, &states);
            check(at, log_bytes, Fault::Forever, &states);
            for seed in 0..seeds {
                let seed = at.wrapping_mul(1000) + seed;
                check(at, log_bytes, Fault::Power { seed }, &states);
            }
        }
    }
}

/// Writes from several threads with shared commits. Returns the acknowledged ids.
fn write_together(disk: &Disk, log_bytes: u64) -> BTreeSet<i32> {
    let Ok(database) = Database::open_storage_with_log(disk.clone(), log_bytes) else {
        return BTreeSet::new();
    };
    if database
        .create_indexes("b", &[Index::new([("n", Direction::Ascending)])])
        .is_err()
    {
        return BTreeSet::new();
    }
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|thread| {
                let database = &database;
                scope.spawn(move || {
                    let ids = (0..8).map(|n| thread * 100 + n);
                    ids.filter(|id| insert(database, "b", *id..*id + 1).is_ok())
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap())
            .collect()
    })
}

#[test]
fn a_fault_in_a_shared_commit_loses_nothing_that_was_acknowledged() {
    let (seeds, step) = extent(5);
    for log_bytes in LOG_BYTES {
        let healthy_disk = Disk::new(Vec::new());
        assert_eq!(write_together(&healthy_disk, log_bytes).len(), 32);
        for at in (0..healthy_disk.operations()).step_by(step) {
            let losses = (0..seeds).map(|seed| Fault::Power {
                seed: at.wrapping_mul(1000) + seed,
            });
            for fault in [Fault::Once, Fault::Forever].into_iter().chain(losses) {
                check_shared(at, log_bytes, fault);
            }
        }
    }
}

fn check_shared(at: u64, log_bytes: u64, fault: Fault) {
    let disk = Disk::failing(at, fault);
    let acknowledged = write_together(&disk, log_bytes);
    let case = format!("log of {log_bytes} bytes, operation {at}, {fault:?}");
    let database = Database::open_storage(disk.restarted()).expect(&case);
    database.validate().expect(&case);
    let actual = all(&database, "b");
    let ids: BTreeSet<_> = actual
        .iter()
        .map(|document| document.get_i32("_id").unwrap())
        .collect();
    assert!(
        ids.is_superset(&acknowledged),
        "{case}: {acknowledged:?} but {ids:?}"
    );
    assert!(
        actual
            .iter()
            .all(|stored| *stored == document(stored.get_i32("_id").unwrap())),
        "{case}"
    );
}

/// The large writes of a thread, in order. Each of them takes more than the short log.
const LARGE_SCRIPT: [Step; 5] = [
    |database| insert(database, "a", 0..250),
    |database| {
        let tags = Index::new([("tags", Direction::Ascending), ("n", Direction::Ascending)]);
        database.create_indexes("a", &[tags])
    },
    |database| update(database, "a", rawdoc! {}, rawdoc! { "$inc": { "n": 1000 } }),
    |database| {
        let transaction = database.begin()?;
        let many = Delete {
            filter: rawdoc! { "n": { "$gte": 1010 } },
            multi: true,
            ..Delete::default()
        };
        transaction.delete("a", &many)?;
        let documents = (1000..1100).map(document).collect();
        transaction.insert("a", documents)?.into_result()?;
        transaction.commit()
    },
    |database| database.drop_collection("a"),
];

/// Runs the large script beside two threads with small writes. Returns the number of acknowledged steps, and the acknowledged ids.
fn write_beside_large(disk: &Disk) -> (usize, BTreeSet<i32>) {
    let Ok(database) = Database::open_storage_with_log(disk.clone(), LOG_BYTES[0]) else {
        return (0, BTreeSet::new());
    };
    std::thread::scope(|scope| {
        let writers = [0, 100].map(|first| {
            let database = &database;
            scope.spawn(move || {
                let ids = first..first + 40;
                ids.filter(|id| insert(database, "b", *id..*id + 1).is_ok())
                    .collect::<Vec<_>>()
            })
        });
        let steps = LARGE_SCRIPT.iter();
        let acknowledged = steps.take_while(|step| step(&database).is_ok()).count();
        let ids = writers.map(|writer| writer.join().unwrap());
        (acknowledged, ids.into_iter().flatten().collect())
    })
}

#[test]
fn a_fault_beside_a_large_write_loses_nothing_that_was_acknowledged() {
    let database = Database::memory();
    let mut states = vec![Dump::of(&database)];
    for step in LARGE_SCRIPT {
        step(&database).unwrap();
        states.push(Dump::of(&database));
    }
    let states: Vec<_> = states.iter().map(|state| &state.0["a"]).collect();
    let (seeds, step) = extent(23);
    let healthy_disk = Disk::new(Vec::new());
    let (acknowledged, ids) = write_beside_large(&healthy_disk);
    assert_eq!((acknowledged, ids.len()), (LARGE_SCRIPT.len(), 80));
    for at in (0..healthy_disk.operations()).step_by(step) {
        let losses = (0..seeds).map(|seed| Fault::Power {
            seed: at.wrapping_mul(1000) + seed,
        });
        for fault in [Fault::Once, Fault::Forever].into_iter().chain(losses) {
            let disk = Disk::failing(at, fault);
            let (acknowledged, ids) = write_beside_large(&disk);
            let case = format!("operation {at}, {fault:?}, {acknowledged} steps, {ids:?}");
            let database = Database::open_storage(disk.restarted()).expect(&case);
            database.validate().expect(&case);
            let dump = Dump::of(&database);
            let after = states.get(acknowledged + 1);
            let large = &dump.0["a"];
            assert!(
                large == states[acknowledged] || after == Some(&large),
                "{case}"
            );
            let small = dump.0["b"].0.iter();
            let small: BTreeSet<_> = small
                .map(|document| document.get_i32("_id").unwrap())
                .collect();
            assert!(small.is_superset(&ids), "{case}: {small:?}");
            // The next drop removes what a crash has left of an earlier drop or build.
            database.drop_collection("a").expect(&case);
            insert(&database, "a", 0..10).expect(&case);
            database.validate().expect(&case);
        }
    }
}
