//! Memory limits of a single request.

use std::fs;
use std::process::{Command, Stdio};

use bson::{RawArrayBuf, RawBson, RawDocumentBuf, rawdoc};
use odm_engine::{Count, Database, Delete, Direction, DropIndexes, Error, Find, Index, Update};

/// A document of 1 MiB.
fn large(id: i32) -> RawDocumentBuf {
    rawdoc! { "_id": id, "text": "x".repeat(1 << 20) }
}

/// A database of 600 MiB in memory.
fn database() -> Database {
    let database = Database::memory();
    for start in (0..600).step_by(100) {
        let documents = (start..start + 100).map(large).collect();
        database
            .insert("c", documents)
            .unwrap()
            .into_result()
            .unwrap();
    }
    database
}

fn assert_too_large(error: &Error) {
    assert!(error.is_write_too_large(), "{error:?}");
    assert_eq!(error.code(), Some(388));
    assert!(error.message().contains("in parts"), "{error}");
}

#[test]
fn a_write_over_the_memory_limit_is_rejected_completely() {
    let database = database();
    let update = Update {
        update: rawdoc! { "$set": { "mark": 1 } },
        multi: true,
        ..Update::default()
    };
    assert_too_large(&database.update("c", &update).unwrap_err());
    let count = Count {
        filter: rawdoc! { "mark": 1 },
        ..Count::default()
    };
    assert_eq!(database.count("c", &count).unwrap(), 0);
    let documents: Vec<_> = (1000..1600).map(large).collect();
    assert_too_large(&database.insert("c", documents).unwrap_err());
    assert_eq!(database.count("c", &Count::default()).unwrap(), 600);
    // The same update in two parts is within the limit.
    for (from, end) in [(0, 300), (300, 600)] {
        let part = Update {
            filter: rawdoc! { "_id": { "$gte": from, "$lt": end } },
            ..update.clone()
        };
        assert_eq!(database.update("c", &part).unwrap().modified, 300);
    }
    assert_eq!(database.count("c", &count).unwrap(), 600);
    // A delete holds only keys in memory.
    let delete = Delete {
        multi: true,
        ..Delete::default()
    };
    assert_eq!(database.delete("c", &delete).unwrap().deleted, 600);
}

#[test]
fn the_writes_of_a_transaction_count_together() {
    let database = Database::memory();
    let transaction = database.begin().unwrap();
    let mut error = None;
    for start in (0..600).step_by(100) {
        let documents = (start..start + 100).map(large).collect();
        error = transaction.insert("c", documents).err();
        if error.is_some() {
            break;
        }
    }
    assert_too_large(&error.unwrap());
    assert!(transaction.commit().unwrap_err().is_transaction_over());
    // Replacing its own changes does not increase the memory of a transaction.
    let transaction = database.begin().unwrap();
    transaction
        .insert("c", vec![large(1)])
        .unwrap()
        .into_result()
        .unwrap();
    let change = Update {
        update: rawdoc! { "$inc": { "n": 1 } },
        ..Update::default()
    };
    for _ in 0..600 {
        assert_eq!(transaction.update("c", &change).unwrap().modified, 1);
    }
    transaction.commit().unwrap();
}

/// The environment variable of the child process that measures memory.
const MEASURED: &str = "ODM_ENGINE_TEST_MEASURED";

/// Returns the peak memory of this process since the last [`forget_peak`], in MiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    let kilobytes = line.split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() / 1024
}

fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// Runs a function, and prints the growth of memory during the call.
fn measured<T>(name: &str, run: impl FnOnce() -> T) -> T {
    forget_peak();
    let before = peak();
    let result = run();
    println!("grown {name} {}", peak() - before);
    result
}

/// A child process; see [`memory_is_bounded_for_multiplying_requests`].
#[test]
fn child_is_measured() {
    let Some(directory) = std::env::var_os(MEASURED) else {
        return;
    };
    let path = std::path::Path::new(&directory).join("data.odm");
    let database = Database::open(&path).unwrap();
    for start in (0..10_000).step_by(1_000) {
        let documents = (start..start + 1_000).map(|n: i32| {
            let bytes = [n.to_be_bytes().to_vec(), vec![7; 3_500]].concat();
            let subtype = bson::spec::BinarySubtype::Generic;
            rawdoc! { "_id": n, "a": n % 7, "b": n % 11, "c": n % 13, "bytes": bson::Binary { subtype, bytes } }
        });
        let inserted = database.insert("c", documents.collect()).unwrap();
        inserted.into_result().unwrap();
    }
    // Index keys of 280 MB in total.
    let indexes = ["a", "b", "c", "_id"].map(|path| {
        [Direction::Ascending, Direction::Descending]
            .map(|direction| Index::new([(path, direction), ("bytes", direction)]))
    });
    let indexes = indexes.concat();
    measured("indexes", || database.create_indexes("c", &indexes)).unwrap();
    measured("dropped", || database.drop_indexes("c", &DropIndexes::All)).unwrap();
    measured("collection", || database.drop_collection("c")).unwrap();

    let database = Database::memory();
    let documents = (0..1_000).map(|n| rawdoc! { "_id": n, "n": n });
    database
        .insert("c", documents.collect())
        .unwrap()
        .into_result()
        .unwrap();
    let index = Index::new([("n", Direction::Ascending)]);
    database.create_indexes("c", &[index]).unwrap();
    let values: RawArrayBuf = (0..500_000).map(RawBson::Int32).collect();
    for path in ["_id", "n", "absent"] {
        let mut condition = RawDocumentBuf::new();
        condition.append(bson::raw::cstr!("$in"), values.clone());
        let mut filter = RawDocumentBuf::new();
        filter.append(bson::raw::CString::try_from(path).unwrap(), condition);
        let find = Find {
            filter,
            ..Find::default()
        };
        let count = measured(path, || database.find("c", &find).unwrap().count());
        assert_eq!(count, if path == "absent" { 0 } else { 1_000 });
    }
}

/// Runs on Linux, where a process can read its own peak memory.
#[test]
fn memory_is_bounded_for_multiplying_requests() {
    if !std::path::Path::new("/proc/self/clear_refs").exists() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "limits::child_is_measured", "--nocapture"])
        .env(MEASURED, directory.path())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{output}");
    let grown: Vec<(&str, u64)> = output
        .lines()
        .filter_map(|line| {
            let mut words = line.split("grown ").nth(1)?.split_whitespace();
            Some((words.next()?, words.next()?.parse().ok()?))
        })
        .collect();
    assert_eq!(grown.len(), 6, "{output}");
    for (name, mebibytes) in grown {
        let limit = match name {
            // The entries have 300 MB. The store keeps at most 128 MiB of pages in memory.
            "indexes" => 220,
            "dropped" | "collection" => 140,
            // Half a million values, with 6 MB in the request.
            _ => 60,
        };
        assert!(mebibytes < limit, "{name}: {mebibytes} MiB");
    }
}
