//! Fan-outs of copied values: only for changed values, in batches, by a single process at a time.

use std::{sync::Arc, time::Duration};

use odm::{
    Error, ErrorKind, Filter,
    backend::{
        Fault, Faults, Recorder,
        operation::{DocumentChange, FindOperation, Operation, UpdateOperation},
    },
    bson::{Bson, RawDocumentBuf, doc, rawdoc},
    prelude::*,
};

use crate::{
    Fixture,
    operation_lists::{CostRow, OperationLists, read_row, write_row},
};

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
    text: Option<String>,
}

/// A copy of a copy, in an array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Line {
    #[reference]
    message: Ref<LogMessage>,
    #[denormalize(from = message.ipaddr)]
    ipaddr: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "reports", insert_struct)]
struct Report {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 10)]
    lines: Vec<Line>,
}

#[derive(Deserialize, Projection)]
#[projection(of = LogMessage)]
struct Address {
    #[expect(dead_code, reason = "it is never read")]
    ipaddr: String,
}

#[derive(Schema)]
#[schema(models(Host, LogMessage, Report))]
struct Net;
type Db = odm::Database<Net>;

/// The earlier declaration of [`LogMessage`].
mod earlier_declaration {
    use odm::prelude::*;

    use super::Host;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "logmsgs")]
    pub(super) struct LogMessage {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[reference]
        pub(super) host: Ref<Host>,
        #[denormalize(from = host.place.city)]
        pub(super) city: String,
        pub(super) ipaddr: String,
        pub(super) doubled: i64,
    }

    #[derive(Schema)]
    #[schema(models(Host, LogMessage))]
    pub(super) struct Net;
}

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
        text: None,
    }
}

/// Inserts two hosts with a message each, and waits for pending work.
async fn insert_net(db: &Db) {
    db.sync_indexes().await.unwrap();
    db.insert_many([host(1), host(2)]).await.unwrap();
    db.insert_many([line(1, 1), line(2, 2)]).await.unwrap();
    db.wait_for_pending().await.unwrap();
}

async fn stored_document(fixture: &Fixture, collection: &'static str, id: i64) -> RawDocumentBuf {
    let find = FindOperation {
        collection: collection.into(),
        filter: rawdoc! { "_id": id },
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
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

/// Writes a host like a process that dies before the fan-out. The lease has expired, so any process can complete the fan-out.
async fn write_without_fan_out(fixture: &Fixture, host: i64, ipaddr: &str, more: &[(&str, Bson)]) {
    let expired = DateTime::from_millis(DateTime::now().timestamp_millis() - 1);
    let mut fan_out = doc! { "token": ObjectId::new(), "lease": expired };
    fan_out.extend(
        more.iter()
            .map(|(field, value)| ((*field).to_owned(), value.clone())),
    );
    let change = doc! {
        "$set": { "ipaddr": ipaddr, "_odm.pending.fan_out": fan_out },
        "$inc": { "_odm.version": 1_i64 },
    };
    let update = UpdateOperation {
        collection: "hosts".into(),
        filter: rawdoc! { "_id": host },
        change: DocumentChange::operators(RawDocumentBuf::try_from(&change).unwrap()),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    fixture.backend().update(update).await.unwrap();
}

fn writes_to_messages(recorder: &Recorder) -> usize {
    let operations = recorder.operations();
    let writes = operations.iter().filter(|operation| match operation {
        Operation::Update(update) => update.collection == "logmsgs",
        _ => false,
    });
    writes.count()
}

pub async fn an_unchanged_value_starts_no_fan_out(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    insert_net(&db).await;
    let (before, message) = (
        stored_document(&fixture, "hosts", 1).await,
        stored_document(&fixture, "logmsgs", 1).await,
    );
    recorder.clear();
    let same = db.update::<Host>(1).set(|h| h.ipaddr(), "10.0.0.1").await;
    assert!(same.unwrap().is_applied());
    let mixed = db
        .update::<Host>(1)
        .set(|h| h.place().city(), "Bern")
        .set(|h| h.place().room(), 2)
        .inc(|h| h.load(), 0.5);
    assert!(mixed.await.unwrap().is_applied());
    let moved = Place {
        city: "Bern".into(),
        room: 3,
    };
    db.update::<Host>(1)
        .set(|h| h.place(), moved)
        .await
        .unwrap();
    assert_eq!(writes_to_messages(&recorder), 0);
    let after = stored_document(&fixture, "hosts", 1).await;
    assert_eq!(after.get("_odm").unwrap(), before.get("_odm").unwrap());
    assert_eq!(after.get_f64("load").unwrap(), 0.5);
    assert_eq!(stored_document(&fixture, "logmsgs", 1).await, message);

    // An update of several sources starts fan-outs only for changed values.
    let all = db.update_many::<Host>(|_| Filter::all());
    let all = all.set(|h| h.ipaddr(), "10.0.0.1").await.unwrap();
    assert_eq!(all.matched, 2);
    db.wait_for_pending().await.unwrap();
    assert_eq!(stored_document(&fixture, "logmsgs", 1).await, message);
    assert_eq!(db.get::<LogMessage>(2).await.unwrap().ipaddr, "10.0.0.1");
    db.update::<Host>(1)
        .set(|h| h.place().city(), "Genf")
        .await
        .unwrap();
    db.wait_for_pending().await.unwrap();
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().city, "Genf");

    // A write does not compare the old and new values of a computed field.
    let both = db.update::<Host>(1).set(|h| h.ipaddr(), "10.0.0.1");
    both.inc(|h| h.restarts(), 1).await.unwrap();
    db.wait_for_pending().await.unwrap();
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().doubled, 4);
    assert!(db.check().await.unwrap().is_clean());
}

pub async fn a_single_process_runs_a_fan_out(fixture: Fixture) {
    let (db, other) = (
        Db::with_backend(fixture.backend()),
        Db::with_backend(fixture.backend()),
    );
    insert_net(&db).await;
    write_without_fan_out(&fixture, 1, "::1", &[]).await;
    let (a, b) = tokio::join!(db.run_pending(), other.run_pending());
    assert_eq!(a.unwrap() + b.unwrap(), 1);
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().ipaddr, "::1");
}

