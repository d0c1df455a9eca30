//! The write-ahead log: commits since the last checkpoint survive a crash, and nothing else is taken for a commit.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use bson::{RawDocumentBuf, rawdoc};
use odm_engine::{
    Count, Database, Delete, Direction, Durability, Error, Index, Update, run_briefly,
};

use crate::all;
use crate::faults::disk::Disk;

/// The position of the log in the file: after the page with the header.
const LOG_START: usize = 4096;

const LOG_BYTES: u64 = 64 << 10;

fn document(id: i32) -> RawDocumentBuf {
    rawdoc! { "_id": id, "n": id % 3, "text": "x".repeat(100) }
}

fn insert(database: &Database, id: i32) {
    let inserted = database.insert("c", vec![document(id)]).unwrap();
    inserted.into_result().unwrap();
}

/// Returns a disk with an open database whose log has one record for each document.
fn disk_with_records(documents: i32) -> (Disk, Database) {
    let disk = Disk::new(Vec::new());
    let database = Database::open_storage_with_log(disk.clone(), LOG_BYTES).unwrap();
    let index = Index::new([("n", Direction::Ascending)]);
    database.create_indexes("c", &[index]).unwrap();
    for id in 0..documents {
        insert(&database, id);
    }
    (disk, database)
}

/// Opens a copy of a disk, as after a crash.
fn open(content: Vec<u8>) -> Result<Database, Error> {
    let database = Database::open_storage(Disk::new(content))?;
    database.validate()?;
    Ok(database)
}

#[test]
fn commits_survive_a_crash() {
    let (mut disk, mut database) = disk_with_records(3);
    for id in 3..10 {
        // The next process goes on in the same log.
        disk = Disk::new(disk.content());
        database = Database::open_storage(disk.clone()).unwrap();
        database.validate().unwrap();
        assert_eq!(
            all(&database, "c"),
            (0..id).map(document).collect::<Vec<_>>()
        );
        // The first commit of a process also allocates the log and the reserve.
        insert(&database, id);
        insert(&database, 100);
        let before = disk.operations();
        let delete = Delete {
            filter: rawdoc! { "_id": 100 },
            ..Delete::default()
        };
        database.delete("c", &delete).unwrap();
        assert_eq!(disk.operations() - before, 2, "a write and a sync");
    }
    assert_eq!(all(&database, "c").len(), 10);
}

/// A damaged record in the middle is an error. A damaged last record cannot be told from a record that a crash interrupted.
#[test]
fn a_damaged_record_is_found() {
    let (disk, database) = disk_with_records(2);
    let before_last = disk.content();
    insert(&database, 2);
    let content = disk.content();
    let differs = |at: &usize| before_last.get(*at) != content.get(*at);
    let last_record = (LOG_START..content.len()).find(differs).unwrap();
    let log_end = LOG_START + usize::try_from(LOG_BYTES).unwrap();
    let end = (LOG_START..log_end).rfind(|at| content[*at] != 0).unwrap();
    assert!(last_record > LOG_START + 200 && end > last_record + 100);
    let (mut errors, mut losses) = (0, 0);
    for at in LOG_START..=end {
        let mut damaged = content.clone();
        damaged[at] ^= 0x40;
        match open(damaged) {
            Err(error) => {
                assert!(error.is_damaged() && at < last_record, "{at}: {error}");
                errors += 1;
            }
            Ok(database) => {
                assert!(at >= last_record, "{at} of {last_record}");
                assert_eq!(all(&database, "c").len(), 2);
                losses += 1;
            }
        }
    }
    assert!(errors > 200 && losses > 100, "{errors} {losses}");
}

/// After a checkpoint, the records before the checkpoint are still in the file.
#[test]
fn records_before_a_checkpoint_are_ignored() {
    let (disk, database) = disk_with_records(40);
    let new_text = "y".repeat(1_000);
    let update_all = Update {
        update: rawdoc! { "$set": { "text": new_text.as_str() } },
        multi: true,
        ..Update::default()
    };
    // Larger than the largest record, so this commit is a checkpoint.
    assert_eq!(database.update("c", &update_all).unwrap().modified, 40);
    let database = open(disk.content()).unwrap();
    let documents = all(&database, "c");
    assert_eq!(documents.len(), 40);
    for document in documents {
        assert_eq!(document.get_str("text").unwrap(), new_text);
    }
}

