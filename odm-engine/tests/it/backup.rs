//! Backups: a copy of one state, while the database is written.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use bson::{RawDocumentBuf, rawdoc};
use odm_engine::{Database, Delete, Direction, ErrorKind, Index, Interrupt, Watch, WatchFrom};
use redb::ReadableTable;

use crate::{TABLE, all, find, opened_by_redb};

fn insert(database: &Database, collection: &str, documents: Vec<RawDocumentBuf>) {
    let inserted = database.insert(collection, documents).unwrap();
    inserted.into_result().unwrap();
}

/// Returns a document of about 300 bytes.
fn document(id: i32) -> RawDocumentBuf {
    rawdoc! { "_id": id, "n": id % 7, "tags": [id % 3, id % 5], "text": format!("{id} {}", "x".repeat(200)) }
}

fn create_indexes(database: &Database) {
    let indexes = [
        Index::new([("n", Direction::Ascending)]),
        Index::new([("tags", Direction::Descending)]),
        Index::new([("text", Direction::Ascending)]).unique(),
    ];
    database.create_indexes("c", &indexes).unwrap();
}

#[test]
fn a_backup_has_the_content_of_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let on_disk = Database::open(path("original")).unwrap();
    for (database, name) in [(on_disk, "of disk"), (Database::memory(), "of memory")] {
        create_indexes(&database);
        let start = database.watch(&Watch::default()).unwrap().resume_token();
        insert(&database, "c", (0..500).map(document).collect());
        insert(&database, "d", vec![document(1)]);
        database.backup(path(name)).unwrap();
        insert(&database, "c", vec![document(1_000)]);

        let copy = Database::open(path(name)).unwrap();
        copy.validate().unwrap();
        assert_eq!(all(&copy, "c"), (0..500).map(document).collect::<Vec<_>>());
        assert_eq!(all(&copy, "d"), [document(1)]);
        assert_eq!(
            copy.list_indexes("c").unwrap(),
            database.list_indexes("c").unwrap()
        );
        assert_eq!(find(&copy, "c", rawdoc! { "tags": 4 }).len(), 100);
        // A stream continues on the copy.
        let watch = Watch {
            from: WatchFrom::After(start),
            ..Watch::default()
        };
        let mut changes = copy.watch(&watch).unwrap();
        let events = std::iter::from_fn(|| changes.try_next().unwrap());
        assert_eq!(events.count(), 501);
        // The copy is a database of its own.
        insert(&copy, "c", vec![document(2_000)]);
        drop((copy, changes));
        let copy = Database::open(path(name)).unwrap();
        copy.validate().unwrap();
        assert_eq!(all(&copy, "c").len(), 501);
        assert_eq!(all(&database, "c").len(), 501);
    }
}

/// Each transaction moves an amount between two accounts, so every state has the same sum.
#[test]
fn a_backup_during_writes_is_one_state() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path().join("original")).unwrap();
    create_indexes(&database);
    insert(&database, "c", (0..2_000).map(document).collect());
    let accounts = (0..10).map(|id| rawdoc! { "_id": id, "amount": 100 });
    insert(&database, "accounts", accounts.collect());
    let is_over = AtomicBool::new(false);
    let moved = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut moved = 0;
            while !is_over.load(Ordering::Relaxed) {
                let transaction = database.begin().unwrap();
                for (account, amount) in [(moved % 10, -1), ((moved + 3) % 10, 1)] {
                    let update = odm_engine::Update {
                        filter: rawdoc! { "_id": account },
                        update: rawdoc! { "$inc": { "amount": amount } },
                        ..odm_engine::Update::default()
                    };
                    let updated = transaction.update("accounts", &update).unwrap();
                    assert_eq!(updated.modified, 1);
                }
                transaction.commit().unwrap();
                moved += 1;
            }
            moved
        });
        for name in ["first", "second", "third"] {
            let path = directory.path().join(name);
            database.backup(&path).unwrap();
            let copy = Database::open(&path).unwrap();
            copy.validate().unwrap();
            let accounts = all(&copy, "accounts");
            let amounts = accounts
                .iter()
                .map(|account| account.get_i32("amount").unwrap());
            assert_eq!(
                (accounts.len(), amounts.sum::<i32>()),
                (10, 1_000),
                "{name}"
            );
            assert_eq!(all(&copy, "c").len(), 2_000);
        }
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    assert!(moved > 3, "{moved}");
}

