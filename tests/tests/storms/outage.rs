//! Storms with losses: `kill -9` ends the primary of a replica set with three members, or the program itself.
//!
//! After a loss, the outcome of the interrupted operation is unknown. All pending work must still complete, and the data must
//! match the schema. Storms are short, unless `ODM_STORM=full` is set.

use std::time::Duration;

use odm::{
    Database, ErrorKind,
    bson::{self, doc},
    prelude::*,
};
use odm_tests::{
    mongod::ThreeMemberSet,
    storm::{self, Copies, OutcomeCounts, Rollups, Size, Storm},
};

use crate::kill::Writer;

/// Returns the number of losses: `short` in a short storm, and 8 in a full storm.
fn number_of_losses(short: u64) -> u64 {
    if storm::is_full() { 8 } else { short }
}

/// Whether an error means that the storm has lost the server.
fn is_connection_lost(error: &odm::Error) -> bool {
    error.kind() == ErrorKind::Connection
}

async fn storm_with_primary_losses<S: Storm>() {
    let mut trio = ThreeMemberSet::start().await.expect("a replica set");
    let db = Database::<S::Schema>::open(&trio.url("storm")).await;
    let db = db.expect("its database");
    let (size, losses, outcomes) = (
        Size::of(6_250),
        number_of_losses(1),
        OutcomeCounts::default(),
    );
    storm::begin::<S>(&db, size).await;
    let writers = tokio::spawn({
        let (db, outcomes) = (db.clone(), outcomes.clone());
        async move { storm::run_tasks::<S>(&db, size, &outcomes, is_connection_lost).await }
    });
    for loss in 1..=losses {
        while outcomes.all() < size.all() * loss / (losses + 1) && !writers.is_finished() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(
            !writers.is_finished(),
            "the storm is over before it has lost anything"
        );
        trio.lose_primary().await.expect("another one");
    }
    writers.await.expect("a storm as expected");
    println!("{size:?}: {outcomes}, with {losses} primaries lost");
    storm::check_after_storm::<S>(&db).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_outlive_the_primary() {
    storm_with_primary_losses::<Copies>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rollups_outlive_the_primary() {
    storm_with_primary_losses::<Rollups>().await;
}

#[derive(Debug, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

#[derive(Schema)]
#[schema(models(Host))]
struct Net;

/// A read returns only data that a majority has. A lost primary takes the remaining data away, but not the values derived from
/// that data.
#[tokio::test(flavor = "multi_thread")]
async fn reads_return_majority_data() {
    let trio = ThreeMemberSet::start().await.expect("a replica set");
    let url = trio.url("outage");
    let db = Database::<Net>::open(&url).await.expect("its database");
    let hand = mongodb::Client::with_uri_str(format!("{url}&w=1")).await;
    let hand = hand.expect("a client").database("outage");
    let hosts = hand.collection::<bson::Document>("hosts");
    let name = |name: &str| Host {
        id: 1,
        name: name.to_owned(),
    };
    db.insert(name("kept")).await.expect("an answer");
    trio.pause_replication(true)
        .await
        .expect("two locked members");
    let renamed = hosts.update_one(doc! { "_id": 1_i64 }, doc! { "$set": { "name": "lost" } });
    assert_eq!(renamed.await.expect("an answer").modified_count, 1);
    let of_primary = hosts.find_one(doc! {}).await.expect("an answer");
    let of_primary = of_primary.expect("the document");
    assert_eq!(of_primary.get_str("name").ok(), Some("lost"));
    assert_eq!(db.get::<Host>(1).await.expect("an answer"), name("kept"));
    let local = format!("{url}&readConcernLevel=local");
    let local = Database::<Net>::open(&local).await.expect("its database");
    assert_eq!(local.get::<Host>(1).await.expect("an answer"), name("lost"));
    trio.pause_replication(false).await.expect("two members");
    while db.get::<Host>(1).await.expect("an answer") == name("kept") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn storm_with_program_losses<S: Storm>(storm: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("odm:{}", directory.path().join("storm.odm").display());
    let (size, losses) = (Size::of(6_250), number_of_losses(4));
    for loss in 0..losses {
        let mut writer = Writer::start(storm, &url, Size { seed: loss, ..size });
        writer.wait_for_operations(size.all() / losses).await;
    }
    println!("{size:?}, with {losses} programs lost");
    let db = Database::<S::Schema>::open(&url).await;
    storm::check_after_storm::<S>(&db.expect("it opens again")).await;
}

#[tokio::test]
async fn copies_outlive_the_program() {
    storm_with_program_losses::<Copies>("copies").await;
}

#[tokio::test]
async fn rollups_outlive_the_program() {
    storm_with_program_losses::<Rollups>("rollups").await;
}
