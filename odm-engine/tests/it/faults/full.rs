//! A full disk: acknowledged writes survive, deletes free space, and writing resumes without intervention.

use bson::{RawDocumentBuf, rawdoc};
use odm_engine::{
    Count, Database, Delete, Direction, DropIndexes, Error, Index, Update, Watch, WatchFrom,
};

use super::disk::Disk;
use crate::all;

/// The capacity of the disk in bytes. An empty database uses about 400 KB.
const ROOM: usize = 4 << 20;

fn document(id: i32) -> RawDocumentBuf {
    rawdoc! { "_id": id, "n": id % 100, "text": format!("{id} {}", "x".repeat(1500)) }
}

fn insert(database: &Database, collection: &str, id: i32) -> odm_engine::Result<usize> {
    database
        .insert(collection, vec![document(id)])?
        .into_result()
}

fn delete(database: &Database, filter: RawDocumentBuf) -> odm_engine::Result<u64> {
    let delete = Delete {
        filter,
        multi: true,
        ..Delete::default()
    };
    Ok(database.delete("c", &delete)?.deleted)
}

fn count(database: &Database, collection: &str) -> u64 {
    database.count(collection, &Count::default()).unwrap()
}

/// Inserts until the disk is full. Returns the number of inserted documents and the error.
fn fill(database: &Database, collection: &str) -> (i32, Error) {
    for id in 0.. {
        if let Err(error) = insert(database, collection, id) {
            return (id, error);
        }
    }
    unreachable!("there is an end to every disk")
}

/// Returns a full disk with a database, and the number of documents in `c`.
fn full() -> (Disk, Database, i32) {
    let disk = Disk::with_capacity(ROOM);
    let database = Database::open_storage(disk.clone()).unwrap();
    let indexes = [
        Index::new([("n", Direction::Ascending)]),
        Index::new([("text", Direction::Ascending)]).unique(),
    ];
    database.create_indexes("c", &indexes).unwrap();
    insert(&database, "d", 1).unwrap();
    let (documents, error) = fill(&database, "c");
    assert!(error.is_storage_full(), "{error:?}");
    assert_eq!(error.code(), Some(14031));
    assert!(error.message().contains("nothing was written"), "{error}");
    assert!(documents > 200, "{documents}");
    (disk, database, documents)
}

#[test]
fn writes_succeed_after_space_is_freed() {
    let (disk, database, documents) = full();
    assert_eq!(count(&database, "c"), u64::try_from(documents).unwrap());
    for _ in 0..3 {
        assert!(
            insert(&database, "c", documents)
                .unwrap_err()
                .is_storage_full()
        );
    }
    database.validate().unwrap();
    disk.set_capacity(2 * ROOM);
    for id in documents..documents + 100 {
        insert(&database, "c", id).unwrap();
    }
    database.validate().unwrap();
    drop(database);
    let database = Database::open_storage(disk.restarted()).unwrap();
    database.validate().unwrap();
    let results: Vec<_> = all(&database, "c");
    assert_eq!(
        results,
        (0..documents + 100).map(document).collect::<Vec<_>>()
    );
}

/// A write that still has no room is refused without a commit and without a repair of the file.
#[test]
fn a_write_without_space_fails_before_the_store_changes() {
    let (disk, database, documents) = full();
    assert!(
        insert(&database, "c", documents)
            .unwrap_err()
            .is_storage_full()
    );
    let before = disk.written();
    for _ in 0..100 {
        assert!(
            insert(&database, "c", documents)
                .unwrap_err()
                .is_storage_full()
        );
    }
    let written = disk.written() - before;
    // The only writes are attempts to fill the reserve again.
    assert!(written / 100 < 600 << 10, "{written} bytes");
    assert!(disk.used() <= ROOM);
}

#[test]
fn documents_can_be_deleted_from_a_full_disk() {
    let (disk, database, documents) = full();
    // Delete one by one, then many at once, then the rest.
    for id in 0..50 {
        assert_eq!(delete(&database, rawdoc! { "_id": id }).unwrap(), 1, "{id}");
    }
    assert!(delete(&database, rawdoc! { "n": { "$lt": 50 } }).unwrap() > 50);
    database.validate().unwrap();
    // The file has free space now.
    for id in 0..20 {
        insert(&database, "c", id).unwrap();
    }
    delete(&database, rawdoc! {}).unwrap();
    assert_eq!(count(&database, "c"), 0);
    database.validate().unwrap();
    for id in 0..documents / 2 {
        insert(&database, "c", id).unwrap();
    }
    drop(database);
    let database = Database::open_storage(disk.restarted()).unwrap();
    database.validate().unwrap();
    assert_eq!(count(&database, "c"), u64::try_from(documents / 2).unwrap());
}