pub async fn a_fan_out_survives_process_death(fixture: Fixture) {
    let faults = Arc::new(Faults::new(fixture.backend()));
    let (db, dying) = (
        Db::with_backend(fixture.backend()),
        Db::with_backend(faults.clone()),
    );
    insert_net(&db).await;
    write_without_fan_out(&fixture, 1, "::1", &[]).await;
    let takes = |operation: &Operation| matches!(operation, Operation::Update(_));
    faults.inject(1, takes, Fault::HangAfter);
    let died = tokio::time::timeout(Duration::from_millis(500), dying.run_pending()).await;
    assert!(died.is_err());
    // The lease of the dead process has not expired yet.
    assert_eq!(db.run_pending().await.unwrap(), 0);
    let pending = db.pending().await.unwrap();
    assert_eq!(
        (pending.models.len(), pending.models[0].fan_outs),
        (1, 1),
        "{pending}"
    );
    db.wait_for_pending()
        .timeout(Duration::from_secs(30))
        .await
        .unwrap();
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().ipaddr, "::1");
}

pub async fn pending_reports_fan_out_progress(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_net(&db).await;
    let since = DateTime::from_millis(DateTime::now().timestamp_millis() - 60_000);
    let progress = [("since", since.into()), ("updated", 4_000_i64.into())];
    write_without_fan_out(&fixture, 1, "::1", &progress).await;
    let pending = db.pending().await.unwrap();
    let [model] = pending.models.as_slice() else {
        panic!("{pending}");
    };
    assert_eq!((model.fan_outs, model.copied), (1, 4_000));
    assert!(model.age >= Duration::from_secs(60), "{pending}");
    db.wait_for_pending().await.unwrap();
    assert_eq!(db.pending().await.unwrap().to_string(), "nothing");
}

/// The age of pending work is the age of the write, and does not depend on the lease.
pub async fn the_age_of_pending_work_is_independent_of_the_lease(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_net(&db).await;
    let seconds = |time: DateTime| u32::try_from(time.timestamp_millis() / 1_000).unwrap();
    let token = ObjectId::from_parts(seconds(DateTime::now()) - 60, [1; 5], [2; 3]);
    let lease = DateTime::from_millis(DateTime::now().timestamp_millis() + 600_000);
    let record = [("token", token.into()), ("lease", lease.into())];
    write_without_fan_out(&fixture, 1, "::1", &record).await;
    let pending = db.pending().await.unwrap();
    let [model] = pending.models.as_slice() else {
        panic!("{pending}");
    };
    assert!(model.age >= Duration::from_secs(60), "{pending}");
    assert!(model.age < Duration::from_secs(120), "{pending}");
}

