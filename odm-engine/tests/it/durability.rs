use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};

use bson::{RawDocumentBuf, rawdoc};
use odm_engine::{ChangeStream, Count, Database, Direction, Find, Index, Update, Watch, WatchFrom};
use redb::backends::InMemoryBackend;
use redb::{ReadableDatabase, ReadableTable};
use twox_hash::XxHash3_64;

use crate::faults::disk::Disk;
use crate::{TABLE, all, opened_by_redb};

#[test]
fn acknowledged_writes_survive_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    {
        let database = Database::open(&path).unwrap();
        let index = Index::new([("a", Direction::Descending)])
            .partial(rawdoc! { "a": { "$gt": 0 } })
            .unique();
        database.create_indexes("c", &[index]).unwrap();
        let documents = vec![rawdoc! { "_id": 2, "a": 1 }, rawdoc! { "_id": 1, "a": 2 }];
        database
            .insert("c", documents)
            .unwrap()
            .into_result()
            .unwrap();
    }
    let database = Database::open(&path).unwrap();
    assert_eq!(all(&database, "c").len(), 2);
    let indexes = database.list_indexes("c").unwrap();
    let names: Vec<_> = indexes.iter().map(|index| index.name.as_str()).collect();
    assert_eq!(names, ["_id_", "a_-1"]);
    let rejection = database
        .insert("c", vec![rawdoc! { "_id": 3, "a": 1 }])
        .unwrap();
    assert!(rejection.into_result().unwrap_err().is_duplicate_key());
    database
        .insert("c", vec![rawdoc! { "_id": 0 }])
        .unwrap()
        .into_result()
        .unwrap();
    let ids: Vec<_> = all(&database, "c")
        .iter()
        .map(|document| document.get_i32("_id").unwrap())
        .collect();
    assert_eq!(ids, [2, 1, 0]);
}

#[test]
fn a_file_is_opened_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let first = Database::open(&path).unwrap();
    assert!(Database::open(&path).unwrap_err().is_in_use());
    drop(first);
    Database::open(&path).unwrap();
}

/// Runs one test of this file in a child process, on the database at `path`.
fn in_another_process(test: &str, path: &Path) -> ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, path);
    child
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap()
}

/// The environment variable that marks child processes of tests.
pub(crate) const CHILD: &str = "ODM_ENGINE_TEST_DATABASE";

/// A child process; see [`acknowledged_writes_survive_a_killed_process`].
#[test]
fn child_writes_and_dies() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let database = Database::open(path).unwrap();
    database
        .insert("c", vec![rawdoc! { "_id": 1 }])
        .unwrap()
        .into_result()
        .unwrap();
    let unfinished = database.begin().unwrap();
    unfinished
        .insert("c", vec![rawdoc! { "_id": 2 }])
        .unwrap()
        .into_result()
        .unwrap();
    std::process::abort();
}

#[test]
fn acknowledged_writes_survive_a_killed_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let output = in_another_process("durability::child_writes_and_dies", &path);
    assert!(!output.success());
    let database = Database::open(&path).unwrap();
    assert_eq!(all(&database, "c"), [rawdoc! { "_id": 1 }]);
}

/// A child process; see [`events_and_documents_survive_together`].
#[test]
fn child_is_watched_and_killed() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let database = Database::open(path).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let database = &database;
            scope.spawn(move || {
                for n in 0.. {
                    let id = writer * 1_000_000 + n;
                    let transaction = database.begin().unwrap();
                    for collection in ["c", "d"] {
                        let documents = vec![rawdoc! { "_id": id }];
                        let report = transaction.insert(collection, documents).unwrap();
                        report.into_result().unwrap();
                    }
                    transaction.commit().unwrap();
                    println!("acknowledged {id}");
                }
            });
        }
    });
}

