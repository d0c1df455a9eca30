//! Dumps and restores in the form of mongodump.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, JavaScriptCodeWithScope, RawDocumentBuf, Regex, Timestamp};
use bson::{cstr, doc, rawdoc};
use odm_engine::{Database, Direction, Index};
use serde_json::{Value, json};

use crate::{Shop, all, assert_success, failure, insert, run_on};

/// The documents `{ _id: 1, name: "a" }` and `{ _id: 2, name: "bc" }`, encoded by hand as the specification of BSON describes.
const DOCUMENTS: &[u8] = b"\x1a\0\0\0\x10_id\0\x01\0\0\0\x02name\0\x02\0\0\0a\0\0\
    \x1b\0\0\0\x10_id\0\x02\0\0\0\x02name\0\x03\0\0\0bc\0\0";

/// The metadata of a dump by mongodump 100 of MongoDB 6, in the form of its documentation.
const METADATA: &str = r#"{"indexes":[{"v":{"$numberInt":"2"},"key":{"_id":{"$numberInt":"1"}},"name":"_id_"},
{"v":{"$numberInt":"2"},"key":{"name":{"$numberInt":"1"}},"name":"by_name","unique":true},
{"v":{"$numberInt":"2"},"key":{"at":{"$numberDouble":"-1.0"}},"name":"at_-1","expireAfterSeconds":{"$numberInt":"0"}},
{"v":{"$numberInt":"2"},"key":{"name":"hashed"},"name":"name_hashed"},
{"v":{"$numberInt":"2"},"key":{"a":{"$numberInt":"1"}},"name":"a_1","partialFilterExpression":{"a":{"$gt":{"$numberLong":"5"}}}}],
"uuid":"0c4d1bcb5a2f4a4c9f0a2f1c7f1a9d3e","collectionName":"parts","type":"collection"}"#;

/// Writes a dump with one collection.
fn write_dump(shop: &Shop, documents: &[u8], metadata: &str) -> PathBuf {
    let directory = shop.path("mongodump");
    let folder = directory.join("test");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("parts.bson"), documents).unwrap();
    fs::write(folder.join("parts.metadata.json"), metadata).unwrap();
    // Newer versions write a file about the server.
    fs::write(folder.join("prelude.json"), r#"{"ServerVersion":"6.0.5"}"#).unwrap();
    directory
}

fn names(database: &Database, collection: &str) -> Vec<String> {
    let indexes = database.list_indexes(collection).unwrap();
    indexes.into_iter().map(|index| index.name).collect()
}

#[test]
fn a_dump_of_mongodump_is_restored() {
    let shop = Shop::new();
    let dump = write_dump(&shop, DOCUMENTS, METADATA);
    let (file, dump) = (shop.path("new.odm"), dump.to_str().unwrap().to_owned());
    let output = run_on("restore", &file, &[&dump, "--json"]);
    assert_success(&output);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        report,
        json!({ "collection": "parts", "documents": 2, "indexes": 4 })
    );
    let database = Database::open(&file).unwrap();
    database.validate().unwrap();
    assert_eq!(
        all(&database, "parts"),
        [
            rawdoc! { "_id": 1, "name": "a" },
            rawdoc! { "_id": 2, "name": "bc" }
        ]
    );
    assert_eq!(
        names(&database, "parts"),
        ["_id_", "by_name", "at_-1", "name_hashed", "a_1"]
    );
    let indexes = database.list_indexes("parts").unwrap();
    assert!(indexes[1].unique);
    assert_eq!(indexes[2].expire_after, Some(std::time::Duration::ZERO));
    assert_eq!(indexes[3].hashed.as_deref(), Some("name"));
    assert_eq!(indexes[4].partial, Some(rawdoc! { "a": { "$gt": 5_i64 } }));
    database.close();

    // A second restore is refused, and `--drop` replaces the collection.
    let error = failure(&run_on("restore", &file, &[&dump]), 1);
    assert!(
        error.contains("parts has documents; nothing was written; use --drop"),
        "{error}"
    );
    assert_success(&run_on("restore", &file, &[&dump, "--drop"]));
    assert_eq!(all(&Database::open(&file).unwrap(), "parts").len(), 2);
}

