//! What one request can take of memory.

use std::fs;
use std::process::{Command, Stdio};

use bson::{RawArrayBuf, RawBson, RawDocumentBuf, rawdoc};
use odm_engine::{Count, Database, Delete, Direction, DropIndexes, Error, Find, Index, Update};

/// A document with a large value.
fn large(id: i32) -> RawDocumentBuf {
    rawdoc! { "_id": id, "text": "x".repeat(1 << 20) }
}

/// A database of 600 MiB in memory.
fn database() -> Database {
    let database = Database::memory();
    for start in (0..600).step_by(100) {
        let documents = (start..start + 100).map(large).collect();
        database.insert("c", documents).unwrap().all().unwrap();
    }
    database
}

fn assert_too_large(error: &Error) {
    assert!(error.is_write_too_large(), "{error:?}");
    assert_eq!(error.code(), Some(388));
    assert!(error.message().contains("in parts"), "{error}");
}

#[test]
fn a_write_of_more_than_fits_into_memory_is_refused_as_a_whole() {
    let database = database();
    let mark = Update {
        update: rawdoc! { "$set": { "mark": 1 } },
        multi: true,
        ..Update::default()
    };
    assert_too_large(&database.update("c", &mark).unwrap_err());
    let marked = Count {
        filter: rawdoc! { "mark": 1 },
        ..Count::default()
    };
    assert_eq!(database.count("c", &marked).unwrap(), 0);
    let documents: Vec<_> = (1000..1600).map(large).collect();
    assert_too_large(&database.insert("c", documents).unwrap_err());
    assert_eq!(database.count("c", &Count::default()).unwrap(), 600);
    // Its parts are written.
    for (from, to) in [(0, 300), (300, 600)] {
        let part = Update {
            filter: rawdoc! { "_id": { "$gte": from, "$lt": to } },
            ..mark.clone()
        };
        assert_eq!(database.update("c", &part).unwrap().modified, 300);
    }
    assert_eq!(database.count("c", &marked).unwrap(), 600);
    // A deletion holds keys alone.
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
    // What replaces its own changes takes no more.
    let transaction = database.begin().unwrap();
    transaction
        .insert("c", vec![large(1)])
        .unwrap()
        .all()
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

/// Set for the process whose memory is measured.
const MEASURED: &str = "ODM_ENGINE_TEST_MEASURED";

/// The most memory that this process has taken since the last [`forget_peak`], in MiB.
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

/// Runs something, and prints by how much memory has grown meanwhile.
fn measured<T>(what: &str, run: impl FnOnce() -> T) -> T {
    forget_peak();
    let before = peak();
    let result = run();
    println!("grown {what} {}", peak() - before);
    result
}

/// Does nothing by itself; see [`memory_does_not_grow_with_what_a_request_multiplies`].
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
        inserted.all().unwrap();
    }
    // Keys of 280 MB in all.
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
        .all()
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
        let found = measured(path, || database.find("c", &find).unwrap().count());
        assert_eq!(found, if path == "absent" { 0 } else { 1_000 });
    }
}

/// On Linux, where a process can ask for its own peak.
#[test]
fn memory_does_not_grow_with_what_a_request_multiplies() {
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
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}");
    let grown: Vec<(&str, u64)> = said
        .lines()
        .filter_map(|line| {
            let mut words = line.split("grown ").nth(1)?.split_whitespace();
            Some((words.next()?, words.next()?.parse().ok()?))
        })
        .collect();
    assert_eq!(grown.len(), 6, "{said}");
    for (what, mebibytes) in grown {
        let most = match what {
            // Entries of 300 MB; pages of the store that stay in memory are 128 MiB at most.
            "indexes" => 220,
            "dropped" | "collection" => 140,
            // Half a million values, of which the request has 6 MB.
            _ => 60,
        };
        assert!(mebibytes < most, "{what}: {mebibytes} MiB");
    }
}