#[test]
fn events_and_documents_survive_together() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let mut from = {
        let database = Database::open(&path).unwrap();
        database.insert("c", vec![]).unwrap().into_result().unwrap();
        database.insert("d", vec![]).unwrap().into_result().unwrap();
        database.watch(&Watch::default()).unwrap().resume_token()
    };
    let mut acknowledged_writes: BTreeSet<(String, i32)> = BTreeSet::new();
    for round in 1..=3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "durability::child_is_watched_and_killed"])
            .arg("--nocapture")
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let id = |line: String| {
            let (_, id) = line.split_once("acknowledged ")?;
            id.parse::<i32>().ok()
        };
        let mut acknowledged = Vec::new();
        while acknowledged.len() < 20 * round {
            acknowledged.extend(lines.next().unwrap().map(id).unwrap());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged.extend(lines.filter_map(|line| id(line.ok()?)));

        let database = Database::open(&path).unwrap();
        let watch = Watch {
            from: WatchFrom::After(from),
            ..Watch::default()
        };
        let mut changes = database.watch(&watch).unwrap();
        for event in events(&mut changes) {
            assert_eq!(event.get_str("operationType").unwrap(), "insert");
            let collection = event.get_document("ns").unwrap().get_str("coll").unwrap();
            let id = event.get_document("documentKey").unwrap();
            let is_new =
                acknowledged_writes.insert((collection.to_owned(), id.get_i32("_id").unwrap()));
            assert!(is_new, "{event:?}");
        }
        let mut stored = BTreeSet::new();
        for collection in ["c", "d"] {
            let ids = all(&database, collection);
            let ids = ids.iter().map(|document| document.get_i32("_id").unwrap());
            stored.extend(ids.map(|id| (collection.to_owned(), id)));
        }
        assert_eq!(acknowledged_writes, stored);
        for id in acknowledged {
            assert!(acknowledged_writes.contains(&("c".to_owned(), id)), "{id}");
        }
        // The next round starts with different ids.
        for collection in ["c", "d"] {
            let delete = odm_engine::Delete {
                multi: true,
                ..odm_engine::Delete::default()
            };
            database.delete(collection, &delete).unwrap();
        }
        let deletes = events(&mut changes);
        assert_eq!(deletes.len(), stored.len());
        from = changes.resume_token();
        acknowledged_writes.clear();
    }
}

fn events(changes: &mut ChangeStream) -> Vec<RawDocumentBuf> {
    std::iter::from_fn(|| changes.try_next().unwrap()).collect()
}

/// Returns a value with its checksum, as described in the format document.
fn sealed(key: &[u8], value: &[u8]) -> Vec<u8> {
    let hash = XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(key), value);
    [value, &hash.to_be_bytes()[4..]].concat()
}

/// A read detects a changed byte in any value, and a value under a wrong key.
#[test]
fn a_damaged_value_is_found_by_a_read_or_a_validation() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let database = Database::open(&path).unwrap();
    let start = database.watch(&Watch::default()).unwrap().resume_token();
    let indexes = [
        Index::new([("n", Direction::Ascending)]),
        Index::new([("tags", Direction::Ascending)]),
    ];
    database.create_indexes("c", &indexes).unwrap();
    let documents = (0..3).map(|id| rawdoc! { "_id": id, "n": id, "tags": [id] });
    database
        .insert("c", documents.collect())
        .unwrap()
        .into_result()
        .unwrap();
    drop(database);
    let entries: Vec<(Vec<u8>, Vec<u8>)> = {
        let file = opened_by_redb(&path);
        let table = file.begin_read().unwrap().open_table(TABLE).unwrap();
        let entries = table.iter().unwrap().map(Result::unwrap);
        entries
            .map(|(key, value)| (key.value().to_vec(), value.value().to_vec()))
            .collect()
    };
    let copy = directory.path().join("copy.odm");
    let read = || {
        let database = Database::open(&copy)?;
        let watch = Watch {
            from: WatchFrom::After(start.clone()),
            ..Watch::default()
        };
        let mut changes = database.watch(&watch)?;
        while changes.try_next()?.is_some() {}
        for filter in [
            rawdoc! {},
            rawdoc! { "_id": { "$gte": 0 } },
            rawdoc! { "n": { "$gte": 0 } },
            rawdoc! { "tags": { "$gte": 0 } },
        ] {
            let find = Find {
                filter,
                ..Find::default()
            };
            database
                .find("c", &find)?
                .collect::<odm_engine::Result<Vec<_>>>()?;
        }
        database.validate()
    };
    let mut damaged = 0;
    for (place, (key, value)) in entries.iter().enumerate() {
        // The version has no checksum: it has four bytes, and every engine reads it.
        if key == b"\0format" {
            assert_eq!(value, &[0, 0, 0, 5]);
            continue;
        }
        let (plain, _) = value.split_at(value.len() - 4);
        assert_eq!(*value, sealed(key, plain));
        let other_value = &entries[(place + 1) % entries.len()].1;
        let damaged_values = (0..value.len()).map(|byte| {
            let mut value = value.clone();
            value[byte] ^= 0x10;
            value
        });
        for value in damaged_values.chain([other_value.clone(), Vec::new()]) {
            fs::copy(&path, &copy).unwrap();
            let file = opened_by_redb(&copy);
            let write = file.begin_write().unwrap();
            let mut table = write.open_table(TABLE).unwrap();
            table.insert(key.as_slice(), value.as_slice()).unwrap();
            drop(table);
            write.commit().unwrap();
            drop(file);
            let error = read().unwrap_err();
            assert!(error.is_damaged(), "{key:?} {value:?}: {error:?}");
            damaged += 1;
        }
    }
    assert!(damaged > 500, "{damaged}");
}

