//! The compaction of a file: closed, or open with readers and writers.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bson::{RawDocumentBuf, rawdoc};
use odm_engine::{
    Count, Database, Delete, Direction, Durability, ErrorKind, Find, Index, Interrupt, Update,
    Watch, run_briefly,
};
use redb::backends::FileBackend;

use crate::durability::CHILD;
use crate::format::file_of_version;
use crate::{all, opened_by_redb};

/// Returns a document of about 1 KB.
fn document(id: i32) -> RawDocumentBuf {
    rawdoc! { "_id": id, "n": id % 7, "text": format!("{id} {}", "x".repeat(1_000)) }
}

fn insert(database: &Database, ids: std::ops::Range<i32>) {
    let inserted = database.insert("c", ids.map(document).collect()).unwrap();
    inserted.into_result().unwrap();
}

fn create(path: &Path, documents: i32) -> Database {
    let database = Database::open(path).unwrap();
    let indexes = [
        Index::new([("n", Direction::Ascending)]),
        Index::new([("text", Direction::Ascending)]).unique(),
    ];
    database.create_indexes("c", &indexes).unwrap();
    for start in (0..documents).step_by(1_000) {
        insert(&database, start..(start + 1_000).min(documents));
    }
    database
}

/// Checks that the file has few free pages besides the write-ahead log and the pages of checksums.
fn assert_no_gaps(path: &Path) {
    let length = path.metadata().unwrap().len();
    let file = opened_by_redb(path);
    let stats = file.begin_write().unwrap().stats().unwrap();
    let used = (4 << 20) + stats.allocated_pages() * 4096;
    assert!(length <= used + used / 20, "{length} bytes, {used} used");
}

#[test]
fn the_space_of_deleted_documents_is_given_back() {
    let directory = tempfile::tempdir().unwrap();
    let [path, small] = ["data.odm", "small.odm"].map(|name| directory.path().join(name));
    create(&small, 1_000).close();
    Database::compact_file(&small).unwrap();

    let database = create(&path, 20_000);
    database.close();
    let full = path.metadata().unwrap().len();
    let database = Database::open(&path).unwrap();
    let delete = Delete {
        filter: rawdoc! { "_id": { "$gte": 1_000 } },
        multi: true,
        ..Delete::default()
    };
    assert_eq!(database.delete("c", &delete).unwrap().deleted, 19_000);
    database.close();

    let report = Database::compact_file(&path).unwrap();
    assert!(report.bytes_before > full / 2, "{report:?}");
    assert_eq!(report.bytes_after, path.metadata().unwrap().len());
    let (needed, deleted) = (
        small.metadata().unwrap().len(),
        full - small.metadata().unwrap().len(),
    );
    assert!(
        report.bytes_after <= needed + deleted / 20,
        "{report:?}, {needed}"
    );

    assert_no_gaps(&path);
    let database = Database::open(&path).unwrap();
    database.validate().unwrap();
    assert_eq!(
        all(&database, "c"),
        (0..1_000).map(document).collect::<Vec<_>>()
    );
    assert_eq!(database.list_indexes("c").unwrap().len(), 3);
    insert(&database, 1_000..2_000);
    drop(database);
    let database = Database::open(&path).unwrap();
    database.validate().unwrap();
    assert_eq!(all(&database, "c").len(), 2_000);
    assert_eq!(
        fs::read_dir(directory.path()).unwrap().count(),
        2,
        "no other file is left"
    );
}

/// A copy of an open file is the file after a crash.
#[test]
fn the_log_of_a_crashed_process_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let [path, crashed] = ["data.odm", "crashed.odm"].map(|name| directory.path().join(name));
    let database = create(&path, 10);
    insert(&database, 10..20);
    assert!(database.stats().unwrap().log_bytes.unwrap() > 0);
    fs::copy(&path, &crashed).unwrap();
    // An earlier compaction has died, too.
    fs::copy(&path, directory.path().join("crashed.odm.unfinished")).unwrap();
    Database::compact_file(&crashed).unwrap();
    let compacted = Database::open(&crashed).unwrap();
    compacted.validate().unwrap();
    assert_eq!(all(&compacted, "c").len(), 20);
    assert!(!directory.path().join("crashed.odm.unfinished").exists());
}

