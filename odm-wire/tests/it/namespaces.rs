//! Databases of clients in one file.

use bson::{Document, doc};
use mongodb::Client;
use odm_engine::{Count, Database};
use odm_wire::Server;

use super::TestServer;

async fn insert(client: &Client, database: &str, collection: &str) {
    let collection = client.database(database).collection::<Document>(collection);
    collection.insert_one(doc! { "_id": 1 }).await.unwrap();
}

#[tokio::test]
async fn collections_of_two_databases_are_separate() {
    let engine = Database::memory();
    let builder = Server::builder(engine.clone())
        .database_name("shop")
        .allow_writes();
    let server = TestServer::start(builder).await;
    let client = server.client().await;
    insert(&client, "shop", "orders").await;
    insert(&client, "test", "orders").await;
    insert(&client, "test", "users").await;
    // The main database has the names of the file.
    assert_eq!(engine.count("orders", &Count::default()).unwrap(), 1);
    let names = engine.list_collections().unwrap();
    assert_eq!(names, ["@test/orders", "@test/users", "orders"]);
    assert_eq!(
        client.list_database_names().await.unwrap(),
        ["shop", "test"]
    );
    let test = client.database("test");
    assert_eq!(
        test.list_collection_names().await.unwrap(),
        ["orders", "users"]
    );
    let filter = doc! { "name": { "$regex": "^u" } };
    let filtered = test.list_collection_names().filter(filter).await;
    assert_eq!(filtered.unwrap(), ["users"]);
    test.drop().await.unwrap();
    assert_eq!(engine.list_collections().unwrap(), ["orders"]);
    let reserved = client.database("shop").collection("@test/orders");
    assert!(reserved.insert_one(doc! {}).await.is_err());
}

#[tokio::test]
async fn pipelines_and_streams_stay_in_their_database() {
    let server = TestServer::writable().await;
    let client = server.client().await;
    let mut changes = client.database("b").watch().await.unwrap();
    for database in ["a", "b"] {
        insert(&client, database, "orders").await;
    }
    let b = client.database("b");
    b.collection("names")
        .insert_one(doc! { "_id": 1, "in": "b" })
        .await
        .unwrap();
    client
        .database("a")
        .collection("names")
        .insert_one(doc! { "_id": 1, "in": "a" })
        .await
        .unwrap();
    let lookup =
        doc! { "from": "names", "localField": "_id", "foreignField": "_id", "as": "names" };
    let facet = doc! { "$facet": { "only": [{ "$lookup": lookup }] } };
    let found = b
        .collection::<Document>("orders")
        .aggregate([facet])
        .await
        .unwrap();
    let found: Vec<_> = futures_util::TryStreamExt::try_collect(found)
        .await
        .unwrap();
    let names = bson::bson!([{ "_id": 1, "names": [{ "_id": 1, "in": "b" }] }]);
    assert_eq!(found[0].get("only"), Some(&names));
    for expected in ["orders", "names"] {
        let event = futures_util::TryStreamExt::try_next(&mut changes)
            .await
            .unwrap()
            .unwrap();
        let namespace = event.ns.unwrap();
        assert_eq!(
            (namespace.db.as_str(), namespace.coll.as_deref()),
            ("b", Some(expected))
        );
    }
}

/// An application can create a collection with a name that is too long for clients.
#[tokio::test]
async fn a_database_with_a_name_that_clients_cannot_use_is_measured_and_dropped() {
    let engine = Database::memory();
    engine.create_collection(&"c".repeat(300)).unwrap();
    engine.create_collection("orders").unwrap();
    let server = TestServer::start(Server::builder(engine.clone()).allow_writes()).await;
    let database = server.client().await.database("odm");
    let sizes = database.run_command(doc! { "dbStats": 1 }).await.unwrap();
    assert_eq!(sizes.get_i64("collections").unwrap(), 2);
    database.drop().await.unwrap();
    assert_eq!(engine.list_collections().unwrap(), [""; 0]);
}

#[tokio::test]
async fn sizes_are_of_the_collection_and_of_the_database() {
    let server = TestServer::writable().await;
    let client = server.client().await;
    for collection in ["orders", "users"] {
        insert(&client, "test", collection).await;
    }
    let test = client.database("test");
    let sizes = test.run_command(doc! { "dbStats": 1 }).await.unwrap();
    // A document `{ _id: 1 }` has 14 bytes.
    assert_eq!(sizes.get_i64("objects").unwrap(), 2);
    assert_eq!(sizes.get_i64("dataSize").unwrap(), 28);
    assert_eq!(sizes.get_i64("indexes").unwrap(), 2);
    let sizes = test
        .run_command(doc! { "collStats": "orders" })
        .await
        .unwrap();
    assert_eq!(sizes.get_i32("count").unwrap(), 1);
    assert_eq!(sizes.get_i32("size").unwrap(), 14);
    let stage = doc! { "$collStats": { "count": {} } };
    let command = doc! { "aggregate": "orders", "pipeline": [stage, { "$project": { "count": 1 } }], "cursor": {} };
    let reply = test.run_command(command).await.unwrap();
    let batch = reply
        .get_document("cursor")
        .unwrap()
        .get_array("firstBatch")
        .unwrap();
    assert_eq!(batch[0].as_document(), Some(&doc! { "count": 1_i64 }));
}
