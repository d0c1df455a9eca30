//! Files of older format versions.

use std::fs::File;
use std::path::Path;

use bson::rawdoc;
use odm_engine::{Database, Delete, ExplainStage, Find, Watch, WatchFrom};
use redb::{ReadableDatabase, ReadableTable};

use crate::{TABLE, find, opened_by_redb};

/// A file of version 1. Each line is a key and a value in hexadecimal digits.
const VERSION_1: &str = include_str!("fixtures/format-1.txt");

/// A file of version 2, written under a watch: three documents, with one update and one delete.
const VERSION_2: &str = include_str!("fixtures/format-2.txt");

/// A file of version 3 with the same content.
const VERSION_3: &str = include_str!("fixtures/format-3.txt");

/// The resume tokens from the start of the watches.
const WATCH_OF_VERSION_2: &str = "016B020D3BE00243A5035442E200000000000000006B020D3B00000001";
const WATCH_OF_VERSION_3: &str = "016B089F11C6DD1FFE34777DB300000000000000006B089F1100000001";

/// Writes a closed file of version 1 to 3.
pub(crate) fn file_of_version(path: &Path, version: u32) {
    let versions = [VERSION_1, VERSION_2, VERSION_3];
    write(path, versions[usize::try_from(version).unwrap() - 1]);
}

fn write(path: &Path, lines: &str) {
    write_to(&redb::Database::create(path).unwrap(), lines);
}

fn write_to(file: &redb::Database, lines: &str) {
    let transaction = file.begin_write().unwrap();
    {
        let mut table = transaction.open_table(TABLE).unwrap();
        for line in lines.lines() {
            let (key, value) = line.split_once(' ').unwrap();
            let bytes = |digits: &str| -> Vec<u8> {
                let pairs = digits.as_bytes().chunks(2);
                pairs
                    .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
                    .collect()
            };
            table
                .insert(bytes(key).as_slice(), bytes(value).as_slice())
                .unwrap();
        }
    }
    transaction.commit().unwrap();
}

#[test]
fn a_file_of_version_1_opens() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("old.odm");
    write(&path, VERSION_1);
    let query = Find {
        filter: rawdoc! { "age": { "$gt": 10 } },
        projection: Some(rawdoc! { "age": 1, "_id": 0 }),
        ..Find::default()
    };
    for _ in 0..2 {
        let database = Database::open(&path).unwrap();
        let names: Vec<_> = database
            .list_indexes("people")
            .unwrap()
            .into_iter()
            .map(|index| index.name)
            .collect();
        assert_eq!(
            names,
            ["_id_", "name_1", "age_-1_name_1", "tags_1", "nick_1"]
        );
        assert_eq!(
            find(&database, "people", rawdoc! { "tags": "poetry" }).len(),
            1
        );
        assert_eq!(find(&database, "people", rawdoc! { "nick": "b" }).len(), 1);
        let report = database
            .insert("people", vec![rawdoc! { "name": "Ada" }])
            .unwrap();
        assert!(report.failures[0].error.is_duplicate_key());
        // The entries do not tell that the age is a double, so the index covers nothing.
        let explain = database.explain("people", &query).unwrap();
        assert_eq!(
            (explain.stage, explain.covered),
            (ExplainStage::IndexScan, false)
        );
        let ages: Vec<_> = database
            .find("people", &query)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(ages, [rawdoc! { "age": 36.0 }]);
    }
    // A rebuilt index covers the query.
    let database = Database::open(&path).unwrap();
    let index = database.list_indexes("people").unwrap().remove(2);
    database.drop_index("people", &index.name).unwrap();
    database.create_indexes("people", &[index]).unwrap();
    drop(database);
    let database = Database::open(&path).unwrap();
    assert!(database.explain("people", &query).unwrap().covered);
    let ages: Vec<_> = database
        .find("people", &query)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(ages, [rawdoc! { "age": 36.0 }]);
}

#[test]
fn a_file_of_version_2_opens_without_checksums() {
    goes_on(VERSION_2, WATCH_OF_VERSION_2);
}

#[test]
fn a_file_of_version_3_opens_without_page_checksums() {
    goes_on(VERSION_3, WATCH_OF_VERSION_3);
    // The values of a version 3 file still have checksums.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("old.odm");
    let damaged = VERSION_3.lines().map(|line| match line.starts_with("02") {
        true => line.replace("416461", "416462"),
        false => line.to_owned(),
    });
    write(&path, &damaged.collect::<Vec<_>>().join("\n"));
    let database = Database::open(&path).unwrap();
    assert!(database.validate().unwrap_err().is_damaged());
}

/// A file of version 4 has the keys of version 3 and page checksums.
#[test]
fn a_file_of_version_4_opens_without_a_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("old.odm");
    let entries = VERSION_3.replace("00666f726d6174 00000003", "00666f726d6174 00000004");
    assert_ne!(entries, VERSION_3);
    File::create(&path).unwrap();
    write_to(&opened_by_redb(&path), &entries);
    goes_on_in(&path, WATCH_OF_VERSION_3);
    // The file has no room for a log.
    assert!(std::fs::metadata(&path).unwrap().len() < 4 << 20);
}