/// A damaged event or a damaged record of the log is an error, and never a panic.
#[test]
fn a_damaged_log_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let database = Database::open(&path).unwrap();
    let start = database.watch(&Watch::default()).unwrap().resume_token();
    let documents = (0..3).map(|id| rawdoc! { "_id": id }).collect();
    database
        .insert("c", documents)
        .unwrap()
        .into_result()
        .unwrap();
    drop(database);
    let event = |number: u64| [&[7], number.to_be_bytes().as_slice()].concat();
    let damages: [(Vec<u8>, Option<&[u8]>); 8] = [
        (event(2), None),
        (event(2), Some(b"")),
        (event(2), Some(&[0xFF; 24])),
        (event(2), Some(&[0xFF; 64])),
        (event(u64::MAX), Some(&[0xFF; 64])),
        (b"\x06changes".to_vec(), Some(b"")),
        (b"\x06changes".to_vec(), Some(&[0xFF; 40])),
        (vec![7], Some(b"")),
    ];
    for (key, value) in damages {
        let copy = directory.path().join("copy.odm");
        fs::copy(&path, &copy).unwrap();
        {
            let file = opened_by_redb(&copy);
            let write = file.begin_write().unwrap();
            let mut table = write.open_table(TABLE).unwrap();
            match value {
                Some(value) => {
                    let value = sealed(&key, value);
                    drop(table.insert(key.as_slice(), value.as_slice()).unwrap());
                }
                None => drop(table.remove(key.as_slice()).unwrap()),
            }
            drop(table);
            write.commit().unwrap();
        }
        let read = || {
            let database = Database::open(&copy)?;
            let watch = Watch {
                from: WatchFrom::After(start.clone()),
                ..Watch::default()
            };
            let mut changes = database.watch(&watch)?;
            while changes.try_next()?.is_some() {}
            database
                .insert("c", vec![rawdoc! { "_id": 9 }])?
                .into_result()
        };
        let error = read().unwrap_err();
        assert!(
            error.is_damaged() || error.is_history_lost(),
            "{key:?} {value:?}: {error:?}"
        );
    }
}

/// A child process; see [`another_process_is_kept_out`].
#[test]
fn child_is_kept_out() {
    if let Some(path) = std::env::var_os(CHILD) {
        assert!(Database::open(path).unwrap_err().is_in_use());
    }
}

#[test]
fn another_process_is_kept_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let _open = Database::open(&path).unwrap();
    assert!(in_another_process("durability::child_is_kept_out", &path).success());
}

#[test]
fn foreign_files_are_refused_and_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let zeros_first = [vec![0; 100_000], b"text".to_vec()].concat();
    for content in [
        b"short".to_vec(),
        vec![b'x'; 100_000],
        zeros_first,
        vec![0; 5],
    ] {
        let path = directory.path().join("foreign");
        fs::write(&path, &content).unwrap();
        assert!(Database::open(&path).unwrap_err().is_foreign_file());
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    let path = directory.path().join("other.redb");
    let other = redb::Database::create(&path).unwrap();
    let write = other.begin_write().unwrap();
    let table = redb::TableDefinition::<&[u8], &[u8]>::new("other");
    drop(write.open_table(table).unwrap());
    write.commit().unwrap();
    drop(other);
    assert!(Database::open(&path).unwrap_err().is_foreign_file());
}