/// A source with copies that are updated in the background.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "sources")]
struct Source {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "mirrors")]
struct Mirror {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    source: Ref<Source>,
    #[denormalize(from = source.name, background)]
    name: String,
}

#[derive(Schema)]
#[schema(models(Source, Mirror))]
struct Mirrors;

fn writes_mirrors(operation: &Operation) -> bool {
    let collection = match operation {
        Operation::Update(update) => &update.collection,
        Operation::BulkWrite(bulk) => bulk.writes[0].write.collection(),
        _ => return false,
    };
    collection == "mirrors"
}

/// With a single background fan-out at once, a fan-out waits for the end of another. With two, both run.
pub async fn the_number_of_background_fan_outs_is_limited(fixture: Fixture) {
    for at_once in [1, 2] {
        let faults = Arc::new(Faults::new(fixture.backend()));
        let options = odm::Database::<Mirrors>::options().background_fan_outs(at_once);
        let db = options.open_backend(faults.clone()).await.unwrap();
        db.sync_indexes().await.unwrap();
        let ids = [10 * at_once as i64, 10 * at_once as i64 + 1];
        for id in ids {
            let name = "old".to_owned();
            db.insert(Source { id, name }).await.unwrap();
            let source = Ref::new(id);
            db.insert(NewMirror { id, source }).await.unwrap();
        }
        db.wait_for_pending().await.unwrap();

        faults.inject(1, writes_mirrors, Fault::HangBefore);
        let rename = |id| db.update::<Source>(id).set(|s| s.name(), "new");
        rename(ids[0]).await.unwrap();
        // The first fan-out hangs, and keeps its slot.
        while faults.pending() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        rename(ids[1]).await.unwrap();
        let followed = async {
            while db.get::<Mirror>(ids[1]).await.unwrap().name != "new" {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let limit = Duration::from_secs(if at_once == 1 { 1 } else { 60 });
        let followed = tokio::time::timeout(limit, followed).await;
        assert_eq!(followed.is_ok(), at_once == 2, "{at_once} at once");
    }
}

/// A source with copies of copies, all in the background.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "reflections")]
struct Reflection {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    mirror: Ref<Mirror>,
    #[denormalize(from = mirror.name, background)]
    name: String,
}

#[derive(Schema)]
#[schema(models(Source, Mirror, Reflection))]
struct Reflections;

/// With a full queue, a fan-out that starts other fan-outs still ends.
pub async fn fan_outs_of_copied_copies_need_no_place_in_the_queue(fixture: Fixture) {
    // More sources than the queue has places. The first has so many dependents that they are updated in a transaction.
    const SOURCES: i64 = 80;
    const MANY_DEPENDENTS: i64 = 600;
    let options = odm::Database::<Reflections>::options().background_fan_outs(1);
    let db = options.open_backend(fixture.backend()).await.unwrap();
    db.sync_indexes().await.unwrap();
    let sources = (0..SOURCES).map(|id| Source {
        id,
        name: "old".to_owned(),
    });
    db.insert_many(sources).await.unwrap();
    let mirrors = (0..MANY_DEPENDENTS).map(|id| NewMirror {
        id,
        source: Ref::new(id.max(MANY_DEPENDENTS - SOURCES) - (MANY_DEPENDENTS - SOURCES)),
    });
    db.insert_many(mirrors).await.unwrap();
    let reflections = (0..MANY_DEPENDENTS).map(|id| NewReflection {
        id,
        mirror: Ref::new(id),
    });
    db.insert_many(reflections).await.unwrap();
    db.wait_for_pending().await.unwrap();

    let renames = (0..SOURCES).map(async |id| {
        let rename = db.update::<Source>(id).set(|s| s.name(), "new");
        rename.await.unwrap();
    });
    futures_util::future::join_all(renames).await;
    let limit = Duration::from_secs(120);
    db.wait_for_pending().timeout(limit).await.unwrap();
    let old = db.find::<Reflection>().filter(|r| r.name().eq("old"));
    assert_eq!(old.count().await.unwrap(), 0);
}

/// Pending work is recorded with the lease of the process that records it. Other processes see the stored end of the lease.
pub async fn the_lease_is_as_long_as_set(fixture: Fixture) {
    for (id, seconds) in [(1, 3_600), (2, 5)] {
        let faults = Arc::new(Faults::new(fixture.backend()));
        let mut options = odm::Database::<Mirrors>::options();
        if seconds != 5 {
            options = options.pending_lease(Duration::from_secs(seconds));
        }
        let db = options.open_backend(faults.clone()).await.unwrap();
        db.sync_indexes().await.unwrap();
        let (name, source) = ("old".to_owned(), Ref::new(id));
        db.insert(Source { id, name }).await.unwrap();
        db.insert(NewMirror { id, source }).await.unwrap();
        db.wait_for_pending().await.unwrap();

        faults.inject(1, writes_mirrors, Fault::Delay(Duration::from_secs(3)));
        let before = DateTime::now().timestamp_millis();
        let rename = db.update::<Source>(id).set(|s| s.name(), "new");
        rename.await.unwrap();
        let after = DateTime::now().timestamp_millis();
        // The delayed fan-out keeps its record.
        while faults.pending() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }

        let find = FindOperation {
            collection: "sources".into(),
            filter: rawdoc! { "_id": id },
            projection: None,
            sort: None,
            limit: None,
            options: Default::default(),
        };
        let found = fixture.backend().find_all(find).await.unwrap();
        let metadata = found[0].get_document("_odm").unwrap();
        let record = metadata.get_document("pending").unwrap();
        let record = record.get_document("fan_out").unwrap();
        let lease_end = record.get_datetime("lease").unwrap().timestamp_millis();
        let duration = i64::try_from(seconds * 1_000).unwrap();
        assert!(
            (before + duration..=after + duration).contains(&lease_end),
            "{seconds} seconds: {before} to {after}, {lease_end}"
        );
        db.wait_for_pending().await.unwrap();
    }
}

pub async fn a_worker_completes_abandoned_fan_outs(fixture: Fixture) {
    let faults = Arc::new(Faults::new(fixture.backend()));
    let (db, working) = (
        Db::with_backend(fixture.backend()),
        Db::with_backend(faults.clone()),
    );
    insert_net(&db).await;
    let broken = Error::new(ErrorKind::Invalid, "injected");
    faults.inject(1, |_| true, Fault::FailBefore(broken));
    let worker = working.spawn_worker(Duration::from_millis(5));
    write_without_fan_out(&fixture, 1, "::1", &[]).await;
    let completed = async {
        while worker.progress().documents == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), completed)
        .await
        .unwrap();
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().ipaddr, "::1");
    let progress = worker.progress();
    assert_eq!((progress.documents, progress.failures), (1, 1));
    assert!(progress.rounds >= 2);
    assert_eq!(progress.last_failure.unwrap().kind(), ErrorKind::Invalid);
}