/// The files of a dump by this program are those that mongodump writes for the same collection.
#[test]
fn a_dump_has_the_form_of_mongodump() {
    let shop = Shop::new();
    let file = shop.path("test.odm");
    let database = Database::open(&file).unwrap();
    insert(
        &database,
        "parts",
        vec![
            rawdoc! { "_id": 1, "name": "a" },
            rawdoc! { "_id": 2, "name": "bc" },
        ],
    );
    let index = Index::new([("name", Direction::Ascending)])
        .named("by_name")
        .unique();
    database.create_indexes("parts", &[index]).unwrap();
    database.create_collection("a/b").unwrap();
    database.close();
    let dump = shop.path("dump");
    let output = run_on("dump", &file, &[dump.to_str().unwrap()]);
    assert_success(&output);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "a/b: 0 documents\nparts: 2 documents\n"
    );
    assert_eq!(fs::read_dir(&dump).unwrap().count(), 1);
    assert_eq!(fs::read(dump.join("test/parts.bson")).unwrap(), DOCUMENTS);
    assert_eq!(fs::read(dump.join("test/a%2Fb.bson")).unwrap(), b"");
    let metadata = fs::read_to_string(dump.join("test/parts.metadata.json")).unwrap();
    assert_eq!(
        metadata,
        r#"{"indexes":[{"v":{"$numberInt":"2"},"key":{"_id":{"$numberInt":"1"}},"name":"_id_"},{"v":{"$numberInt":"2"},"key":{"name":{"$numberInt":"1"}},"name":"by_name","unique":true}],"collectionName":"parts","type":"collection"}"#
    );
    // A restore finds the folder of the database itself, too.
    let copy = shop.path("copy.odm");
    assert_success(&run_on(
        "restore",
        &copy,
        &[dump.join("test").to_str().unwrap()],
    ));
    assert_eq!(
        Database::open(&copy).unwrap().list_collections().unwrap(),
        ["a/b", "parts"]
    );
}

/// Returns a value of the retired type `DBPointer`, which has no constructor.
fn db_pointer(id: ObjectId) -> Bson {
    let json = json!({ "$dbPointer": { "$ref": "test.parts", "$id": { "$oid": id.to_hex() } } });
    Bson::try_from(json).unwrap()
}

/// Returns a document for each type of BSON.
pub(crate) fn documents_of_every_type() -> Vec<RawDocumentBuf> {
    let binary = |subtype, bytes: &[u8]| {
        Bson::Binary(Binary {
            subtype,
            bytes: bytes.to_vec(),
        })
    };
    let id = ObjectId::parse_str("507f1f77bcf86cd799439011").unwrap();
    let values = [
        Bson::Double(1.5),
        Bson::Double(f64::NAN),
        Bson::Double(f64::NEG_INFINITY),
        Bson::Double(-0.0),
        Bson::String("text \u{0} \u{1F600}".into()),
        Bson::Document(doc! { "b": 1, "a": { "c": [] } }),
        Bson::Array(vec![Bson::Int32(1), Bson::Null, Bson::Array(vec![])]),
        binary(BinarySubtype::Generic, b"\x00\xff"),
        binary(BinarySubtype::Uuid, &[7; 16]),
        binary(BinarySubtype::BinaryOld, b"old"),
        binary(BinarySubtype::UserDefined(0x80), b""),
        Bson::Undefined,
        Bson::ObjectId(id),
        Bson::Boolean(true),
        Bson::DateTime(DateTime::from_millis(-1)),
        Bson::DateTime(DateTime::from_millis(i64::MAX)),
        Bson::Null,
        Bson::RegularExpression(Regex {
            pattern: cstr!("a.*").to_owned(),
            options: cstr!("i").to_owned(),
        }),
        db_pointer(id),
        Bson::JavaScriptCode("return 1".into()),
        Bson::Symbol("symbol".into()),
        Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
            code: "x".into(),
            scope: doc! { "x": 1 },
        }),
        Bson::Int32(i32::MIN),
        Bson::Timestamp(Timestamp {
            time: 1,
            increment: 2,
        }),
        Bson::Int64(i64::MIN),
        Bson::Int64(1),
        Bson::Decimal128("-1.230E+5".parse().unwrap()),
        Bson::MinKey,
        Bson::MaxKey,
    ];
    let documents = values.into_iter().zip(0..);
    documents
        .map(|(value, id)| RawDocumentBuf::try_from(&doc! { "_id": id, "value": value }).unwrap())
        .collect()
}

fn dump(file: &Path, directory: &Path) {
    assert_success(&run_on("dump", file, &[directory.to_str().unwrap()]));
}

