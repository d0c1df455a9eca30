//! A database that was opened only for reads.

use std::fs;
use std::path::Path;
use std::time::Duration;

use bson::{RawDocumentBuf, rawdoc};
use odm_engine::{
    ChangeLogLimits, Count, Database, Delete, Direction, Durability, ErrorKind, Index, Update,
    Watch,
};

use crate::all;
use crate::format::file_of_version;

fn document(id: i32) -> RawDocumentBuf {
    rawdoc! { "_id": id, "n": id % 7, "text": "x".repeat(100) }
}

fn insert(database: &Database, ids: std::ops::Range<i32>) {
    let inserted = database.insert("c", ids.map(document).collect()).unwrap();
    inserted.into_result().unwrap();
}

fn create(path: &Path) -> Database {
    let database = Database::open(path).unwrap();
    let expiring = Index::new([("at", Direction::Ascending)]).expire_after(Duration::ZERO);
    let indexes = [Index::new([("n", Direction::Ascending)]), expiring];
    database.create_indexes("c", &indexes).unwrap();
    insert(&database, 0..1_000);
    database
}

fn documents_of_c(database: &Database) -> u64 {
    let stats = database.stats().unwrap();
    let c = stats.collections.iter().find(|stats| stats.name == "c");
    c.unwrap().documents
}

/// Reads the whole database at `path`, and checks that the file is the same afterwards.
fn read_unchanged(path: &Path, documents: i32) {
    let before = fs::read(path).unwrap();
    let database = Database::open_read_only(path).unwrap();
    database.set_expiry_period(Duration::from_millis(1));
    database.validate().unwrap();
    assert_eq!(
        all(&database, "c"),
        (0..documents).map(document).collect::<Vec<_>>()
    );
    assert_eq!(documents_of_c(&database), u64::try_from(documents).unwrap());
    let transaction = database.begin().unwrap();
    let count = transaction.count("c", &Count::default()).unwrap();
    assert_eq!(count, u64::try_from(documents).unwrap());
    transaction.commit().unwrap();
    database.close();
    assert!(
        database
            .count("c", &Count::default())
            .unwrap_err()
            .is_closed()
    );
    drop(database);
    assert!(fs::read(path).unwrap() == before, "the file has changed");
}

#[test]
fn reads_leave_the_file_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    create(&path).close();
    read_unchanged(&path, 1_000);
    read_unchanged(&path, 1_000);
    let database = Database::open(&path).unwrap();
    insert(&database, 1_000..1_001);
    database.validate().unwrap();
}

/// A copy of an open file is the file after a crash: redb needs a recovery, and the log has records.
#[test]
fn the_log_is_read_after_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let (path, crashed) = (
        directory.path().join("data.odm"),
        directory.path().join("crashed"),
    );
    let database = create(&path);
    insert(&database, 1_000..1_010);
    assert!(database.stats().unwrap().log_bytes.unwrap() > 0);
    fs::copy(&path, &crashed).unwrap();
    read_unchanged(&crashed, 1_010);
    let recovered = Database::open(&crashed).unwrap();
    assert_eq!(all(&recovered, "c").len(), 1_010);
}

/// A copy of an open file after each write: with records, after checkpoints, and in the middle of relaxed writes.
#[test]
fn every_state_of_a_file_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let [path, crashed] = ["data.odm", "crashed.odm"].map(|name| directory.path().join(name));
    let mut database = create(&path);
    let content = |database: &Database| {
        let names = database.list_collections().unwrap();
        let documents: Vec<_> = names.iter().map(|name| all(database, name)).collect();
        (names, documents, database.list_indexes("c").unwrap())
    };
    for round in 0..40 {
        match round % 8 {
            0 => database.create_collection(&format!("c{round}")).unwrap(),
            1 => insert(
                &database,
                1_000 + round * 1_000..1_000 + round * 1_000 + 900,
            ),
            2 => {
                let index = Index::new([(format!("f{round}"), Direction::Ascending)]);
                database.create_indexes("c", &[index]).unwrap();
            }
            3 => database = database.with_durability(Durability::Relaxed),
            4 => database.sync().unwrap(),
            5 => database = database.with_durability(Durability::Full),
            6 => {
                let delete = Delete {
                    filter: rawdoc! { "n": round % 7 },
                    multi: true,
                    ..Delete::default()
                };
                database.delete("c", &delete).unwrap();
            }
            _ => insert(&database, -round..-round + 1),
        }
        fs::copy(&path, &crashed).unwrap();
        let before = fs::read(&crashed).unwrap();
        let copy = Database::open_read_only(&crashed).unwrap();
        copy.validate().unwrap();
        assert_eq!(content(&copy), content(&database), "round {round}");
        copy.close();
        assert!(fs::read(&crashed).unwrap() == before, "round {round}");
    }
}

