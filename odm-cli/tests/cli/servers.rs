//! Dumps, restores and exports of a MongoDB server.

use std::fs;
use std::process::{Command, Output};
use std::sync::Arc;

use bson::{RawDocumentBuf, rawdoc};
use odm::backend::operation::{CollectionDefinition, FindOperation};
use odm::backend::{self, Backend, read_to_end};
use odm::transfer::insert_verbatim;
use odm_engine::{Database, Direction, Index};

use crate::dumps::documents_of_every_type;
use crate::{Shop, all, assert_same_content, assert_success, failure, insert};

fn odm(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_odm"));
    command.args(arguments).output().unwrap()
}

async fn content(db: &Arc<dyn Backend>, collection: &str) -> Vec<RawDocumentBuf> {
    let find = FindOperation {
        collection: collection.to_owned().into(),
        filter: RawDocumentBuf::new(),
        projection: None,
        sort: Some(rawdoc! { "_id": 1 }),
        limit: None,
        options: Default::default(),
    };
    read_to_end(db.find(find).await.unwrap()).await.unwrap()
}

/// A file is dumped, restored into a server, dumped again, and restored into a file.
#[tokio::test]
async fn a_dump_goes_from_a_file_to_a_server_and_back() {
    let shop = Shop::new();
    let database = Database::open(shop.file()).unwrap();
    insert(&database, "values", documents_of_every_type());
    let expiring =
        Index::new([("at", Direction::Ascending)]).expire_after(std::time::Duration::from_secs(9));
    database.create_indexes("values", &[expiring]).unwrap();
    database.close();
    let [dump, second_dump, file] = ["dump", "second", "back.odm"].map(|name| shop.path(name));
    let [dump, second_dump, back] = [&dump, &second_dump, &file].map(|path| path.to_str().unwrap());
    let url = odm_mongod::replica_set().await.fresh_url();
    let source = shop.file();
    assert_success(&odm(&["dump", source.to_str().unwrap(), dump]));

    let dry_run = odm(&["restore", &url, dump, "--dry-run"]);
    assert_success(&dry_run);
    let server = backend::open(&url).await.unwrap();
    assert!(server.list_collections().await.unwrap().is_empty());
    let restored = odm(&["restore", &url, dump]);
    assert_success(&restored);
    assert_eq!(restored.stdout, dry_run.stdout);
    let error = failure(&odm(&["restore", &url, dump]), 1);
    assert!(error.contains("use --drop"), "{error}");
    assert_success(&odm(&["restore", &url, dump, "--drop"]));

    assert_success(&odm(&["dump", &url, second_dump]));
    assert_success(&odm(&["restore", back, second_dump]));
    let (source, target) = (
        Database::open(&source).unwrap(),
        Database::open(&file).unwrap(),
    );
    assert_same_content(&source, &target);
    let names = source.list_collections().unwrap();
    assert_eq!(names, ["orders", "people", "values"]);
    for name in &names {
        assert_eq!(all(&source, name), content(&server, name).await);
    }
}

/// Options and indexes that a file cannot have go from server to server.
#[tokio::test]
async fn a_dump_keeps_options_text_indexes_and_views() {
    let shop = Shop::new();
    let server = odm_mongod::replica_set().await;
    let [url, other] = [server.fresh_url(), server.fresh_url()];
    let db = backend::open(&url).await.unwrap();
    let validator = rawdoc! { "validator": { "n": { "$gt": 0 } }, "collation": { "locale": "de" } };
    let definitions = [
        CollectionDefinition {
            options: validator,
            indexes: vec![
                rawdoc! { "key": { "text": "text" }, "name": "text_text", "collation": { "locale": "simple" } },
            ],
            ..CollectionDefinition::new("things")
        },
        CollectionDefinition {
            kind: "view".into(),
            options: rawdoc! { "viewOn": "things", "pipeline": [] },
            ..CollectionDefinition::new("all_things")
        },
    ];
    for definition in definitions {
        db.create_defined(definition).await.unwrap();
    }
    let documents = vec![
        rawdoc! { "_id": "b", "n": 1 },
        rawdoc! { "_id": "ä", "n": 2 },
    ];
    insert_verbatim(&db, "things", documents).await.unwrap();
    let dump = shop.path("dump");
    let dump = dump.to_str().unwrap();
    assert_success(&odm(&["dump", &url, dump]));
    assert_success(&odm(&["restore", &other, dump]));
    let restored = backend::open(&other).await.unwrap();
    // The identity of a collection is not part of its definition.
    assert_eq!(
        db.list_definitions().await.unwrap(),
        restored.list_definitions().await.unwrap()
    );
    assert_eq!(
        content(&db, "all_things").await,
        content(&restored, "all_things").await
    );
    // A file refuses the options before the first write.
    let file = shop.path("new.odm");
    let error = failure(&odm(&["restore", file.to_str().unwrap(), dump]), 1);
    assert!(
        error.contains("view") || error.contains("validator"),
        "{error}"
    );
    assert!(!file.exists());
}

/// The files of a dump are concatenated documents and extended JSON, as the documentation of mongodump describes.
#[tokio::test]
async fn a_dump_of_a_server_has_the_documented_form() {
    let shop = Shop::new();
    let url = odm_mongod::standalone().await.fresh_url();
    let db = backend::open(&url).await.unwrap();
    let documents = vec![
        rawdoc! { "_id": 1, "name": "a" },
        rawdoc! { "_id": 2, "name": "bc" },
    ];
    let bytes: Vec<u8> = documents
        .iter()
        .flat_map(|document| document.as_bytes().to_vec())
        .collect();
    insert_verbatim(&db, "parts", documents).await.unwrap();
    let dump = shop.path("dump");
    assert_success(&odm(&[
        "dump",
        &url,
        dump.to_str().unwrap(),
        "--database",
        "test",
    ]));
    assert_eq!(fs::read(dump.join("test/parts.bson")).unwrap(), bytes);
    let metadata = fs::read_to_string(dump.join("test/parts.metadata.json")).unwrap();
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    assert_eq!(metadata["collectionName"], "parts");
    assert_eq!(metadata["type"], "collection");
    assert_eq!(metadata["indexes"][0]["name"], "_id_");
    assert_eq!(
        metadata["indexes"][0]["key"]["_id"],
        serde_json::json!({ "$numberInt": "1" })
    );
    let lines = odm(&["export", &url, "parts"]);
    assert_success(&lines);
    assert_eq!(
        lines.stdout,
        b"{\"_id\":1,\"name\":\"a\"}\n{\"_id\":2,\"name\":\"bc\"}\n"
    );
    let cells = odm(&[
        "export", &url, "parts", "--format", "csv", "--fields", "name,_id",
    ]);
    assert_eq!(cells.stdout, b"name,_id\na,1\nbc,2\n");
    failure(&odm(&["export", &url, "missing"]), 1);
}