#[test]
fn a_backup_overwrites_nothing_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("copy");
    let database = Database::memory();
    insert(&database, "c", vec![document(1)]);
    fs::write(&path, "a document of the user").unwrap();
    let error = database.backup(&path).unwrap_err();
    assert!(
        error.is_io() && error.message().contains("exists"),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), b"a document of the user");

    let missing = directory.path().join("missing").join("copy");
    assert!(database.backup(missing).unwrap_err().is_io());

    fs::remove_file(&path).unwrap();
    let interrupt = Interrupt::new();
    interrupt.cancel();
    let cancelled = interrupt.run(|| database.backup(&path));
    assert_eq!(cancelled.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);

    database.close();
    assert!(database.backup(&path).unwrap_err().is_closed());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Two backups to the same path: one of them writes the file, and the other one finds the file.
#[test]
fn concurrent_backups_write_the_file_once() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::memory();
    insert(&database, "c", (0..2_000).map(document).collect());
    for round in 0..5 {
        let path = directory.path().join(format!("copy{round}"));
        let outcomes = std::thread::scope(|scope| {
            let backups: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| database.backup(&path)))
                .collect();
            let outcomes = backups.into_iter().map(|backup| backup.join().unwrap());
            outcomes.collect::<Vec<_>>()
        });
        let errors: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
        assert_eq!(errors.len(), 3);
        for error in errors {
            assert!(
                error.is_io() && error.message().contains("exists"),
                "{error}"
            );
        }
        let copy = Database::open(&path).unwrap();
        copy.validate().unwrap();
        assert_eq!(all(&copy, "c").len(), 2_000);
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 5);
}

/// Backups of different databases to the same path, as of different processes: the file is one of them, and complete.
#[test]
fn backups_of_different_databases_do_not_mix() {
    let directory = tempfile::tempdir().unwrap();
    let databases: Vec<_> = (0..4)
        .map(|number| {
            let database = Database::memory();
            let ids = (0..500).map(|id| document(number * 10_000 + id));
            insert(&database, "c", ids.collect());
            database
        })
        .collect();
    for round in 0..10 {
        let path = directory.path().join(format!("copy{round}"));
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let backups: Vec<_> = databases
                .iter()
                .map(|database| scope.spawn(|| database.backup(&path)))
                .collect();
            let outcomes = backups.into_iter().map(|backup| backup.join().unwrap());
            outcomes.collect()
        });
        let done: Vec<_> = outcomes
            .iter()
            .enumerate()
            .filter(|(_, outcome)| outcome.is_ok())
            .collect();
        assert_eq!(done.len(), 1, "{outcomes:?}");
        let copy = Database::open(&path).unwrap();
        copy.validate().unwrap();
        assert_eq!(all(&copy, "c"), all(&databases[done[0].0], "c"));
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 10);
}

/// The process died during a backup, and left any part of the copy behind.
#[test]
fn an_unfinished_backup_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("copy");
    let unfinished = directory.path().join("copy.unfinished");
    let database = Database::memory();
    insert(&database, "c", (0..100).map(document).collect());
    let old = Database::memory();
    insert(&old, "c", (500..600).map(document).collect());
    old.backup(directory.path().join("old")).unwrap();
    let old = fs::read(directory.path().join("old")).unwrap();
    for length in [0, 300, 5_000, old.len() / 2, old.len()] {
        fs::write(&unfinished, &old[..length]).unwrap();
        database.backup(&path).unwrap();
        assert!(!unfinished.exists());
        let copy = Database::open(&path).unwrap();
        copy.validate().unwrap();
        assert_eq!(all(&copy, "c").len(), 100, "{length}");
        drop(copy);
        fs::remove_file(&path).unwrap();
    }
    fs::write(&unfinished, "a document of the user").unwrap();
    assert!(database.backup(&path).unwrap_err().is_foreign_file());
    assert_eq!(fs::read(&unfinished).unwrap(), b"a document of the user");
    fs::remove_file(&unfinished).unwrap();
    // A backup that is still running keeps its file.
    let running = Database::open(&unfinished).unwrap();
    assert_eq!(database.backup(&path).unwrap_err().kind(), ErrorKind::InUse);
    running.validate().unwrap();
    assert!(unfinished.exists());
}