/// A file without a log needs a repair by redb after a crash. The repair happens in memory.
#[test]
fn a_file_is_repaired_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    for version in 2..=3 {
        let path = directory.path().join(format!("version {version}"));
        let crashed = directory.path().join(format!("crashed {version}"));
        file_of_version(&path, version);
        let database = Database::open(&path).unwrap();
        insert(&database, 0..1_000);
        fs::copy(&path, &crashed).unwrap();
        read_unchanged(&crashed, 1_000);
    }
}

#[test]
fn a_file_of_an_older_format_stays_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    for version in 1..=3 {
        let path = directory.path().join(format!("version {version}"));
        file_of_version(&path, version);
        let before = fs::read(&path).unwrap();
        let database = Database::open_read_only(&path).unwrap();
        database.validate().unwrap();
        assert_eq!(database.stats().unwrap().format_version, version);
        for collection in database.list_collections().unwrap() {
            all(&database, &collection);
        }
        drop(database);
        assert!(fs::read(&path).unwrap() == before, "version {version}");
    }
}

#[test]
fn writes_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    create(&path).close();
    let before = fs::read(&path).unwrap();
    let database = Database::open_read_only(&path).unwrap();
    let index = Index::new([("n", Direction::Ascending)]);
    let update = Update {
        update: rawdoc! { "$set": { "n": 1 } },
        ..Update::default()
    };
    let transaction = database.begin().unwrap();
    let in_transaction = transaction.delete("c", &Delete::default());
    let errors = [
        database.insert("c", vec![document(2_000)]).map(drop),
        database.insert_unordered("d", vec![]).map(drop),
        database.update("c", &update).map(drop),
        database.delete("c", &Delete::default()).map(drop),
        database.bulk_write(&[], true).map(drop),
        database.create_collection("d"),
        database.drop_collection("c"),
        database.create_indexes("c", &[index]),
        database.set_index_hidden("c", "n_1", true),
        database.set_index_expiry("c", "n_1", Duration::from_secs(1)),
        database.drop_index("c", "n_1"),
        database.delete_expired().map(drop),
        database.set_change_log(Some(ChangeLogLimits::default())),
        database.watch(&Watch::default()).map(drop),
        in_transaction.map(drop),
    ];
    for (position, written) in errors.into_iter().enumerate() {
        let error = written.expect_err(&format!("the write {position} succeeded"));
        assert!(error.is_read_only(), "{position}: {error}");
        assert!(error.message().contains("opened only for reads"), "{error}");
    }
    assert_eq!(all(&database, "c").len(), 1_000);
    database.sync().unwrap();
    database.reopen().unwrap();
    database.backup(directory.path().join("copy")).unwrap();
    drop((transaction, database));
    assert!(fs::read(&path).unwrap() == before);
    let copy = Database::open(directory.path().join("copy")).unwrap();
    assert_eq!(all(&copy, "c").len(), 1_000);
}

#[test]
fn readers_share_the_file_and_exclude_a_writer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let writer = create(&path);
    let error = Database::open_read_only(&path).unwrap_err();
    assert!(error.is_in_use());
    assert!(error.message().contains("backup"), "{error}");
    writer.close();
    let first = Database::open_read_only(&path).unwrap();
    let second = Database::open_read_only(&path).unwrap();
    assert!(Database::open(&path).unwrap_err().is_in_use());
    drop(first);
    assert!(Database::open(&path).unwrap_err().is_in_use());
    assert_eq!(all(&second, "c").len(), 1_000);
    drop(second);
    insert(&Database::open(&path).unwrap(), 1_000..1_001);
}

#[test]
fn no_file_is_created() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let kind = |name: &str| Database::open_read_only(path(name)).unwrap_err().kind();
    assert_eq!(kind("missing"), ErrorKind::Io);
    assert!(!path("missing").exists());
    fs::write(path("empty"), "").unwrap();
    assert_eq!(kind("empty"), ErrorKind::ForeignFile);
    fs::write(path("text"), "not a database".repeat(1_000)).unwrap();
    assert_eq!(kind("text"), ErrorKind::ForeignFile);
    assert_eq!(path("empty").metadata().unwrap().len(), 0);
}

#[cfg(unix)]
#[test]
fn a_file_without_the_permission_to_write_is_read() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    create(&path).close();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    read_unchanged(&path, 1_000);
}
