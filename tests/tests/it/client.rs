//! A MongoDB client of the application, and options of the driver.

use std::sync::Arc;

use bson::doc;
use futures_util::TryStreamExt;
use mongodb::{
    Client,
    options::{Acknowledgment, ClientOptions, WriteConcern},
};
use odm::{Database, ErrorKind, backend::MongoDb, prelude::*};
use odm_tests::mongod;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "accounts")]
struct Account {
    #[serde(rename = "_id")]
    id: i64,
    credits: i64,
}

#[derive(Schema)]
#[schema(models(Account))]
struct Bank;

/// Inserts and updates an account through a backend, with a transaction.
async fn use_bank(backend: MongoDb) -> Database<Bank> {
    let db = Database::<Bank>::with_backend(Arc::new(backend));
    db.insert(Account { id: 1, credits: 5 }).await.unwrap();
    db.transaction(async |tx| -> odm::Result<_> {
        let credits = tx.get::<Account>(1).await?.credits;
        tx.update::<Account>(1)
            .set(|a| a.credits(), credits + 2)
            .await?;
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(db.get::<Account>(1).await.unwrap().credits, 7);
    db
}

#[tokio::test]
async fn a_client_of_the_application_is_used() {
    let server = mongod::replica_set().await;
    let mut options = ClientOptions::parse(server.url("")).await.unwrap();
    // A write that waits for one member alone could be lost.
    options.write_concern = Some(WriteConcern::nodes(1));
    let client = Client::with_options(options).unwrap();
    let backend = MongoDb::from_client(client.clone(), "shared_client").await;
    let backend = backend.unwrap();
    let concern = backend.driver_database().write_concern().cloned().unwrap();
    assert_eq!(concern.w, Some(Acknowledgment::Majority));
    assert_eq!(concern.journal, Some(true));
    let db = use_bank(backend).await;
    db.close().await.unwrap();
    // The client stays open.
    let accounts = client
        .database("shared_client")
        .collection::<bson::Document>("accounts");
    assert_eq!(
        accounts
            .count_documents(doc! { "credits": 7 })
            .await
            .unwrap(),
        1
    );
    client.database("shared_client").drop().await.unwrap();
}

#[tokio::test]
async fn options_of_the_driver_are_used() {
    let server = mongod::replica_set().await;
    let mut options = ClientOptions::parse(server.url("")).await.unwrap();
    options.app_name = Some("driver_options".into());
    let connect = |options| MongoDb::with_options(options, "driver_options");
    let backend = connect(options.clone()).await.unwrap();
    let db = use_bank(backend.clone()).await;
    let current = doc! { "$currentOp": { "idleConnections": true, "localOps": true } };
    let pipeline = [current, doc! { "$match": { "appName": "driver_options" } }];
    let admin = backend.client().database("admin");
    let operations = admin.aggregate(pipeline).await.unwrap();
    let operations: Vec<_> = operations.try_collect().await.unwrap();
    assert!(!operations.is_empty());
    backend.driver_database().drop().await.unwrap();
    db.close().await.unwrap();

    options.write_concern = Some(WriteConcern::nodes(1));
    let error = connect(options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidUrl);
    assert!(error.to_string().contains("w=1"), "{error}");
}