#[test]
fn a_closed_database_needs_no_log() {
    let (disk, database) = disk_with_records(5);
    database.close();
    let mut content = disk.content();
    let end = LOG_START + usize::try_from(LOG_BYTES).unwrap();
    assert!(content[LOG_START..end].iter().any(|byte| *byte != 0));
    content[LOG_START..end].fill(0);
    let database = open(content).unwrap();
    assert_eq!(all(&database, "c").len(), 5);
}

/// A document with the bytes of a record, of the generation in use, is a document.
#[test]
fn a_record_inside_of_a_document_is_not_replayed() {
    let (disk, database) = disk_with_records(1);
    let record = disk.content()[LOG_START..LOG_START + 400].to_vec();
    let bytes = bson::Binary {
        subtype: bson::spec::BinarySubtype::Generic,
        bytes: record,
    };
    let stored = rawdoc! { "_id": 1, "bytes": bytes };
    let inserted = database.insert("c", vec![stored.clone()]).unwrap();
    inserted.into_result().unwrap();
    let database = open(disk.content()).unwrap();
    assert_eq!(all(&database, "c"), [document(0), stored]);
}

/// The log is full after some commits, and the next commit is a checkpoint. Both kinds of commits survive a crash.
#[test]
fn a_full_log_becomes_a_checkpoint() {
    let (disk, database) = disk_with_records(0);
    let mut checkpoints = 0;
    for id in 0..500 {
        let before = disk.operations();
        insert(&database, id);
        checkpoints += u32::from(disk.operations() - before > 4);
        if id % 10 == 0 {
            let database = open(disk.content()).unwrap();
            assert_eq!(all(&database, "c").len(), usize::try_from(id + 1).unwrap());
        }
    }
    assert!((2..20).contains(&checkpoints), "{checkpoints}");
}

/// Returns the ids of the documents.
fn ids(database: &Database) -> Vec<i32> {
    let documents = all(database, "c");
    let id = |document: &RawDocumentBuf| document.get_i32("_id").unwrap();
    documents.iter().map(id).collect()
}

/// A power loss loses the last relaxed commits, and never a commit before a kept commit. The lost commits do not come back later.
#[test]
fn a_power_loss_keeps_a_beginning_of_the_relaxed_commits() {
    let mut lost = 0;
    for seed in 0..150 {
        let (disk, database) = disk_with_records(5);
        let database = database.with_durability(Durability::Relaxed);
        disk.lose_power_after(3 + seed % 30, seed);
        let is_stored = |id: &i32| {
            let inserted = database.insert("c", vec![document(*id)]);
            inserted.is_ok_and(|report| report.into_result().is_ok())
        };
        let acknowledged = (5..).take_while(is_stored).count();
        let restarted = disk.restarted();
        let database = Database::open_storage(restarted.clone()).unwrap();
        database.validate().unwrap();
        let mut kept = ids(&database);
        assert!(kept.len() >= 5);
        assert_eq!(kept, (0..).take(kept.len()).collect::<Vec<_>>(), "{seed}");
        lost += (5 + acknowledged).saturating_sub(kept.len());
        insert(&database, 1_000);
        kept.push(1_000);
        for _ in 0..2 {
            let database = open(restarted.content()).unwrap();
            assert_eq!(ids(&database), kept, "{seed}");
        }
    }
    assert!(lost > 100, "{lost}");
}

/// Relaxed commits go on beside a large write. A power loss that keeps the large write keeps each commit that a reader has seen before
/// the large write.
#[test]
fn a_power_loss_keeps_no_large_write_without_earlier_relaxed_commits() {
    let mut kept_large = 0;
    for seed in 0..120 {
        let (disk, database) = disk_with_records(1);
        let database = database.with_durability(Durability::Relaxed);
        let is_over = AtomicBool::new(false);
        let seen_before = std::thread::scope(|scope| {
            scope.spawn(|| {
                let documents = (0..400).map(document).collect();
                // The power loss may come first.
                let _ = database.insert("large", documents);
                is_over.store(true, Ordering::Relaxed);
            });
            let is_large_visible = || database.count("large", &Count::default()).unwrap() > 0;
            let mut seen = 1;
            let mut next = 1;
            while !is_over.load(Ordering::Relaxed) {
                let inserted = database.insert("c", vec![document(next)]);
                if !inserted.is_ok_and(|report| report.into_result().is_ok()) {
                    break;
                }
                next += 1;
                if !is_large_visible() {
                    seen = next;
                }
            }
            seen
        });
        disk.lose_power_after(0, seed);
        let database = Database::open_storage(disk.restarted()).unwrap();
        database.validate().unwrap();
        if database.count("large", &Count::default()).unwrap() > 0 {
            kept_large += 1;
            let kept = ids(&database);
            let is_kept = (0..seen_before).all(|id| kept.contains(&id));
            assert!(is_kept, "{seed}: {seen_before}, {}", kept.len());
        }
    }
    assert!(kept_large > 20, "{kept_large}");
}