#[test]
fn a_truncated_file_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    {
        let database = Database::open(&path).unwrap();
        let documents = (0..2000).map(|n| rawdoc! { "_id": n, "text": "x".repeat(500) });
        database
            .insert("c", documents.collect())
            .unwrap()
            .into_result()
            .unwrap();
    }
    let content = fs::read(&path).unwrap();
    for length in [
        10,
        64,
        300,
        512,
        4000,
        4096,
        5000,
        8192,
        content.len() / 2,
        content.len() - 1,
    ] {
        let copy = directory.path().join(format!("truncated-{length}"));
        fs::write(&copy, &content[..length]).unwrap();
        let error = Database::open(&copy).unwrap_err();
        assert!(error.is_damaged(), "{length}: {error:?}");
    }
}

/// Extra bytes at the end of a file do no harm, for example from padding by a backup program or from a failed download.
#[test]
fn extra_bytes_at_the_end_of_the_file_do_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let database = Database::open(&path).unwrap();
    let documents: Vec<_> = (0..500)
        .map(|n| rawdoc! { "_id": n, "text": "x".repeat(500) })
        .collect();
    let inserted = database.insert("c", documents.clone()).unwrap();
    inserted.into_result().unwrap();
    // Copy the open file, as it is after a crash of the process.
    let open = fs::read(&path).unwrap();
    drop(database);
    let closed = fs::read(&path).unwrap();
    for (name, content) in [("open", open), ("closed", closed)] {
        for length in [1, 100, 512, 4095, 4096, 5000, 3 * 4096, 1 << 20] {
            let copy = directory.path().join(format!("{name}-{length}"));
            fs::write(&copy, [content.clone(), vec![0x5A; length]].concat()).unwrap();
            for round in 0..2 {
                let database = Database::open(&copy).unwrap();
                database.validate().unwrap();
                assert_eq!(all(&database, "c").len(), 500 + round, "{name} {length}");
                let document = rawdoc! { "_id": 1000 + i32::try_from(round).unwrap() };
                database
                    .insert("c", vec![document])
                    .unwrap()
                    .into_result()
                    .unwrap();
            }
        }
    }
}