#[test]
fn collections_and_indexes_can_be_dropped_from_a_full_disk() {
    let (_disk, database, _) = full();
    database.drop_index("c", "n_1").unwrap();
    database.drop_indexes("c", &DropIndexes::All).unwrap();
    database.validate().unwrap();
    database.drop_collection("c").unwrap();
    database.validate().unwrap();
    assert_eq!(database.list_collections().unwrap(), ["d"]);
    let (documents, _) = fill(&database, "e");
    assert!(documents > 100, "{documents}");
}

#[test]
fn documents_can_be_made_smaller_on_a_full_disk() {
    let (_disk, database, documents) = full();
    let update = Update {
        update: rawdoc! { "$unset": { "text": 1 } },
        filter: rawdoc! { "_id": { "$lt": 100 } },
        multi: true,
        ..Update::default()
    };
    // The unique index allows one document without a text.
    database.drop_index("c", "text_1").unwrap();
    assert_eq!(database.update("c", &update).unwrap().modified, 100);
    assert_eq!(count(&database, "c"), u64::try_from(documents).unwrap());
    insert(&database, "c", documents).unwrap();
}

/// A different program fills the disk, and the first write on the full disk is a delete.
#[test]
fn the_first_write_on_a_full_disk_can_be_a_deletion() {
    let disk = Disk::with_capacity(16 << 20);
    let database = Database::open_storage(disk.clone()).unwrap();
    database
        .create_indexes("c", &[Index::new([("n", Direction::Ascending)])])
        .unwrap();
    for id in 0..400 {
        insert(&database, "c", id).unwrap();
    }
    disk.fill_up();
    assert!(delete(&database, rawdoc! { "n": { "$lt": 70 } }).unwrap() > 100);
    database.validate().unwrap();
    insert(&database, "c", 1000).unwrap();
}

/// After a process ends on a full disk, the next process can free space in the file.
#[test]
fn a_database_on_a_full_disk_can_be_opened_and_emptied() {
    for is_killed in [false, true] {
        let (disk, database, documents) = full();
        let disk = if is_killed {
            disk.restarted()
        } else {
            drop(database);
            disk.restarted()
        };
        disk.fill_up();
        let database = Database::open_storage(disk.clone()).unwrap();
        database.validate().unwrap();
        assert_eq!(count(&database, "c"), u64::try_from(documents).unwrap());
        assert!(delete(&database, rawdoc! { "n": { "$lt": 50 } }).unwrap() > 100);
        database.validate().unwrap();
        insert(&database, "c", documents).unwrap();
    }
}

/// The change log drops as much as it adds.
#[test]
fn documents_can_be_deleted_while_the_database_is_watched() {
    let disk = Disk::with_capacity(ROOM);
    let database = Database::open_storage(disk.clone()).unwrap();
    let start = database.watch(&Watch::default()).unwrap().resume_token();
    let tiny = |id: i32| vec![rawdoc! { "_id": id }];
    database
        .insert("c", (0..100).flat_map(tiny).collect())
        .unwrap()
        .into_result()
        .unwrap();
    let (_, error) = fill(&database, "d");
    assert!(error.is_storage_full());
    for id in 0..100 {
        assert_eq!(delete(&database, rawdoc! { "_id": id }).unwrap(), 1);
    }
    let watch = Watch {
        from: WatchFrom::After(start),
        collection: Some("c".into()),
        ..Watch::default()
    };
    let mut changes = database.watch(&watch).unwrap();
    let events = std::iter::from_fn(|| changes.try_next().unwrap()).count();
    assert_eq!(events, 200);
}

