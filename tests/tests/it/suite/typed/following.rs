//! When and by whom copies are brought up to date: only for another value, in batches, by one process at a time.

use std::{sync::Arc, time::Duration};

use odm::{
    Error, ErrorKind, Filter,
    backend::{
        Fault, Faults, Recorder,
        operation::{Change, Find, Operation, Update},
    },
    bson::{Bson, RawDocumentBuf, doc, rawdoc},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Place {
    city: String,
    room: i32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    ipaddr: String,
    #[embed]
    place: Place,
    load: f64,
    restarts: i32,
    #[computed(sum(restarts, restarts))]
    doubled: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "logmsgs")]
struct LogMessage {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    host: Ref<Host>,
    #[denormalize(from = host.ipaddr)]
    ipaddr: String,
    #[denormalize(from = host.place.city)]
    city: String,
    #[denormalize(from = host.doubled)]
    doubled: i64,
}

#[derive(Schema)]
#[schema(models(Host, LogMessage))]
struct Net;
type Db = odm::Database<Net>;

fn host(id: i64) -> NewHost {
    NewHost {
        id,
        ipaddr: format!("10.0.0.{id}"),
        place: Place {
            city: "Bern".into(),
            room: 1,
        },
        load: 0.0,
        restarts: 1,
    }
}

fn line(id: i64, host: i64) -> NewLogMessage {
    NewLogMessage {
        id,
        host: Ref::new(host),
    }
}

/// Two hosts with a message each, and nothing owed.
async fn net(db: &Db) {
    db.sync_indexes().await.unwrap();
    db.insert_many([host(1), host(2)]).await.unwrap();
    db.insert_many([line(1, 1), line(2, 2)]).await.unwrap();
    db.settled().await.unwrap();
}

async fn stored(fixture: &Fixture, collection: &'static str, id: i64) -> RawDocumentBuf {
    let find = Find {
        collection: collection.into(),
        filter: rawdoc! { "_id": id },
        projection: None,
        sort: None,
        limit: None,
    };
    let [found] = fixture
        .backend()
        .find_all(find)
        .await
        .unwrap()
        .try_into()
        .unwrap();
    found
}

/// A write of the host as a process leaves it that dies behind it: its copies are to follow, and others may see to that by now.
async fn left_behind(fixture: &Fixture, host: i64, ipaddr: &str, more: &[(&str, Bson)]) {
    let overdue = DateTime::from_millis(DateTime::now().timestamp_millis() - 1);
    let mut fan = doc! { "token": ObjectId::new(), "due": overdue };
    fan.extend(
        more.iter()
            .map(|(field, value)| ((*field).to_owned(), value.clone())),
    );
    let change =
        doc! { "$set": { "ipaddr": ipaddr, "_odm.fan": fan }, "$inc": { "_odm.rev": 1_i64 } };
    let update = Update {
        collection: "hosts".into(),
        filter: rawdoc! { "_id": host },
        change: Change::operators(RawDocumentBuf::try_from(&change).unwrap()),
        multi: false,
        upsert: false,
    };
    fixture.backend().update(update).await.unwrap();
}

fn writes_to_messages(recorder: &Recorder) -> usize {
    let operations = recorder.operations();
    let writes = operations.iter().filter(|operation| match operation {
        Operation::Update(update) => update.collection.to_string() == "logmsgs",
        _ => false,
    });
    writes.count()
}

pub async fn an_equal_value_follows_nowhere(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    net(&db).await;
    let (before, message) = (
        stored(&fixture, "hosts", 1).await,
        stored(&fixture, "logmsgs", 1).await,
    );
    recorder.clear();
    let same = db.update::<Host>(1).set(|h| h.ipaddr(), "10.0.0.1").await;
    assert!(same.unwrap().applied());
    let mixed = db
        .update::<Host>(1)
        .set(|h| h.place().city(), "Bern")
        .set(|h| h.place().room(), 2)
        .inc(|h| h.load(), 0.5);
    assert!(mixed.await.unwrap().applied());
    let moved = Place {
        city: "Bern".into(),
        room: 3,
    };
    db.update::<Host>(1)
        .set(|h| h.place(), moved)
        .await
        .unwrap();
    assert_eq!(writes_to_messages(&recorder), 0);
    let after = stored(&fixture, "hosts", 1).await;
    assert_eq!(after.get("_odm").unwrap(), before.get("_odm").unwrap());
    assert_eq!(after.get_f64("load").unwrap(), 0.5);
    assert_eq!(stored(&fixture, "logmsgs", 1).await, message);

    // Of several, those follow that have another value.
    let all = db.update_many::<Host>(|_| Filter::all());
    let all = all.set(|h| h.ipaddr(), "10.0.0.1").await.unwrap();
    assert_eq!(all.matched, 2);
    db.settled().await.unwrap();
    assert_eq!(stored(&fixture, "logmsgs", 1).await, message);
    assert_eq!(db.get::<LogMessage>(2).await.unwrap().ipaddr, "10.0.0.1");
    db.update::<Host>(1)
        .set(|h| h.place().city(), "Genf")
        .await
        .unwrap();
    db.settled().await.unwrap();
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().city, "Genf");

    // What is computed is compared by nobody.
    let both = db.update::<Host>(1).set(|h| h.ipaddr(), "10.0.0.1");
    both.inc(|h| h.restarts(), 1).await.unwrap();
    db.settled().await.unwrap();
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().doubled, 4);
    assert!(db.check().await.unwrap().is_clean());
}