fn goes_on(version: &str, watched: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("old.odm");
    write(&path, version);
    goes_on_in(&path, watched);
}

fn goes_on_in(path: &Path, watched: &str) {
    let stored = |_| {
        let database = Database::open(path).unwrap();
        database.validate().unwrap();
        let query = Find {
            filter: rawdoc! { "age": { "$gt": 10 } },
            projection: Some(rawdoc! { "age": 1, "_id": 0 }),
            ..Find::default()
        };
        assert!(database.explain("people", &query).unwrap().covered);
        let ages = database.find("people", &query).unwrap().map(Result::unwrap);
        assert_eq!(
            ages.collect::<Vec<_>>(),
            [rawdoc! { "age": 36.0 }, rawdoc! { "age": 30_i64 }]
        );
        assert_eq!(
            find(&database, "people", rawdoc! { "tags": "poetry" }).len(),
            1
        );
        let watch = Watch {
            from: WatchFrom::After(rawdoc! { "_data": watched }),
            ..Watch::default()
        };
        let mut changes = database.watch(&watch).unwrap();
        let events = std::iter::from_fn(|| changes.try_next().unwrap());
        let operations: Vec<_> = events
            .map(|event| event.get_str("operationType").unwrap().to_owned())
            .collect();
        let deleted = rawdoc! { "name": "Alan", "age": 5 };
        database
            .insert("people", vec![deleted])
            .unwrap()
            .into_result()
            .unwrap();
        let delete = Delete {
            filter: rawdoc! { "name": "Alan" },
            ..Delete::default()
        };
        assert_eq!(database.delete("people", &delete).unwrap().deleted, 1);
        operations
    };
    let operations: Vec<_> = (0..2).map(stored).collect();
    let before = ["insert", "insert", "insert", "update", "delete"];
    assert_eq!(operations[0], before);
    assert_eq!(operations[1], [&before[..], &["insert", "delete"]].concat());
    // Extra bytes at the end of the file do no harm here either.
    let mut padded = std::fs::read(path).unwrap();
    padded.extend_from_slice(&[7; 5000]);
    std::fs::write(path, padded).unwrap();
    Database::open(path).unwrap().validate().unwrap();
}

/// The creation of the file began with an older engine, which died before its first commit.
#[test]
fn an_empty_file_of_an_older_layout_is_a_new_file() {
    let directory = tempfile::tempdir().unwrap();
    for is_plain in [true, false] {
        let path = directory.path().join(format!("{is_plain}.odm"));
        if is_plain {
            redb::Database::create(&path).unwrap();
        } else {
            File::create(&path).unwrap();
            opened_by_redb(&path);
        }
        for id in 0..3 {
            let database = Database::open(&path).unwrap();
            let inserted = database.insert("c", vec![rawdoc! { "_id": id }]).unwrap();
            inserted.into_result().unwrap();
            database.validate().unwrap();
        }
        assert_eq!(
            find(&Database::open(&path).unwrap(), "c", rawdoc! {}).len(),
            3
        );
    }
}

/// A newer engine may give the log another meaning.
#[test]
fn a_refused_file_is_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new.odm");
    let database = Database::open(&path).unwrap();
    let insert = |id: i32| {
        let inserted = database.insert("c", vec![rawdoc! { "_id": id }]).unwrap();
        inserted.into_result().unwrap();
    };
    insert(1);
    insert(2);
    // The file as after a crash, with records in the log.
    let copy = directory.path().join("copy.odm");
    std::fs::copy(&path, &copy).unwrap();
    let read_table = |change: &dyn Fn(&redb::Database)| -> Vec<(Vec<u8>, Vec<u8>)> {
        let file = opened_by_redb(&copy);
        change(&file);
        let table = file.begin_read().unwrap().open_table(TABLE).unwrap();
        let entries = table.iter().unwrap().map(Result::unwrap);
        entries
            .map(|(key, value)| (key.value().to_vec(), value.value().to_vec()))
            .collect()
    };
    let before = read_table(&|file| {
        let write = file.begin_write().unwrap();
        let mut table = write.open_table(TABLE).unwrap();
        let version = 6_u32.to_be_bytes();
        table
            .insert(b"\0format".as_slice(), version.as_slice())
            .unwrap();
        drop(table);
        write.commit().unwrap();
    });
    assert!(Database::open(&copy).unwrap_err().is_newer_format());
    assert_eq!(read_table(&|_| {}), before);
}

#[test]
fn a_file_of_a_newer_version_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new.odm");
    write(&path, "00666f726d6174 00000006");
    let rejection = Database::open(&path).unwrap_err();
    assert!(rejection.is_newer_format());
    assert!(rejection.message().contains("upgrade"), "{rejection}");
}