/// A fan-out to 20,000 dependents needs several batches.
pub async fn a_large_fan_out_runs_in_batches(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = PairDb::with_backend(recorder.clone());
    insert_net(&Db::with_backend(fixture.backend())).await;
    db.insert_many((10..20_010).map(|id| line(id, 1)))
        .await
        .unwrap();
    db.wait_for_pending()
        .timeout(Duration::from_secs(60))
        .await
        .unwrap();
    recorder.clear();
    db.update::<Host>(1)
        .set(|h| h.ipaddr(), "::1")
        .await
        .unwrap();
    // The second update overtakes the fan-out of the first update.
    db.update::<Host>(1)
        .set(|h| h.ipaddr(), "::2")
        .await
        .unwrap();
    db.wait_for_pending()
        .timeout(Duration::from_secs(60))
        .await
        .unwrap();
    let outdated = db
        .find::<LogMessage>()
        .filter(|m| m.host().eq(Ref::new(1)) & m.ipaddr().ne("::2"));
    assert_eq!(outdated.count().await.unwrap(), 0);
    assert!(writes_to_messages(&recorder) > 20);
    assert_eq!(db.get::<LogMessage>(2).await.unwrap().ipaddr, "10.0.0.2");
}

pub async fn current_reads_values_of_the_source(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    insert_net(&db).await;
    let lines = [1, 2].map(|message| NewLine {
        message: Ref::new(message),
    });
    let report = NewReport {
        id: 1,
        lines: lines.into(),
    };
    db.insert(report).await.unwrap();
    db.wait_for_pending().await.unwrap();
    write_without_fan_out(&fixture, 1, "::1", &[]).await;
    recorder.clear();
    let stored = db.find::<LogMessage>().sort(|m| m.id().asc());
    let ips = |all: Vec<LogMessage>| {
        all.into_iter()
            .map(|message| message.ipaddr)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        ips(stored.clone().all().await.unwrap()),
        ["10.0.0.1", "10.0.0.2"]
    );
    recorder.clear();
    assert_eq!(
        ips(stored.clone().current().all().await.unwrap()),
        ["::1", "10.0.0.2"]
    );
    assert_eq!(
        recorder.operations().len(),
        2,
        "{:?}",
        recorder.operations()
    );
    let page = stored.clone().current().page(1).await.unwrap();
    assert_eq!(page.items[0].ipaddr, "::1");
    let mut rows = stored.clone().current().stream();
    assert_eq!(rows.next().await.unwrap().unwrap().ipaddr, "::1");
    // Copies of copies need an additional query.
    recorder.clear();
    let report = db.find::<Report>().current().one().await.unwrap();
    let ips: Vec<_> = report.lines.iter().map(|line| &*line.ipaddr).collect();
    assert_eq!(ips, ["::1", "10.0.0.2"]);
    assert_eq!(recorder.operations().len(), 3);
    // A read of current values writes no documents.
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().ipaddr, "10.0.0.1");

    for refused in [
        stored
            .clone()
            .current()
            .select::<Address>()
            .all()
            .await
            .map(drop),
        stored.clone().current().max(|m| m.ipaddr()).await.map(drop),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    // A copy keeps its last value after a delete of its source.
    db.delete::<Host>(2).await.unwrap();
    let kept = db
        .find::<LogMessage>()
        .filter(|m| m.id().eq(2))
        .current()
        .one();
    assert_eq!(kept.await.unwrap().ipaddr, "10.0.0.2");
}