#[test]
fn a_restored_dump_has_the_same_documents_and_indexes() {
    let shop = Shop::new();
    let documents = documents_of_every_type();
    let database = Database::open(shop.file()).unwrap();
    insert(&database, "types/100% ä", documents.clone());
    // The name is too long for a file.
    insert(&database, &"ä".repeat(100), vec![rawdoc! { "_id": 1 }]);
    let collation = rawdoc! { "locale": "en", "strength": 2 };
    let collation = odm_engine::Collation::from_document(&collation).unwrap();
    let indexes = [
        Index::new([
            ("value", Direction::Ascending),
            ("b.c", Direction::Descending),
        ]),
        Index::new([("$**", Direction::Ascending)]).wildcard_projection(rawdoc! { "b": 1 }),
        Index::new([("c", Direction::Ascending)]).hashed("c"),
        Index::new([("d", Direction::Ascending)])
            .collation(collation)
            .named("text"),
        Index::new([("e", Direction::Ascending)])
            .partial(rawdoc! { "e": { "$gt": DateTime::from_millis(5) } }),
        Index::new([("f", Direction::Ascending)])
            .expire_after(std::time::Duration::from_secs(9))
            .hidden(),
    ];
    database.create_indexes("types/100% ä", &indexes).unwrap();
    database.close();

    let (first, second, file) = (
        shop.path("first"),
        shop.path("second"),
        shop.path("restored.odm"),
    );
    dump(&shop.file(), &first);
    assert_success(&run_on("restore", &file, &[first.to_str().unwrap()]));
    let (original, restored) = (
        Database::open(shop.file()).unwrap(),
        Database::open(&file).unwrap(),
    );
    restored.validate().unwrap();
    assert_eq!(all(&restored, "types/100% ä"), documents);
    assert_eq!(
        restored.list_collections().unwrap(),
        original.list_collections().unwrap()
    );
    for collection in original.list_collections().unwrap() {
        assert_eq!(all(&restored, &collection), all(&original, &collection));
        assert_eq!(
            restored.list_indexes(&collection).unwrap(),
            original.list_indexes(&collection).unwrap()
        );
    }
    restored.close();
    // A dump of the restored file has the same bytes.
    let arguments = [second.to_str().unwrap(), "--database", "shop"];
    assert_success(&run_on("dump", &file, &arguments));
    let files = |directory: &Path| {
        let entries = fs::read_dir(directory.join("shop")).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let content = files
            .iter()
            .map(|file| fs::read(file).unwrap())
            .collect::<Vec<_>>();
        let names = files
            .iter()
            .map(|file| file.file_name().unwrap().to_owned());
        names.zip(content).collect::<Vec<_>>()
    };
    assert_eq!(files(&first).len(), 8);
    assert!(files(&first) == files(&second));
}

#[test]
fn one_collection_is_dumped() {
    let shop = Shop::new();
    let directory = shop.path("dump");
    let arguments = [directory.to_str().unwrap(), "--collection", "people"];
    assert_eq!(
        shop.json("dump", &arguments),
        [json!({ "collection": "people", "documents": 3 })]
    );
    assert_eq!(fs::read_dir(directory.join("shop")).unwrap().count(), 2);
}

#[test]
fn a_dry_run_writes_nothing() {
    let shop = Shop::new();
    let directory = shop.path("dump");
    dump(&shop.file(), &directory);
    let directory = directory.to_str().unwrap();
    let missing = shop.path("missing.odm");
    let output = run_on("restore", &missing, &[directory, "--dry-run"]);
    assert_success(&output);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("orders: 2500 documents, 0 indexes"), "{text}");
    assert!(!missing.exists());
    let before = fs::read(shop.file()).unwrap();
    assert!(failure(&shop.run("restore", &[directory, "--dry-run"]), 1).contains("--drop"));
    assert_success(&shop.run("restore", &[directory, "--dry-run", "--drop"]));
    assert!(fs::read(shop.file()).unwrap() == before);
}

#[test]
fn two_files_of_one_collection_are_refused() {
    let shop = Shop::new();
    let dump = write_dump(&shop, DOCUMENTS, METADATA);
    for name in ["ab", "a%62"] {
        fs::write(dump.join(format!("test/{name}.bson")), DOCUMENTS).unwrap();
        fs::write(dump.join(format!("test/{name}.metadata.json")), "{}").unwrap();
    }
    let error = failure(&shop.run("restore", &[dump.to_str().unwrap()]), 1);
    assert!(error.contains("both of the collection ab"), "{error}");
}