/// After two pages are swapped, every read returns the right result or an error.
#[test]
fn swapped_pages_are_found() {
    const PAGE: usize = 4096;
    let disk = Disk::new(Vec::new());
    let database = Database::open_storage(disk.clone()).unwrap();
    let indexes = [
        Index::new([("n", Direction::Ascending)]),
        Index::new([("text", Direction::Descending)]).unique(),
    ];
    database.create_indexes("c", &indexes).unwrap();
    let documents: Vec<_> = (0..600)
        .map(|n| rawdoc! { "_id": n, "n": n % 50, "text": format!("{n} {}", "x".repeat(300)) })
        .collect();
    let inserted = database.insert("c", documents.clone()).unwrap();
    inserted.into_result().unwrap();
    drop(database);
    let content = disk.content();
    let is_used = |page: &usize| {
        let page = &content[page * PAGE..][..PAGE];
        page.iter().any(|byte| *byte != 0)
    };
    let pages: Vec<usize> = (1..content.len() / PAGE).filter(is_used).collect();
    assert!(pages.len() > 100, "{}", pages.len());
    let (mut right, mut errors) = (0, 0);
    for step in 0..600 {
        let page_index = pages[step * 31 % pages.len()];
        let other_page_index = pages[(step * 57 + step / pages.len() + 1) % pages.len()];
        let mut swapped = content.clone();
        for byte in 0..PAGE {
            swapped.swap(page_index * PAGE + byte, other_page_index * PAGE + byte);
        }
        let database = match Database::open_storage(Disk::new(swapped)) {
            Ok(database) => database,
            Err(error) => {
                assert!(error.is_damaged() || error.is_foreign_file(), "{error:?}");
                errors += 1;
                continue;
            }
        };
        let results = |filter: RawDocumentBuf, sort: RawDocumentBuf| {
            let find = Find {
                filter,
                sort: Some(sort),
                ..Find::default()
            };
            let results = database.find("c", &find)?;
            results.collect::<odm_engine::Result<Vec<_>>>()
        };
        for id in (0..600).step_by(37) {
            let by_id = results(rawdoc! { "_id": id }, rawdoc! {});
            let by_text = rawdoc! { "text": format!("{id} {}", "x".repeat(300)) };
            for answer in [by_id, results(by_text, rawdoc! {})] {
                match answer {
                    Ok(results) => assert_eq!(results, documents[id as usize..=id as usize]),
                    Err(error) => assert!(error.is_damaged(), "{error:?}"),
                }
            }
        }
        match results(rawdoc! { "n": { "$gte": 0 } }, rawdoc! { "n": 1, "_id": 1 }) {
            Ok(results) => {
                assert_eq!(results.len(), documents.len());
                assert!(results.windows(2).all(|two| {
                    let key = |document: &RawDocumentBuf| {
                        (
                            document.get_i32("n").unwrap(),
                            document.get_i32("_id").unwrap(),
                        )
                    };
                    key(&two[0]) < key(&two[1])
                }));
                right += 1;
            }
            Err(error) => {
                assert!(error.is_damaged(), "{error:?}");
                assert!(error.message().contains("checksum"), "{error}");
                errors += 1;
            }
        }
        match database.count("c", &Count::default()) {
            Ok(count) => assert_eq!(count, 600),
            Err(error) => assert!(error.is_damaged(), "{error:?}"),
        }
    }
    // Most pages are in use, so most swaps are errors.
    assert!(right + errors == 600 && errors > 400, "{right} {errors}");
}

#[test]
fn errors_at_open_name_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let missing_path = directory.path().join("nowhere").join("data.odm");
    let error = Database::open(&missing_path).unwrap_err();
    assert!(error.is_io(), "{error:?}");
    assert!(
        error.message().contains(missing_path.to_str().unwrap()),
        "{error}"
    );
    let error = Database::open(directory.path()).unwrap_err();
    let name = directory.path().to_str().unwrap();
    assert!(error.message().contains(name), "{error}");

    let path = directory.path().join("data.odm");
    drop(Database::open(&path).unwrap());
    let content = fs::read(&path).unwrap();
    for length in [64, 4096, 9000] {
        fs::write(&path, &content[..length]).unwrap();
        let error = Database::open(&path).unwrap_err();
        assert!(error.message().contains("data.odm"), "{length}: {error}");
    }
    fs::write(&path, b"text").unwrap();
    let error = Database::open(&path).unwrap_err();
    assert!(error.message().contains("data.odm"), "{error}");
    fs::write(&path, &content).unwrap();
    let _open = Database::open(&path).unwrap();
    let error = Database::open(&path).unwrap_err();
    assert!(
        error.is_in_use() && error.message().contains("data.odm"),
        "{error}"
    );
}

#[test]
fn damaged_bytes_never_panic() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    {
        let database = Database::open(&path).unwrap();
        let index = Index::new([("n", Direction::Ascending)]);
        database.create_indexes("c", &[index]).unwrap();
        let documents = (0..300).map(|n| rawdoc! { "_id": n, "n": n, "text": "x".repeat(50) });
        database
            .insert("c", documents.collect())
            .unwrap()
            .into_result()
            .unwrap();
    }
    let content = fs::read(&path).unwrap();
    // A fixed sequence of positions in the header and the first pages.
    for step in 0..200_usize {
        let mut bytes = content.clone();
        let place = (step * 7919) % bytes.len().min(200_000);
        for byte in bytes.iter_mut().skip(place).take(4) {
            *byte ^= 0xA5;
        }
        let copy = directory.path().join("damaged.odm");
        fs::write(&copy, &bytes).unwrap();
        if let Ok(database) = Database::open(&copy) {
            let cursor = database.find("c", &Find::default()).unwrap();
            for document in cursor {
                if document.is_err() {
                    break;
                }
            }
        }
    }
}