#[test]
fn synced_commits_survive_a_power_loss() {
    for seed in 0..20 {
        let (disk, database) = disk_with_records(1);
        let database = database.with_durability(Durability::Relaxed);
        (1..4).for_each(|id| insert(&database, id));
        database.sync().unwrap();
        (4..6).for_each(|id| insert(&database, id));
        // A commit with full durability also keeps the relaxed commits before.
        insert(&database.with_durability(Durability::Full), 6);
        disk.lose_power_after(0, seed);
        let database = Database::open_storage(disk.restarted()).unwrap();
        assert_eq!(ids(&database), (0..7).collect::<Vec<_>>());
    }
}

/// A write with full durability that changes nothing has read relaxed writes, so they are durable when it returns.
#[test]
fn a_write_without_changes_keeps_the_relaxed_writes_that_it_has_read() {
    let update = |filter: RawDocumentBuf| Update {
        filter,
        update: rawdoc! { "$set": { "n": 0 } },
        ..Update::default()
    };
    let in_transaction = |database: &Database| {
        let transaction = database.begin().unwrap();
        let found = transaction.count("c", &Count::default()).unwrap();
        assert_eq!(found, 4);
        transaction.commit().unwrap();
    };
    type Write<'a> = &'a dyn Fn(&Database);
    let writes: [(&str, Write<'_>); 3] = [
        ("an update of no document", &|database| {
            let updated = database.update("c", &update(rawdoc! { "_id": 7 })).unwrap();
            assert_eq!(updated.matched, 0);
        }),
        ("an update to the same value", &|database| {
            let updated = database.update("c", &update(rawdoc! { "_id": 3 })).unwrap();
            assert_eq!((updated.matched, updated.modified), (1, 0));
        }),
        ("a transaction", &in_transaction),
    ];
    for (name, write) in writes {
        let is_kept = |database_of_write: &dyn Fn(&Database) -> Database| {
            let (disk, database) = disk_with_records(1);
            let relaxed = database.with_durability(Durability::Relaxed);
            for id in 1..4 {
                let inserted = relaxed.insert("c", vec![rawdoc! { "_id": id, "n": 0 }]);
                inserted.unwrap().into_result().unwrap();
            }
            write(&database_of_write(&database));
            disk.lose_power_after(0, 1);
            let database = Database::open_storage(disk.restarted()).unwrap();
            ids(&database).len() == 4
        };
        assert!(is_kept(&Database::clone), "{name}");
        // On a busy machine, the sync of relaxed commits can come first.
        let relaxed = |database: &Database| database.with_durability(Durability::Relaxed);
        assert!((0..20).any(|_| !is_kept(&relaxed)), "{name}");
    }
}

/// Threads write with both durabilities at once. A power loss keeps every acknowledged write with full durability, also without changes,
/// and every relaxed write that was acknowledged before its begin.
#[test]
fn relaxed_and_durable_writes_share_commits() {
    const FIRST_DURABLE: i32 = 1_000_000;
    let mut lost = 0;
    for seed in 0..40 {
        let (disk, database) = disk_with_records(0);
        let relaxed = database.with_durability(Durability::Relaxed);
        let is_stored = |handle: &Database, id: i32| {
            let inserted = handle.insert("c", vec![document(id)]);
            inserted.is_ok_and(|report| report.into_result().is_ok())
        };
        let update = Update {
            filter: rawdoc! { "_id": -1 },
            update: rawdoc! { "$set": { "n": 1 } },
            ..Update::default()
        };
        let acknowledged = AtomicI32::new(0);
        disk.lose_power_after(20 + seed % 30, seed);
        let (durable, relaxed_before) = std::thread::scope(|scope| {
            scope.spawn(|| {
                for id in (0..).take_while(|id| is_stored(&relaxed, *id)) {
                    acknowledged.store(id + 1, Ordering::SeqCst);
                }
            });
            let mut kept = (0, 0);
            for round in 0.. {
                let before = acknowledged.load(Ordering::SeqCst);
                let is_written = match round % 2 {
                    0 => is_stored(&database, FIRST_DURABLE + kept.0),
                    _ => database.update("c", &update).is_ok(),
                };
                if !is_written {
                    break;
                }
                kept = (kept.0 + (round + 1) % 2, before);
            }
            kept
        });
        let database = Database::open_storage(disk.restarted()).unwrap();
        database.validate().unwrap();
        let kept = ids(&database).into_iter();
        let (kept_relaxed, kept_durable): (Vec<_>, Vec<_>) =
            kept.partition(|id| *id < FIRST_DURABLE);
        let count = |ids: &[i32]| i32::try_from(ids.len()).unwrap();
        assert!(count(&kept_durable) >= durable, "{seed}");
        assert!(count(&kept_relaxed) >= relaxed_before, "{seed}");
        assert!(kept_relaxed.iter().copied().eq(0..count(&kept_relaxed)));
        let last_durable = FIRST_DURABLE + count(&kept_durable);
        assert!(kept_durable.iter().copied().eq(FIRST_DURABLE..last_durable));
        lost += acknowledged.into_inner() - count(&kept_relaxed);
    }
    // Without a loss, the relaxed writes were not relaxed.
    assert!(lost > 0);
}

#[test]
fn relaxed_commits_are_synced_soon() {
    let (disk, database) = disk_with_records(1);
    let database = database.with_durability(Durability::Relaxed);
    for id in 1..4 {
        insert(&database, id);
        let is_synced = (0..1_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            !disk.has_unsynced_changes()
        });
        assert!(is_synced, "{id}");
    }
}