/// Runs a restore of a dump that is refused, and returns the message. The file gets no collection.
fn refused(documents: &[u8], metadata: &str) -> String {
    let shop = Shop::new();
    let dump = write_dump(&shop, documents, metadata);
    let error = failure(&shop.run("restore", &[dump.to_str().unwrap()]), 1);
    let database = Database::open(shop.file()).unwrap();
    assert_eq!(database.list_collections().unwrap(), ["orders", "people"]);
    error
}

#[test]
fn unsupported_options_are_named() {
    let index = |options: &str| {
        format!(
            r#"{{"indexes":[{{"v":2,"key":{{"a":1}},"name":"by_a"{options}}}],"collectionName":"parts"}}"#
        )
    };
    for (metadata, names) in [
        (index(r#","storageEngine":{"wiredTiger":{}}"#), vec!["by_a", "storageEngine"]),
        (index(r#","unknown":1"#), vec!["by_a", "unknown"]),
        (
            r#"{"indexes":[{"v":2,"key":{"_fts":"text","_ftsx":1},"name":"words","weights":{"t":1},"textIndexVersion":3}]}"#.to_owned(),
            vec!["words", "text"],
        ),
        (r#"{"indexes":[{"v":2,"key":{"at":"2dsphere"},"name":"at_2dsphere"}]}"#.to_owned(), vec!["2dsphere"]),
        (r#"{"options":{"capped":true,"size":4096},"indexes":[]}"#.to_owned(), vec!["capped"]),
        (r#"{"type":"timeseries"}"#.to_owned(), vec!["timeseries"]),
        (r#"{"collectionName":"orders"}"#.to_owned(), vec!["parts.metadata.json", "collectionName", "orders"]),
        (r#"{"collectionName":1}"#.to_owned(), vec!["collectionName"]),
        ("{".to_owned(), vec!["parts.metadata.json", "not JSON"]),
        (r#"{"indexes":1}"#.to_owned(), vec!["indexes"]),
    ] {
        let error = refused(DOCUMENTS, &metadata);
        for name in names {
            assert!(error.contains(name), "{name}: {error}");
        }
    }
}

#[test]
fn damaged_documents_are_named() {
    let shop = Shop::new();
    for (documents, place) in [
        (&DOCUMENTS[..DOCUMENTS.len() - 1], "byte 26"),
        (&DOCUMENTS[..28], "byte 26"),
        (b"\x04\0\0\0".as_slice(), "byte 0"),
        (b"\xff\xff\xff\xff\0".as_slice(), "byte 0"),
        (b"\xff\xff\xff\x7f\0".as_slice(), "byte 0"),
    ] {
        let dump = write_dump(&shop, documents, METADATA);
        let file = shop.path("new.odm");
        for arguments in [vec!["--dry-run"], vec!["--drop"]] {
            let arguments = [&[dump.to_str().unwrap()], arguments.as_slice()].concat();
            let error = failure(&run_on("restore", &file, &arguments), 1);
            assert!(
                error.contains("parts.bson") && error.contains(place),
                "{error}"
            );
        }
    }
    // A duplicate key, and an element of an unknown type.
    let twice = [DOCUMENTS, DOCUMENTS].concat();
    let mut unknown = DOCUMENTS.to_vec();
    unknown[4] = 0x60;
    for (documents, message) in [
        (twice, "document 3 of parts"),
        (unknown, "document 1 of parts"),
    ] {
        let dump = write_dump(&shop, &documents, METADATA);
        let arguments = [dump.to_str().unwrap(), "--drop"];
        let error = failure(&run_on("restore", &shop.path("new.odm"), &arguments), 1);
        assert!(error.contains(message), "{error}");
        assert!(!shop.path("new.odm").exists());
    }
}

/// A dump that cannot be restored completely drops nothing, wherever the problem is.
#[test]
fn a_wrong_dump_leaves_the_collections_of_the_file() {
    let shop = Shop::new();
    let database = Database::open(shop.file()).unwrap();
    insert(&database, "parts", vec![rawdoc! { "_id": 7 }]);
    database.close();
    let truncated = &DOCUMENTS[..DOCUMENTS.len() - 1];
    let mut not_utf8 = DOCUMENTS.to_vec();
    not_utf8[24] = 0xff;
    let twice = [DOCUMENTS, DOCUMENTS].concat();
    let unique = r#"{"indexes":[{"v":2,"key":{"missing":1},"name":"unique","unique":true}],"collectionName":"parts"}"#;
    for (documents, metadata, message) in [
        (truncated, METADATA, "byte 26"),
        (&not_utf8, METADATA, "document 1 of parts"),
        (&twice, METADATA, "document 3 of parts"),
        (DOCUMENTS, unique, "the indexes of parts"),
    ] {
        let dump = write_dump(&shop, documents, metadata);
        // The collection before the wrong one is not replaced either.
        fs::write(dump.join("test/orders.bson"), "").unwrap();
        fs::write(dump.join("test/orders.metadata.json"), "{}").unwrap();
        for option in ["--drop", "--dry-run"] {
            let mut arguments = vec![dump.to_str().unwrap(), "--drop", option];
            arguments.dedup();
            let before = fs::read_dir(shop.path(".")).unwrap().count();
            let error = failure(&shop.run("restore", &arguments), 1);
            assert!(
                error.contains(message) && error.contains("nothing was written"),
                "{error}"
            );
            let after = fs::read_dir(shop.path(".")).unwrap().count();
            assert_eq!(after, before, "the temporary database is removed");
            let database = Database::open(shop.file()).unwrap();
            assert_eq!(all(&database, "parts"), [rawdoc! { "_id": 7 }]);
            assert_eq!(all(&database, "orders").len(), 2_500);
        }
    }
}

/// The reader of the output does not decide how much is restored.
#[test]
fn a_restore_into_a_closed_pipe_is_complete() {
    let shop = Shop::new();
    let folder = shop.path("dump/shop");
    fs::create_dir_all(&folder).unwrap();
    // The reports are longer than the buffer of the output.
    for number in 100..150 {
        let name = format!("{}{number}", "n".repeat(197));
        fs::write(folder.join(format!("{name}.bson")), DOCUMENTS).unwrap();
        fs::write(folder.join(format!("{name}.metadata.json")), "{}").unwrap();
    }
    let file = shop.path("new.odm");
    let mut program = Command::new(env!("CARGO_BIN_EXE_odm"));
    let program = program.arg("restore").arg(&file).arg(&folder);
    let mut child = program.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    let database = Database::open(&file).unwrap();
    let collections = database.list_collections().unwrap();
    assert_eq!(collections.len(), 50);
    for collection in collections {
        assert_eq!(all(&database, &collection).len(), 2);
    }
}

#[test]
fn a_directory_without_a_single_dump_is_refused() {
    let shop = Shop::new();
    let dump = write_dump(&shop, DOCUMENTS, METADATA);
    let file = shop.path("new.odm");
    let restore = |arguments: &[&str]| {
        run_on(
            "restore",
            &file,
            &[&[dump.to_str().unwrap()], arguments].concat(),
        )
    };
    fs::create_dir(dump.join("second")).unwrap();
    fs::write(dump.join("second/c.bson"), DOCUMENTS).unwrap();
    let error = failure(&restore(&["--database", "second"]), 1);
    assert!(
        error.contains("c.metadata.json: the file with the indexes is missing"),
        "{error}"
    );
    fs::write(dump.join("second/c.metadata.json"), "{}").unwrap();
    assert!(failure(&restore(&[]), 2).contains("second, test"));
    assert_success(&restore(&["--database", "second"]));
    assert_eq!(all(&Database::open(&file).unwrap(), "c").len(), 2);

    fs::write(dump.join("second/view.metadata.json"), r#"{"type":"view"}"#).unwrap();
    assert!(failure(&restore(&["--database", "second", "--drop"]), 1).contains("view"));
    fs::write(dump.join("second/d.bson.gz"), "").unwrap();
    assert!(failure(&restore(&["--database", "second"]), 1).contains("compressed"));
    fs::remove_dir_all(dump.join("second")).unwrap();
    fs::write(dump.join("c.bson"), DOCUMENTS).unwrap();
    assert!(failure(&restore(&[]), 1).contains("both files that end with .bson and folders"));
    fs::rename(dump.join("c.bson"), dump.join("oplog.bson")).unwrap();
    for arguments in [vec![], vec!["--database", "test"]] {
        assert!(failure(&restore(&arguments), 1).contains("a dump with --oplog"));
    }
    let empty = shop.path("empty");
    assert!(failure(&run_on("restore", &file, &[empty.to_str().unwrap()]), 1).contains("empty"));
    fs::create_dir(&empty).unwrap();
    assert!(failure(&run_on("restore", &file, &[empty.to_str().unwrap()]), 1).contains("no dump"));
}