#[test]
fn many_threads_share_commits_and_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let database = Database::open(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let database = &database;
            scope.spawn(move || {
                for n in 0..25 {
                    let document = rawdoc! { "_id": thread * 100 + n };
                    database
                        .insert("c", vec![document])
                        .unwrap()
                        .into_result()
                        .unwrap();
                }
            });
        }
    });
    drop(database);
    let database = Database::open(&path).unwrap();
    assert_eq!(database.count("c", &Count::default()).unwrap(), 200);
}

#[test]
fn small_writes_next_to_large_writes_all_complete() {
    const THREADS: i64 = 16;
    const TURNS: i64 = 100;
    let directory = tempfile::tempdir().unwrap();
    let disk = Database::open(directory.path().join("data.odm")).unwrap();
    for database in [Database::memory(), disk] {
        database
            .insert("c", vec![rawdoc! { "_id": -1, "n": 0_i64 }])
            .unwrap()
            .into_result()
            .unwrap();
        let add_one = Update {
            filter: rawdoc! { "_id": -1 },
            update: rawdoc! { "$inc": { "n": 1_i64 } },
            ..Update::default()
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (database, add_one) = (&database, &add_one);
                scope.spawn(move || {
                    for round in 0..TURNS {
                        assert_eq!(database.update("c", add_one).unwrap().modified, 1);
                        // The number of changes varies: a leader commits a further batch only if it is smaller than the previous
                        // batch.
                        let first = (thread * TURNS + round) * 100;
                        let documents = (0..round % 30)
                            .map(|n| rawdoc! { "_id": first + n })
                            .collect();
                        database
                            .insert("c", documents)
                            .unwrap()
                            .into_result()
                            .unwrap();
                    }
                });
            }
        });
        let results = all(&database, "c");
        let sum: i64 = (0..TURNS).map(|round| round % 30).sum();
        assert_eq!(results.len() as i64, THREADS * sum + 1);
        assert_eq!(results[0].get_i64("n").unwrap(), THREADS * TURNS);
    }
}

/// A storage in memory with syncs that block until they are released.
#[derive(Debug)]
struct Held {
    storage: InMemoryBackend,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_shut: bool,
    waits: bool,
}

impl Gate {
    fn set(&self, is_shut: bool) {
        self.state.lock().unwrap().is_shut = is_shut;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waits = state.is_shut;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| state.is_shut));
    }

    fn wait_until_one_waits(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| !state.waits));
    }
}

impl redb::StorageBackend for Held {
    fn len(&self) -> io::Result<u64> {
        self.storage.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.storage.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.storage.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.gate.pass();
        self.storage.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.storage.write(offset, data)
    }
}

/// Waits until a document is on its way to the disk. Before that, a transaction could insert the same document.
fn wait_until_written(database: &Database, id: i32) {
    loop {
        let transaction = database.begin().unwrap();
        match transaction.insert("c", vec![rawdoc! { "_id": id }]) {
            Err(error) if error.is_write_conflict() => return,
            _ => std::thread::yield_now(),
        }
    }
}

#[test]
fn writes_waiting_for_a_large_write_are_durable_when_it_returns() {
    let gate = Arc::<Gate>::default();
    let storage = Held {
        storage: InMemoryBackend::new(),
        gate: Arc::clone(&gate),
    };
    let database = Database::open_storage(storage).unwrap();
    database
        .insert("c", vec![rawdoc! { "_id": -1 }])
        .unwrap()
        .into_result()
        .unwrap();
    std::thread::scope(|scope| {
        gate.set(true);
        let large = scope.spawn(|| {
            let documents = (0..100).map(|id| rawdoc! { "_id": id }).collect();
            database
                .insert("c", documents)
                .unwrap()
                .into_result()
                .unwrap();
            database.count("c", &Count::default()).unwrap()
        });
        gate.wait_until_one_waits();
        scope.spawn(|| {
            let page_index = vec![rawdoc! { "_id": 100 }];
            database
                .insert("c", page_index)
                .unwrap()
                .into_result()
                .unwrap();
        });
        wait_until_written(&database, 100);
        gate.set(false);
        assert_eq!(large.join().unwrap(), 102);
    });
}