pub async fn one_process_at_a_time_sees_to_it(fixture: Fixture) {
    let (db, other) = (
        Db::with_backend(fixture.backend()),
        Db::with_backend(fixture.backend()),
    );
    net(&db).await;
    left_behind(&fixture, 1, "::1", &[]).await;
    let (a, b) = tokio::join!(db.settle(), other.settle());
    assert_eq!(a.unwrap() + b.unwrap(), 1);
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().ipaddr, "::1");
}

pub async fn a_process_that_dies_at_it_leaves_it_to_others(fixture: Fixture) {
    let faults = Arc::new(Faults::new(fixture.backend()));
    let (db, dying) = (
        Db::with_backend(fixture.backend()),
        Db::with_backend(faults.clone()),
    );
    net(&db).await;
    left_behind(&fixture, 1, "::1", &[]).await;
    let takes = |operation: &Operation| matches!(operation, Operation::Update(_));
    faults.inject(1, takes, Fault::HangAfter);
    let died = tokio::time::timeout(Duration::from_millis(500), dying.settle()).await;
    assert!(died.is_err());
    // It is as good as at it, for a while.
    assert_eq!(db.settle().await.unwrap(), 0);
    let owed = db.owed().await.unwrap();
    assert_eq!(
        (owed.models.len(), owed.models[0].sources),
        (1, 1),
        "{owed}"
    );
    db.settled().within(Duration::from_secs(30)).await.unwrap();
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().ipaddr, "::1");
}

pub async fn how_far_a_fan_out_is(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    net(&db).await;
    let since = DateTime::from_millis(DateTime::now().timestamp_millis() - 60_000);
    let said = [("since", since.into()), ("followed", 4_000_i64.into())];
    left_behind(&fixture, 1, "::1", &said).await;
    let owed = db.owed().await.unwrap();
    let [of] = owed.models.as_slice() else {
        panic!("{owed}");
    };
    assert_eq!((of.sources, of.followed), (1, 4_000));
    assert!(of.age >= Duration::from_secs(60), "{owed}");
    db.settled().await.unwrap();
    assert_eq!(db.owed().await.unwrap().to_string(), "nothing");
}

pub async fn a_worker_carries_out_what_others_left(fixture: Fixture) {
    let faults = Arc::new(Faults::new(fixture.backend()));
    let (db, working) = (
        Db::with_backend(fixture.backend()),
        Db::with_backend(faults.clone()),
    );
    net(&db).await;
    let broken = Error::new(ErrorKind::Invalid, "injected");
    faults.inject(1, |_| true, Fault::Before(broken));
    let worker = working.settle_every(Duration::from_millis(5));
    left_behind(&fixture, 1, "::1", &[]).await;
    let settled = async {
        while worker.progress().documents == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), settled)
        .await
        .unwrap();
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().ipaddr, "::1");
    let progress = worker.progress();
    assert_eq!((progress.documents, progress.failures), (1, 1));
    assert!(progress.rounds >= 2);
    assert_eq!(progress.last_failure.unwrap().kind(), ErrorKind::Invalid);
}

/// More than one write changes.
pub async fn very_many_follow_in_batches(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    net(&db).await;
    db.insert_many((10..20_010).map(|id| line(id, 1)))
        .await
        .unwrap();
    db.settled().within(Duration::from_secs(60)).await.unwrap();
    recorder.clear();
    db.update::<Host>(1)
        .set(|h| h.ipaddr(), "::1")
        .await
        .unwrap();
    // The first of both is overtaken.
    db.update::<Host>(1)
        .set(|h| h.ipaddr(), "::2")
        .await
        .unwrap();
    db.settled().within(Duration::from_secs(60)).await.unwrap();
    let behind = db
        .find::<LogMessage>()
        .filter(|m| m.host().eq(Ref::new(1)) & m.ipaddr().ne("::2"));
    assert_eq!(behind.count().await.unwrap(), 0);
    assert!(writes_to_messages(&recorder) > 20);
    assert_eq!(db.get::<LogMessage>(2).await.unwrap().ipaddr, "10.0.0.2");
}