/// After a failed sync, the operating system may have dropped the records. The next commit writes their changes again.
#[test]
fn a_commit_after_a_failed_sync_is_a_checkpoint() {
    let (disk, database) = disk_with_records(1);
    let database = database.with_durability(Durability::Relaxed);
    insert(&database, 1);
    disk.fail_after(0);
    assert!(database.sync().unwrap_err().is_io());
    disk.heal();
    insert(&database, 2);
    let mut content = disk.content();
    let end = LOG_START + usize::try_from(LOG_BYTES).unwrap();
    content[LOG_START..end].fill(0);
    assert_eq!(ids(&open(content).unwrap()), [0, 1, 2]);
}

/// A thread that must not wait commits to a fast disk, as long as the commit is a record of the log.
#[test]
fn a_brief_write_commits_to_a_fast_disk() {
    let insert_briefly = |database: &Database, documents: Vec<RawDocumentBuf>| {
        let limit = Duration::from_secs(60);
        run_briefly(limit, || database.insert("c", documents).map(drop))
    };
    let (disk, database) = disk_with_records(0);
    // The engine learns from commits that the disk is fast. On a busy machine, this takes more commits.
    let mut written = 0;
    let mut try_often = |write_briefly: &dyn Fn() -> bool| {
        let is_written = (0..5_000).any(|_| {
            insert(&database, written);
            written += 1;
            write_briefly()
        });
        assert!(is_written);
        written
    };
    try_often(&|| insert_briefly(&database, vec![document(10_000)]).is_ok());
    let transaction = database.begin().unwrap();
    let inserted = transaction.insert("c", vec![document(10_001)]).unwrap();
    inserted.into_result().unwrap();
    let written = try_often(&|| {
        let committed = run_briefly(Duration::from_secs(60), || transaction.commit());
        committed.is_ok()
    });
    let documents = usize::try_from(written).unwrap() + 2;
    assert_eq!(all(&open(disk.content()).unwrap(), "c").len(), documents);

    // A checkpoint takes long.
    let many = (20_000..20_300).map(document).collect();
    assert!(
        insert_briefly(&database, many)
            .unwrap_err()
            .is_would_block()
    );

    disk.set_sync_time(Duration::from_millis(5));
    insert(&database, 10_002);
    let rejection = insert_briefly(&database, vec![document(10_003)]).unwrap_err();
    assert!(rejection.is_would_block());
    // A relaxed commit does not wait for the disk.
    let relaxed = database.with_durability(Durability::Relaxed);
    try_often(&|| insert_briefly(&relaxed, vec![document(10_003)]).is_ok());
}