#[test]
fn a_file_in_use_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let kind = || Database::compact_file(&path).unwrap_err().kind();
    assert_eq!(kind(), ErrorKind::Io);
    assert!(!path.exists());
    let database = create(&path, 10);
    assert_eq!(kind(), ErrorKind::InUse);
    assert_eq!(
        run_briefly(Duration::from_secs(1), kind),
        ErrorKind::WouldBlock
    );
    insert(&database, 10..20);
    database.close();
    let database = Database::open_read_only(&path).unwrap();
    assert_eq!(kind(), ErrorKind::InUse);
    assert_eq!(all(&database, "c").len(), 20);
}

/// A compaction replaces the file between the open and the lock of a writer. The writer must not write to the replaced file.
#[cfg(unix)]
#[test]
fn writers_between_compactions_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    create(&path, 1).close();
    let is_over = AtomicBool::new(false);
    let (acknowledged, compactions) = thread::scope(|scope| {
        let writers: Vec<_> = (1..=2)
            .map(|writer| {
                let (path, is_over) = (&path, &is_over);
                scope.spawn(move || {
                    let mut acknowledged = Vec::new();
                    while !is_over.load(Ordering::Relaxed) {
                        match Database::open(path) {
                            Ok(database) => {
                                let id =
                                    writer * 100_000 + i32::try_from(acknowledged.len()).unwrap();
                                insert(&database, id..id + 1);
                                acknowledged.push(id);
                                database.close();
                                thread::sleep(Duration::from_millis(1));
                            }
                            Err(error) => assert!(error.is_in_use(), "{error}"),
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        let (start, mut compactions) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_secs(2) || compactions < 10 {
            match Database::compact_file(&path) {
                Ok(_) => compactions += 1,
                Err(error) => assert!(error.is_in_use(), "{error}"),
            }
            // The writers need a chance to open the file.
            thread::sleep(Duration::from_millis(2));
        }
        is_over.store(true, Ordering::Relaxed);
        let acknowledged = writers.into_iter().map(|writer| writer.join().unwrap());
        (acknowledged.flatten().collect::<Vec<_>>(), compactions)
    });
    assert!(acknowledged.len() > 3 && compactions >= 10);
    let database = Database::open(&path).unwrap();
    database.validate().unwrap();
    let stored: BTreeSet<_> = all(&database, "c")
        .iter()
        .map(|document| document.get_i32("_id").unwrap())
        .collect();
    let lost = acknowledged.iter().filter(|id| !stored.contains(id));
    assert_eq!(
        lost.count(),
        0,
        "of {} writes and {compactions} compactions",
        acknowledged.len()
    );
}

#[test]
fn foreign_files_stay() {
    let directory = tempfile::tempdir().unwrap();
    for content in [String::new(), "not a database".repeat(1_000)] {
        let path = directory.path().join("foreign");
        fs::write(&path, &content).unwrap();
        let error = Database::compact_file(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ForeignFile);
        assert!(fs::read_to_string(&path).unwrap() == content);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_compaction_upgrades_the_format() {
    let directory = tempfile::tempdir().unwrap();
    for version in 1..=3 {
        let path = directory.path().join(format!("version {version}"));
        file_of_version(&path, version);
        let before = Database::open_read_only(&path).unwrap();
        let content = |database: &Database| -> Vec<_> {
            let names = database.list_collections().unwrap();
            names.iter().map(|name| all(database, name)).collect()
        };
        let expected = content(&before);
        drop(before);
        Database::compact_file(&path).unwrap();
        let after = Database::open(&path).unwrap();
        after.validate().unwrap();
        assert_eq!(after.stats().unwrap().format_version, 5);
        assert_eq!(content(&after), expected);
    }
}

#[cfg(unix)]
#[test]
fn links_and_permissions_stay() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    let directory = tempfile::tempdir().unwrap();
    let [path, link] = ["data.odm", "link.odm"].map(|name| directory.path().join(name));
    create(&path, 10).close();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    // Only root may change the owner.
    let owner = match std::os::unix::fs::chown(&path, Some(1234), Some(5678)) {
        Ok(()) => (1234, 5678),
        Err(_) => (
            path.metadata().unwrap().uid(),
            path.metadata().unwrap().gid(),
        ),
    };
    Database::compact_file(&link).unwrap();
    let database = Database::open(&link).unwrap();
    database.compact().unwrap();
    database
        .backup(directory.path().join("backup.odm"))
        .unwrap();
    database.close();
    let backup = directory.path().join("backup.odm");
    assert_eq!(
        backup.metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(link.symlink_metadata().unwrap().is_symlink());
    let metadata = path.metadata().unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!((metadata.uid(), metadata.gid()), owner);
    assert_eq!(all(&Database::open(&path).unwrap(), "c").len(), 10);
}

fn delete_most(database: &Database) {
    let delete = Delete {
        filter: rawdoc! { "_id": { "$gte": 100 } },
        multi: true,
        ..Delete::default()
    };
    database.delete("c", &delete).unwrap();
}

/// Cursors, transactions and change streams from before a compaction continue after it.
#[test]
fn an_open_file_is_compacted_under_its_readers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let database = create(&path, 10_000);
    let mut changes = database.watch(&Watch::default()).unwrap();
    let mut cursor = database.find("c", &Find::default()).unwrap();
    let first = cursor.next().unwrap().unwrap();
    let transaction = database.begin().unwrap();
    transaction
        .insert("c", vec![document(19_000)])
        .unwrap()
        .into_result()
        .unwrap();
    delete_most(&database);

    let report = database.compact().unwrap();
    assert!(
        report.bytes_after + (1 << 20) < report.bytes_before,
        "{report:?}"
    );
    assert_eq!(report.bytes_after, path.metadata().unwrap().len());
    assert_eq!(Database::open(&path).unwrap_err().kind(), ErrorKind::InUse);
    // The cursor and the transaction read the old state.
    assert_eq!(first, document(0));
    assert_eq!(cursor.count(), 9_999);
    assert_eq!(transaction.count("c", &Count::default()).unwrap(), 10_001);
    transaction.commit().unwrap();
    insert(&database, 100..101);
    let events = std::iter::from_fn(|| changes.try_next().unwrap());
    assert_eq!(events.count(), 9_900 + 2);
    // A copy of an open file is the file after a crash.
    let crashed = directory.path().join("crashed.odm");
    fs::copy(&path, &crashed).unwrap();
    let again = database.compact().unwrap();
    assert!(
        again.bytes_after <= report.bytes_after + (1 << 20),
        "{again:?}"
    );
    database.close();
    for path in [&path, &crashed] {
        let database = Database::open(path).unwrap();
        database.validate().unwrap();
        let expected = (0..100).chain([19_000, 100]).map(document);
        assert_eq!(all(&database, "c"), expected.collect::<Vec<_>>());
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}

/// Writers, large writes, builds of indexes and drops run beside compactions.
#[test]
fn writes_beside_compactions_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let database = create(&path, 3_000);
    let is_over = AtomicBool::new(false);
    let acknowledged: Vec<i32> = thread::scope(|scope| {
        let writers: Vec<_> = (1..=3)
            .map(|writer| {
                let (database, is_over) = (&database, &is_over);
                scope.spawn(move || {
                    let ids =
                        (writer * 1_000_000..).take_while(|_| !is_over.load(Ordering::Relaxed));
                    ids.inspect(|id| insert(database, *id..id + 1))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        scope.spawn(|| {
            let by_text = Index::new([("text", Direction::Descending)]);
            for round in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                database
                    .create_indexes("c", std::slice::from_ref(&by_text))
                    .unwrap();
                database.drop_index("c", "text_-1").unwrap();
                let large = (0..5_000)
                    .map(|id| rawdoc! { "_id": id, "round": round, "text": "x".repeat(1_000) });
                database
                    .insert("large", large.collect())
                    .unwrap()
                    .into_result()
                    .unwrap();
                database.drop_collection("large").unwrap();
            }
        });
        let start = Instant::now();
        let mut compactions = 0;
        while start.elapsed() < Duration::from_secs(1) || compactions < 5 {
            database.compact().unwrap();
            compactions += 1;
            thread::sleep(Duration::from_millis(10));
        }
        is_over.store(true, Ordering::Relaxed);
        writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap())
            .collect()
    });
    assert!(acknowledged.len() > 3);
    database.validate().unwrap();
    drop(database);
    let database = Database::open(&path).unwrap();
    database.validate().unwrap();
    assert_eq!(all(&database, "c").len(), 3_000 + acknowledged.len());
}

#[test]
fn only_a_writable_file_is_compacted() {
    let kind = |database: &Database| database.compact().unwrap_err().kind();
    assert_eq!(kind(&Database::memory()), ErrorKind::NotSupported);
    let directory = tempfile::tempdir().unwrap();
    let [path, moved] = ["data.odm", "moved.odm"].map(|name| directory.path().join(name));
    create(&path, 10).close();
    let database = Database::open_read_only(&path).unwrap();
    assert_eq!(kind(&database), ErrorKind::ReadOnly);
    database.close();
    assert_eq!(kind(&database), ErrorKind::Closed);
    let database = Database::open(&path).unwrap();
    assert_eq!(
        run_briefly(Duration::from_secs(1), || kind(&database)),
        ErrorKind::WouldBlock
    );
    // Another file has the path now, and must stay.
    fs::rename(&path, &moved).unwrap();
    fs::write(&path, "precious").unwrap();
    #[cfg(unix)]
    assert_eq!(kind(&database), ErrorKind::InUse);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    insert(&database, 10..11);
    database.close();
    assert_eq!(all(&Database::open(&moved).unwrap(), "c").len(), 11);
}

/// Transactions begin, write and abort while the file is copied. Statistics are available too.
#[test]
fn transactions_run_during_a_compaction() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(&directory.path().join("data.odm"), 10_000);
    let is_running = AtomicBool::new(true);
    let transactions = thread::scope(|scope| {
        scope.spawn(|| {
            database.compact().unwrap();
            is_running.store(false, Ordering::Release);
        });
        let mut transactions = 0;
        while is_running.load(Ordering::Acquire) {
            let transaction = database.begin().unwrap();
            let report = transaction.insert("c", vec![document(20_000)]).unwrap();
            report.into_result().unwrap();
            transaction.abort().unwrap();
            database.stats().unwrap();
            transactions += 1;
        }
        transactions
    });
    assert!(transactions > 20, "{transactions}");
    assert_eq!(database.count("c", &Count::default()).unwrap(), 10_000);
}

/// Transactions that write one document wait for the end of a compaction, and have no conflict for each attempt.
#[test]
fn conflicts_wait_for_the_end_of_a_compaction() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(&directory.path().join("data.odm"), 10_000);
    let increment = Update {
        filter: rawdoc! { "_id": 1 },
        update: rawdoc! { "$inc": { "n": 1_000 } },
        ..Update::default()
    };
    let is_running = AtomicBool::new(true);
    let (increments, conflicts) = thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|_| {
                let (database, increment, is_running) = (&database, &increment, &is_running);
                scope.spawn(move || {
                    let (mut increments, mut conflicts) = (0, 0);
                    while is_running.load(Ordering::Acquire) {
                        let transaction = database.begin().unwrap();
                        let updated = transaction.update("c", increment);
                        match updated.and_then(|_| transaction.commit()) {
                            Ok(()) => increments += 1,
                            Err(error) => {
                                assert!(error.is_write_conflict(), "{error}");
                                conflicts += 1;
                                thread::sleep(Duration::from_millis(1));
                            }
                        }
                    }
                    (increments, conflicts)
                })
            })
            .collect();
        for _ in 0..3 {
            database.compact().unwrap();
        }
        is_running.store(false, Ordering::Release);
        let counts = writers.into_iter().map(|writer| writer.join().unwrap());
        counts.fold((0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1))
    });
    let document = &all(&database, "c")[1];
    assert_eq!(document.get_i32("n").unwrap(), 1 + 1_000 * increments);
    // Without the wait, each writer has a conflict per millisecond.
    assert!(
        conflicts < 500,
        "{conflicts} conflicts, {increments} increments"
    );
}

/// The compacted file has the list of its free pages. Without the list, redb reads the whole file after a crash.
#[test]
fn a_compacted_file_needs_no_repair_after_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let [path, crashed] = ["data.odm", "crashed.odm"].map(|name| directory.path().join(name));
    let database = create(&path, 1_000);
    database.compact().unwrap();
    // A copy of an open file is the file after a crash.
    fs::copy(&path, &crashed).unwrap();
    let file = File::options().read(true).write(true).open(&crashed);
    let storage = Database::redb_storage(FileBackend::new(file.unwrap()).unwrap());
    let repaired = redb::Builder::new()
        .set_repair_callback(|_| panic!("redb repairs the file"))
        .create_with_backend(storage);
    drop(repaired.unwrap());
    assert_eq!(all(&Database::open(&crashed).unwrap(), "c").len(), 1_000);
}

/// A cursor keeps the old file open, also when the database is closed.
#[cfg(target_os = "linux")]
#[test]
fn the_old_file_is_closed_with_its_last_reader() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(&directory.path().join("data.odm"), 3_000);
    let open_files = || {
        let files = fs::read_dir("/proc/self/fd").unwrap();
        let targets = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
        targets
            .filter(|target| target.starts_with(directory.path()))
            .count()
    };
    let mut cursors = Vec::new();
    for compactions in 1..=3 {
        let mut cursor = database.find("c", &Find::default()).unwrap();
        cursor.next().unwrap().unwrap();
        cursors.push(cursor);
        database.compact().unwrap();
        assert_eq!(open_files(), compactions + 1);
    }
    drop(cursors.pop());
    assert_eq!(open_files(), 3);
    database.close();
    drop(database);
    for cursor in cursors {
        assert_eq!(cursor.filter(Result::is_ok).count(), 2_999);
    }
    assert_eq!(open_files(), 0);
}

#[test]
fn a_cancelled_compaction_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let database = create(&path, 1_000);
    let before = path.metadata().unwrap();
    let interrupt = Interrupt::new();
    interrupt.cancel();
    let cancelled = interrupt.run(|| database.compact());
    assert_eq!(cancelled.unwrap_err().kind(), ErrorKind::Cancelled);
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap()),
        std::os::unix::fs::MetadataExt::ino(&before)
    );
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    insert(&database, 1_000..1_001);
    database.compact().unwrap();
    assert_eq!(database.count("c", &Count::default()).unwrap(), 1_001);
}