/// An operation fails while the disk is filling up, also while the log moves to its place in parts.
#[test]
fn an_error_on_a_filling_disk_loses_nothing() {
    let fill_with_errors = |disk: &Disk| {
        let database = Database::open_storage(disk.clone()).unwrap();
        let index = Index::new([("n", Direction::Ascending)]);
        database.create_indexes("c", &[index]).unwrap();
        let mut inserted = Vec::new();
        for id in 0.. {
            match insert(&database, "c", id) {
                Ok(_) => inserted.push(id),
                Err(error) if error.is_storage_full() => return (database, inserted),
                Err(error) => assert!(error.is_io(), "{error:?}"),
            }
        }
        unreachable!("there is an end to every disk")
    };
    let disk = Disk::with_capacity(ROOM);
    fill_with_errors(&disk);
    let end = disk.operations();
    for at in (end - 300..end).step_by(12) {
        let disk = Disk::with_capacity(ROOM);
        disk.fail_after(at);
        let (database, inserted) = fill_with_errors(&disk);
        disk.heal();
        let restarted = Database::open_storage(disk.restarted()).unwrap();
        for database in [&database, &restarted] {
            database.validate().unwrap();
            let ids = all(database, "c");
            let ids = ids.iter().map(|document| document.get_i32("_id").unwrap());
            assert_eq!(ids.collect::<Vec<_>>(), inserted, "{at}");
        }
        assert_eq!(delete(&database, rawdoc! { "_id": 0 }).unwrap(), 1, "{at}");
    }
}

/// Writers that share commits each get the outcome of their own documents.
#[test]
fn many_writers_on_a_full_disk_lose_nothing() {
    let disk = Disk::with_capacity(ROOM);
    let database = Database::open_storage(disk.clone()).unwrap();
    let inserted: Vec<i32> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let database = &database;
                scope.spawn(move || {
                    let ids = (0..1000).map(|n| writer * 1000 + n);
                    ids.filter(|id| insert(database, "c", *id).is_ok())
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap())
            .collect()
    });
    database.validate().unwrap();
    let mut documents: Vec<i32> = all(&database, "c")
        .iter()
        .map(|document| document.get_i32("_id").unwrap())
        .collect();
    documents.sort_unstable();
    let mut inserted = inserted;
    inserted.sort_unstable();
    assert_eq!(documents, inserted);
    assert!(
        documents.len() < 4000 && documents.len() > 200,
        "{}",
        documents.len()
    );
}

/// The environment variable for the child process with a small file system.
const SMALL: &str = "ODM_ENGINE_TEST_SMALL_FILE_SYSTEM";

/// A child process; see [`a_full_file_system`].
#[test]
fn child_on_a_small_file_system() {
    let Some(directory) = std::env::var_os(SMALL) else {
        return;
    };
    let directory = std::path::Path::new(&directory);
    let filler = directory.join("filler");
    std::fs::write(&filler, vec![1; 2 << 20]).unwrap();
    let path = directory.join("data.odm");
    let database = Database::open(&path).unwrap();
    let index = Index::new([("n", Direction::Ascending)]);
    database.create_indexes("c", &[index]).unwrap();
    let (documents, error) = fill(&database, "c");
    assert!(error.is_storage_full(), "{error:?}");
    assert!(error.message().contains("data.odm"), "{error}");
    assert!(documents > 500, "{documents}");
    for id in 0..20 {
        assert_eq!(delete(&database, rawdoc! { "_id": id }).unwrap(), 1, "{id}");
    }
    assert!(delete(&database, rawdoc! { "n": { "$lt": 50 } }).unwrap() > 50);
    insert(&database, "c", 0).unwrap();
    let (_, error) = fill(&database, "d");
    assert!(error.is_storage_full(), "{error:?}");
    drop(database);
    let database = Database::open(&path).unwrap();
    database.drop_collection("c").unwrap();
    insert(&database, "d", 10_000).unwrap();
    let (_, error) = fill(&database, "e");
    assert!(error.is_storage_full(), "{error:?}");
    std::fs::remove_file(&filler).unwrap();
    for id in 20_000..20_200 {
        insert(&database, "d", id).unwrap();
    }
    database.validate().unwrap();
    println!("done");
}

/// The same test on an 8 MB file system in memory, on Linux systems that allow the mount.
#[test]
fn a_full_file_system() {
    let directory = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=8m small \"$1\" || exit 77; \
                  exec \"$2\" --exact faults::full::child_on_a_small_file_system --nocapture";
    let child = std::process::Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .arg(directory.path())
        .arg(std::env::current_exe().unwrap())
        .env(SMALL, directory.path())
        .output();
    let Ok(child) = child else {
        eprintln!("there is no `unshare` here");
        return;
    };
    let output = [child.stdout, child.stderr].concat();
    let output = String::from_utf8_lossy(&output);
    // Some systems forbid user namespaces, and some only the mapping of the user.
    let messages = ["unshare failed", "unshare: write failed"];
    let is_refused = messages.iter().any(|message| output.contains(message));
    if child.status.code() == Some(77) || is_refused {
        eprintln!("no file system can be mounted here: {output}");
        return;
    }
    assert!(
        child.status.success() && output.contains("done"),
        "{output}"
    );
}