#[cfg(unix)]
#[test]
fn a_backup_has_the_permissions_of_the_file() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mode = |name: &str| path(name).metadata().unwrap().permissions().mode() & 0o777;
    drop(Database::open(path("original")).unwrap());
    for expected in [0o600, 0o640, 0o644] {
        fs::set_permissions(path("original"), fs::Permissions::from_mode(expected)).unwrap();
        let database = Database::open(path("original")).unwrap();
        database.backup(path("copy")).unwrap();
        assert_eq!(mode("copy"), expected);
        fs::remove_file(path("copy")).unwrap();
    }
    Database::memory().backup(path("copy")).unwrap();
    assert_eq!(mode("copy"), 0o600);
}

/// The name of the unfinished copy can be a link to a file that does not exist, in a directory that others can write.
#[cfg(unix)]
#[test]
fn a_backup_follows_no_link() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::os::unix::fs::symlink(path("target"), path("copy.unfinished")).unwrap();
    let error = Database::memory().backup(path("copy")).unwrap_err();
    assert!(
        error.is_foreign_file() && error.message().contains("link"),
        "{error}"
    );
    assert!(!path("target").exists() && !path("copy").exists());
    assert!(path("copy.unfinished").is_symlink());
}

/// A copy has the records of the log, and no place for deleted documents.
#[test]
fn a_backup_is_compact() {
    let directory = tempfile::tempdir().unwrap();
    let (original, path) = (
        directory.path().join("original"),
        directory.path().join("copy"),
    );
    let database = Database::open(&original).unwrap();
    create_indexes(&database);
    for start in (0..40_000).step_by(1_000) {
        insert(
            &database,
            "c",
            (start..start + 1_000).map(document).collect(),
        );
    }
    let most = Delete {
        filter: rawdoc! { "_id": { "$gte": 100 } },
        multi: true,
        ..Delete::default()
    };
    assert_eq!(database.delete("c", &most).unwrap().deleted, 39_900);
    insert(&database, "c", vec![document(100)]);
    database.backup(&path).unwrap();
    let length = |path| fs::metadata(path).unwrap().len();
    assert!(
        length(&path) * 3 < length(&original),
        "{} {}",
        length(&path),
        length(&original)
    );
    assert_eq!(all(&Database::open(&path).unwrap(), "c").len(), 101);
}

/// A damaged original is an error, and not a damaged copy.
#[test]
fn a_damaged_original_has_no_backup() {
    let directory = tempfile::tempdir().unwrap();
    let (original, path) = (
        directory.path().join("original"),
        directory.path().join("copy"),
    );
    let database = Database::open(&original).unwrap();
    insert(&database, "c", (0..10).map(document).collect());
    drop(database);
    let file = opened_by_redb(&original);
    let write = file.begin_write().unwrap();
    let mut table = write.open_table(TABLE).unwrap();
    // The document of record 5.
    let key = [&[2, 0, 0, 0, 0][..], &5_u64.to_be_bytes()].concat();
    let mut value = table.get(key.as_slice()).unwrap().unwrap().value().to_vec();
    value[50] ^= 1;
    table.insert(key.as_slice(), value.as_slice()).unwrap();
    drop(table);
    write.commit().unwrap();
    drop(file);
    let database = Database::open(&original).unwrap();
    let error = database.backup(&path).unwrap_err();
    assert!(error.is_damaged(), "{error}");
    let names = fs::read_dir(directory.path()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["original"]);
}