/// A schema without copies of copies.
#[derive(Schema)]
#[schema(models(Host, LogMessage))]
struct Pair;
type PairDb = odm::Database<Pair>;

/// The operations of the round-trip table in `book/src/copies.md`, in sequence.
const COST_ROWS: &[CostRow<Pair>] = &[
    write_row!("insert of 1,000 that copy from one document", |db| {
        db.insert_many((1_000..2_000).map(|id| line(id, 2)))
    }),
    write_row!("update of a copied field with 11 dependents", |db| {
        db.update::<Host>(1).set(|h| h.ipaddr(), "::1")
    }),
    write_row!("the same update again, without a change", |db| {
        db.update::<Host>(1).set(|h| h.ipaddr(), "::1")
    }),
    write_row!("update of a field without copies", |db| {
        db.update::<Host>(1).set(|h| h.load(), 0.5)
    }),
    write_row!("update of a reference with copies", |db| {
        db.update::<LogMessage>(1).set(|m| m.host(), Ref::new(2))
    }),
    write_row!("update of a plain field of a dependent", |db| {
        db.update::<LogMessage>(1).set(|m| m.text(), "other")
    }),
    read_row!("`current()` read of 1,011 dependents", |db| {
        db.find::<LogMessage>().current().all()
    }),
    write_row!("delete of a source with kept copies", |db| {
        db.delete::<Host>(1)
    }),
];

/// Changes a value that messages copy from a host, and reports from messages. Returns the number of operations until the fan-outs
/// are complete.
async fn cost_of_a_chain(
    (db, recorder): (&Db, &Recorder),
    aside: &Db,
    host: i64,
    messages: std::ops::Range<i64>,
) -> usize {
    db.insert(self::host(host)).await.unwrap();
    db.insert_many(messages.clone().map(|id| line(id, host)))
        .await
        .unwrap();
    let reports = messages.map(|id| NewReport {
        id,
        lines: vec![NewLine {
            message: Ref::new(id),
        }],
    });
    db.insert_many(reports).await.unwrap();
    aside.wait_for_pending().await.unwrap();
    recorder.clear();
    let update = db.update::<Host>(host).set(|h| h.ipaddr(), "::7");
    update.await.unwrap();
    aside.wait_for_pending().await.unwrap();
    let operations = recorder.operations();
    let sent = operations
        .iter()
        .filter(|operation| !matches!(operation, Operation::Begin));
    sent.count()
}

