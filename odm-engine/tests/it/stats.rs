//! The sizes of collections and indexes.

use bson::rawdoc;
use odm_engine::{Database, Delete, Direction, ErrorKind, Index, Interrupt};

fn fill(database: &Database) {
    let indexes = [
        Index::new([("n", Direction::Ascending)]),
        Index::new([("tags", Direction::Ascending)]),
        Index::new([("code", Direction::Ascending)])
            .unique()
            .sparse(),
    ];
    database.create_indexes("b", &indexes).unwrap();
    let documents = (0..100).map(|id| match id % 10 {
        0 => rawdoc! { "_id": id, "n": id, "tags": ["x", "y", "y"], "code": id },
        _ => rawdoc! { "_id": id, "n": id, "tags": "x" },
    });
    let inserted = database.insert("b", documents.collect()).unwrap();
    inserted.into_result().unwrap();
    database.create_collection("a").unwrap();
}

#[test]
fn documents_and_entries_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    for database in [Database::memory(), Database::open(&path).unwrap()] {
        fill(&database);
        let stats = database.stats().unwrap();
        assert_eq!(stats.format_version, 5);
        let names: Vec<_> = stats
            .collections
            .iter()
            .map(|stats| stats.name.as_str())
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(
            (
                stats.collections[0].documents,
                stats.collections[0].document_bytes
            ),
            (0, 0)
        );
        assert_eq!(stats.collections[0].indexes.len(), 1);
        let b = &stats.collections[1];
        // The lengths by the specification of BSON: 5 bytes for a document, 8 for `n: int32`, 10 for `_id: int32`.
        let plain = 5 + 9 + 7 + 12;
        let tagged = 5 + 9 + 7 + (1 + 5 + 5 + 3 * 9) + 10;
        assert_eq!(
            (b.documents, b.document_bytes),
            (100, 90 * plain + 10 * tagged)
        );
        let entries: Vec<_> = b
            .indexes
            .iter()
            .map(|stats| (stats.index.name.as_str(), stats.entries))
            .collect();
        assert_eq!(
            entries,
            [("_id_", 100), ("n_1", 100), ("tags_1", 110), ("code_1", 10)]
        );
        assert_eq!(b.indexes[3].index, database.list_indexes("b").unwrap()[3]);
        // A prefix of 9 bytes, a number of 10 bytes (the number 0: 1 byte), and a record of 8 bytes in the key or in the value.
        assert_eq!(b.indexes[0].entry_bytes, 99 * 27 + 18);
        assert_eq!(b.indexes[1].entry_bytes, 99 * 27 + 18);

        let delete = Delete {
            multi: true,
            ..Delete::default()
        };
        database.delete("b", &delete).unwrap();
        let b = &database.stats().unwrap().collections[1];
        assert_eq!((b.documents, b.document_bytes), (0, 0));
        assert!(
            b.indexes
                .iter()
                .all(|index| (index.entries, index.entry_bytes) == (0, 0))
        );
    }
}

#[test]
fn a_file_has_a_length_and_a_log() {
    let stats = Database::memory().stats().unwrap();
    assert_eq!((stats.file_bytes, stats.log_bytes), (None, None));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let database = Database::open(&path).unwrap();
    fill(&database);
    let stats = database.stats().unwrap();
    let log_bytes = stats.log_bytes.unwrap();
    assert_eq!(stats.file_bytes, Some(path.metadata().unwrap().len()));
    assert!(log_bytes > 0, "the insert is in the log");
    let delete = Delete::default();
    database.delete("b", &delete).unwrap();
    assert!(database.stats().unwrap().log_bytes.unwrap() > log_bytes);
    drop(database);
    let database = Database::open(&path).unwrap();
    assert_eq!(database.stats().unwrap().log_bytes, Some(0));
    database.close();
    assert_eq!(database.stats().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_cancelled_count_ends() {
    let database = Database::memory();
    fill(&database);
    let interrupt = Interrupt::new();
    interrupt.cancel();
    let error = interrupt.run(|| database.stats()).unwrap_err();
    assert!(error.is_cancelled());
}
