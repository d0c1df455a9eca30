//! A server that does not allow writes.

use bson::{Document, doc, rawdoc};
use mongodb::error::ErrorKind;
use odm_engine::Database;
use odm_wire::Server;

use super::TestServer;

#[tokio::test]
async fn a_server_is_read_only_unless_it_is_told_to_write() {
    let engine = Database::memory();
    let inserted = engine.insert("parts", vec![rawdoc! { "_id": 1 }]).unwrap();
    inserted.into_result().unwrap();
    let server = TestServer::start(Server::builder(engine.clone())).await;
    let client = server.client().await;
    let parts = client.database("odm").collection::<Document>("parts");
    assert_eq!(
        parts.find_one(doc! {}).await.unwrap(),
        Some(doc! { "_id": 1 })
    );
    let database = client.database("odm");
    for command in [
        doc! { "insert": "parts", "documents": [{ "_id": 2 }] },
        doc! { "update": "parts", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }] },
        doc! { "delete": "parts", "deletes": [{ "q": {}, "limit": 0 }] },
        doc! { "findAndModify": "parts", "remove": true },
        doc! { "create": "more" },
        doc! { "drop": "parts" },
        doc! { "dropDatabase": 1 },
        doc! { "createIndexes": "parts", "indexes": [{ "key": { "a": 1 }, "name": "a_1" }] },
        doc! { "dropIndexes": "parts", "index": "*" },
        doc! { "collMod": "parts" },
        doc! { "aggregate": "parts", "pipeline": [{ "$out": "more" }], "cursor": {} },
        doc! { "aggregate": "parts", "pipeline": [{ "$merge": "more" }], "cursor": {} },
        // A change stream would switch the change log of the file on.
        doc! { "aggregate": "parts", "pipeline": [{ "$changeStream": {} }], "cursor": {} },
    ] {
        let error = database.run_command(command.clone()).await.unwrap_err();
        let ErrorKind::Command(failure) = &*error.kind else {
            panic!("{command}: {error}");
        };
        assert_eq!(failure.code, 20, "{command}: {error}");
        assert!(failure.message.contains("read-only"), "{error}");
    }
    assert_eq!(engine.list_collections().unwrap(), ["parts"]);
    assert_eq!(engine.change_log(), None);
    let hello = database.run_command(doc! { "hello": 1 }).await.unwrap();
    assert!(hello.get_bool("readOnly").unwrap());
}

#[tokio::test]
async fn a_file_that_is_open_for_reads_stays_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.odm");
    let engine = Database::open(&path).unwrap();
    let inserted = engine.insert("parts", vec![rawdoc! { "_id": 1 }]).unwrap();
    inserted.into_result().unwrap();
    engine.close();
    let before = std::fs::read(&path).unwrap();
    let engine = Database::open_read_only(&path).unwrap();
    let server = TestServer::start(Server::builder(engine).allow_writes()).await;
    let client = server.client().await;
    let parts = client.database("odm").collection::<Document>("parts");
    assert_eq!(parts.count_documents(doc! {}).await.unwrap(), 1);
    assert!(parts.insert_one(doc! {}).await.is_err());
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let found = parts.find_one(doc! {}).session(&mut session).await;
    assert_eq!(found.unwrap(), Some(doc! { "_id": 1 }));
    session.commit_transaction().await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), before);
}