pub async fn fan_out_of_copied_copies_has_constant_cost(fixture: Fixture) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()));
    insert_net(&db).await;
    let aside = Db::with_backend(fixture.backend());
    // The first fan-out also checks the indexes.
    cost_of_a_chain((&db, &recorder), &aside, 5, 50..51).await;
    let few = cost_of_a_chain((&db, &recorder), &aside, 3, 100..102).await;
    let more = cost_of_a_chain((&db, &recorder), &aside, 4, 200..400).await;
    assert_eq!(few, more);
    let outdated = db
        .find::<Report>()
        .filter(|report| report.id().gte(50) & report.lines().any(|line| line.ipaddr().ne("::7")));
    assert_eq!(outdated.count().await.unwrap(), 0);
}

pub async fn round_trips_of_copies_match_the_book(fixture: Fixture) {
    let column = match fixture.backend().capabilities().transactions {
        true => 2,
        false => 3,
    };
    let recorder = Recorder::new(fixture.backend());
    let (db, aside) = (
        PairDb::with_backend(Arc::new(recorder.clone())),
        Db::with_backend(fixture.backend()),
    );
    insert_net(&aside).await;
    db.insert_many((10..20).map(|id| line(id, 1)))
        .await
        .unwrap();
    // The first fan-out also checks the indexes.
    db.update::<Host>(1)
        .set(|h| h.ipaddr(), "::0")
        .await
        .unwrap();
    let mut counted = Vec::new();
    let mut lists = OperationLists::new(&fixture);
    for row in COST_ROWS {
        aside.wait_for_pending().await.unwrap();
        let count = lists.run_row(row, &db, &recorder).await;
        counted.push((row.name.to_owned(), count));
    }
    // The first fan-out of a copied copy also checks the indexes.
    let chain = Db::with_backend(Arc::new(recorder.clone()));
    cost_of_a_chain((&chain, &recorder), &aside, 3, 100..101).await;
    counted.push((
        "update of a copied field with 20 dependents and 20 dependents of the dependents"
            .to_owned(),
        cost_of_a_chain((&chain, &recorder), &aside, 4, 200..220).await,
    ));
    let page = include_str!("../../../../../book/src/copies.md");
    let (_, table) = page.split_once("## Round trips").expect("a table");
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    let documented = rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        (
            cells[1].to_owned(),
            cells[column].parse::<usize>().expect("a number"),
        )
    });
    assert_eq!(counted, documented.collect::<Vec<_>>());
    lists.assert_match_the_book();
}

pub async fn a_changed_declaration_needs_a_backfill(fixture: Fixture) {
    let (old, db) = (
        odm::Database::<earlier_declaration::Net>::with_backend(fixture.backend()),
        Db::with_backend(fixture.backend()),
    );
    // The declaration of a model with an empty collection is stored without a backfill.
    assert_eq!(old.backfills().await.unwrap(), []);
    let collections = fixture.backend().list_collections().await.unwrap();
    assert!(
        collections.iter().any(|name| name == "_odm.schema"),
        "{collections:?}"
    );
    old.sync_indexes().await.unwrap();
    old.insert(host(1)).await.unwrap();
    let first = earlier_declaration::NewLogMessage {
        id: 1,
        host: Ref::new(1),
        ipaddr: "?".into(),
        doubled: 0,
    };
    old.insert(first).await.unwrap();
    old.wait_for_pending().await.unwrap();
    assert_eq!(old.backfills().await.unwrap(), []);

    let [backfill] = db.backfills().await.unwrap().try_into().unwrap();
    assert_eq!(backfill.model, "LogMessage");
    assert_eq!(backfill.fields, ["doubled", "ipaddr"]);
    assert!(
        backfill
            .to_string()
            .contains("`db.repair().only::<LogMessage>().apply()`"),
        "{backfill}"
    );
    db.sync_indexes().await.unwrap();
    // A dry repair, or a repair of a different model, does not complete the backfill.
    db.repair().await.unwrap();
    db.repair().only::<Host>().apply().await.unwrap();
    assert_eq!(db.backfills().await.unwrap(), [backfill]);
    db.repair().only::<LogMessage>().apply().await.unwrap();
    assert_eq!(db.backfills().await.unwrap(), []);
    let message = db.get::<LogMessage>(1).await.unwrap();
    assert_eq!((&*message.ipaddr, message.doubled), ("10.0.0.1", 2));
}
