//! Storms in which something is lost: the primary of a replica set of three, or the program itself, by `kill -9`.
//!
//! Whoever loses a server does not know what has become of an operation. All that was owed is carried out all the same, and everything is as
//! the schema says. They are short unless `ODM_STORM=full` asks for all of it.

use std::time::Duration;

use odm::{
    Database, ErrorKind,
    bson::{self, doc},
    prelude::*,
};
use odm_tests::{
    mongod::Trio,
    storm::{self, Copies, Counts, Size, Storm, Told},
};

#[cfg(feature = "engine")]
use crate::kill::Writer;

/// How often something is lost: so often in a short storm, and 8 times in a whole one.
fn losses(short: u64) -> u64 {
    if storm::is_full() { 8 } else { short }
}

/// The storm has lost its server.
fn is_lost(error: &odm::Error) -> bool {
    error.kind() == ErrorKind::Connection
}

async fn the_primary_is_killed<S: Storm>() {
    let mut trio = Trio::start().await.expect("a replica set");
    let db = Database::<S::Schema>::open(&trio.url("storm")).await;
    let db = db.expect("its database");
    let (size, losses, told) = (Size::of(6_250), losses(1), Told::default());
    storm::begin::<S>(&db, size).await;
    let writers = tokio::spawn({
        let (db, told) = (db.clone(), told.clone());
        async move { storm::blow::<S>(&db, size, &told, is_lost).await }
    });
    for loss in 1..=losses {
        while told.all() < size.all() * loss / (losses + 1) && !writers.is_finished() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(
            !writers.is_finished(),
            "the storm is over before it has lost anything"
        );
        trio.lose_primary().await.expect("another one");
    }
    writers.await.expect("a storm as expected");
    println!("{size:?}: {told}, with {losses} primaries lost");
    storm::rest::<S>(&db).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_outlive_the_primary() {
    the_primary_is_killed::<Copies>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_outlive_the_primary() {
    the_primary_is_killed::<Counts>().await;
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

/// What only the primary has is lost with it: nothing may be derived from it before others have it too.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_majority_has_is_not_read() {
    let trio = Trio::start().await.expect("a replica set");
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
    trio.hold_back(true).await.expect("two locked members");
    let renamed = hosts.update_one(doc! { "_id": 1_i64 }, doc! { "$set": { "name": "lost" } });
    assert_eq!(renamed.await.expect("an answer").modified_count, 1);
    let of_primary = hosts.find_one(doc! {}).await.expect("an answer");
    let of_primary = of_primary.expect("the document");
    assert_eq!(of_primary.get_str("name").ok(), Some("lost"));
    assert_eq!(db.get::<Host>(1).await.expect("an answer"), name("kept"));
    let asked = format!("{url}&readConcernLevel=local");
    let asked = Database::<Net>::open(&asked).await.expect("its database");
    assert_eq!(asked.get::<Host>(1).await.expect("an answer"), name("lost"));
    trio.hold_back(false).await.expect("two members");
    while db.get::<Host>(1).await.expect("an answer") == name("kept") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[cfg(feature = "engine")]
async fn the_program_is_killed<S: Storm>(storm: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("odm:{}", directory.path().join("storm.odm").display());
    let (size, losses) = (Size::of(6_250), losses(4));
    for loss in 0..losses {
        let mut writer = Writer::start(storm, &url, Size { seed: loss, ..size });
        writer.until(size.all() / losses).await;
    }
    println!("{size:?}, with {losses} programs lost");
    let db = Database::<S::Schema>::open(&url).await;
    storm::rest::<S>(&db.expect("it opens again")).await;
}

#[cfg(feature = "engine")]
#[tokio::test]
async fn copies_outlive_the_program() {
    the_program_is_killed::<Copies>("copies").await;
}

#[cfg(feature = "engine")]
#[tokio::test]
async fn counts_outlive_the_program() {
    the_program_is_killed::<Counts>("counts").await;
}