/// Compactions run one after another, and a backup beside a compaction is complete.
#[test]
fn compactions_and_backups_run_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let database = create(&path, 3_000);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..3).for_each(|_| assert!(database.compact().is_ok())));
        }
        for backup in 0..3 {
            let copy = directory.path().join(format!("copy{backup}.odm"));
            database.backup(&copy).unwrap();
            assert_eq!(all(&Database::open(&copy).unwrap(), "c").len(), 3_000);
        }
    });
    database.validate().unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4);
}

/// A child process; see [`a_killed_compaction_loses_no_write`].
#[test]
fn child_compacts_and_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let durability = match std::env::var_os(RELAXED) {
        Some(_) => Durability::Relaxed,
        None => Durability::Full,
    };
    let database = Database::open(path).unwrap().with_durability(durability);
    let first = i32::try_from(database.count("c", &Count::default()).unwrap()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for id in first.. {
                insert(&database, id..id + 1);
                println!("acknowledged {id}");
            }
        });
        scope.spawn(|| {
            loop {
                println!("compacting");
                database.compact().unwrap();
                // The writer needs a chance to lead a commit.
                thread::sleep(Duration::from_millis(5));
            }
        });
    });
}

/// The environment variable that makes the commits of a child process relaxed.
const RELAXED: &str = "ODM_ENGINE_TEST_RELAXED";

#[test]
fn a_killed_compaction_loses_no_write() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    create(&path, 1_000).close();
    for round in 0..12_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "compaction::child_compacts_and_is_killed"])
            .arg("--nocapture")
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if round % 2 == 1 {
            child.env(RELAXED, "1");
        }
        let mut child = child.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut last = None;
        let mut acknowledge = |line: &str| {
            if let Some((_, id)) = line.split_once("acknowledged ") {
                last = id.parse::<i32>().ok();
            }
        };
        // The kill comes at different points of the third compaction.
        let mut compactions = 0;
        while compactions < 3 {
            let line = lines.next().unwrap().unwrap();
            compactions += usize::from(line.contains("compacting"));
            acknowledge(&line);
        }
        thread::sleep(Duration::from_millis(7 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        lines
            .map_while(Result::ok)
            .for_each(|line| acknowledge(&line));

        let database = Database::open(&path).unwrap();
        database.validate().unwrap();
        let stored = database.count("c", &Count::default()).unwrap();
        assert!(last.is_some_and(|last| stored > u64::try_from(last).unwrap()));
    }
    let files = fs::read_dir(directory.path()).unwrap().count();
    assert!(files <= 2, "{files}");
    let database = Database::open(&path).unwrap();
    database.compact().unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}
