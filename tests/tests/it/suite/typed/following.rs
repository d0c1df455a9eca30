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

use crate::{Fixture, crash::Done};

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
#[document(collection = "reports", companion)]
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

/// As [`LogMessage`] was declared before.
mod before {
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
        max_time: None,
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
        Operation::Update(update) => update.collection == "logmsgs",
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
    let db = PairDb::with_backend(recorder.clone());
    net(&Db::with_backend(fixture.backend())).await;
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

pub async fn a_read_may_ask_for_what_is_so_now(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    net(&db).await;
    let lines = [1, 2].map(|message| NewLine {
        message: Ref::new(message),
    });
    let report = NewReport {
        id: 1,
        lines: lines.into(),
    };
    db.insert(report).await.unwrap();
    db.settled().await.unwrap();
    left_behind(&fixture, 1, "::1", &[]).await;
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
    // Copies of copies, in one query more.
    recorder.clear();
    let report = db.find::<Report>().current().one().await.unwrap();
    let ips: Vec<_> = report.lines.iter().map(|line| &*line.ipaddr).collect();
    assert_eq!(ips, ["::1", "10.0.0.2"]);
    assert_eq!(recorder.operations().len(), 3);
    // Nothing was written.
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
    // A source that is gone leaves its last value.
    db.delete::<Host>(2).await.unwrap();
    let kept = db
        .find::<LogMessage>()
        .filter(|m| m.id().eq(2))
        .current()
        .one();
    assert_eq!(kept.await.unwrap().ipaddr, "10.0.0.2");
}

/// Without copies of copies.
#[derive(Schema)]
#[schema(models(Host, LogMessage))]
struct Pair;
type PairDb = odm::Database<Pair>;

/// An operation of the table of copies.
type Row = (&'static str, fn(&PairDb) -> Done<'_, odm::Result<()>>);

/// One after the other, each on what those before it have left.
const ROWS: &[Row] = &[
    ("insert of 1,000 that copy from one document", |db| {
        let lines = (1_000..2_000).map(|id| line(id, 2));
        Box::pin(async move { db.insert_many(lines).await.map(drop) })
    }),
    ("update of a copied field, which 11 follow", |db| {
        let update = db.update::<Host>(1).set(|h| h.ipaddr(), "::1");
        Box::pin(async move { update.await.map(drop) })
    }),
    ("the same with the value that is there", |db| {
        let update = db.update::<Host>(1).set(|h| h.ipaddr(), "::1");
        Box::pin(async move { update.await.map(drop) })
    }),
    ("update of a field that nobody copies", |db| {
        let update = db.update::<Host>(1).set(|h| h.load(), 0.5);
        Box::pin(async move { update.await.map(drop) })
    }),
    ("update of a reference with copies", |db| {
        let update = db.update::<LogMessage>(1).set(|m| m.host(), Ref::new(2));
        Box::pin(async move { update.await.map(drop) })
    }),
    ("update of what has copies, but for these", |db| {
        let update = db.update::<LogMessage>(1).set(|m| m.text(), "other");
        Box::pin(async move { update.await.map(drop) })
    }),
    ("read of 1,011 with copies as their sources are now", |db| {
        Box::pin(async move { db.find::<LogMessage>().current().all().await.map(drop) })
    }),
    ("delete of a source whose copies stay", |db| {
        Box::pin(async move { db.delete::<Host>(1).await.map(drop) })
    }),
];

/// Changes what messages copy, which reports copy in turn, until nothing is owed; gives how many operations that took.
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
    aside.settled().await.unwrap();
    recorder.clear();
    let update = db.update::<Host>(host).set(|h| h.ipaddr(), "::7");
    update.await.unwrap();
    aside.settled().await.unwrap();
    let operations = recorder.operations();
    let sent = operations
        .iter()
        .filter(|operation| !matches!(operation, Operation::Begin));
    sent.count()
}

pub async fn copies_of_copies_cost_the_same_however_many(fixture: Fixture) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()));
    net(&db).await;
    let aside = Db::with_backend(fixture.backend());
    // That there are indexes is asked once.
    cost_of_a_chain((&db, &recorder), &aside, 5, 50..51).await;
    let few = cost_of_a_chain((&db, &recorder), &aside, 3, 100..102).await;
    let more = cost_of_a_chain((&db, &recorder), &aside, 4, 200..400).await;
    assert_eq!(few, more);
    let behind = db
        .find::<Report>()
        .filter(|report| report.id().gte(50) & report.lines().any(|line| line.ipaddr().ne("::7")));
    assert_eq!(behind.count().await.unwrap(), 0);
}

pub async fn what_copies_cost(fixture: Fixture) {
    let column = match fixture.backend().capabilities().transactions {
        true => 2,
        false => 3,
    };
    let recorder = Recorder::new(fixture.backend());
    let (db, aside) = (
        PairDb::with_backend(Arc::new(recorder.clone())),
        Db::with_backend(fixture.backend()),
    );
    net(&aside).await;
    db.insert_many((10..20).map(|id| line(id, 1)))
        .await
        .unwrap();
    // That there are indexes is asked once.
    db.update::<Host>(1)
        .set(|h| h.ipaddr(), "::0")
        .await
        .unwrap();
    let mut counted = Vec::new();
    for (name, run) in ROWS {
        aside.settled().await.unwrap();
        recorder.clear();
        run(&db)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        aside.settled().await.unwrap();
        let operations = recorder.operations();
        let sent = operations
            .iter()
            .filter(|operation| !matches!(operation, Operation::Begin));
        counted.push(((*name).to_owned(), sent.count()));
    }
    // That there are indexes of what is copied further is asked once.
    let chain = Db::with_backend(Arc::new(recorder.clone()));
    cost_of_a_chain((&chain, &recorder), &aside, 3, 100..101).await;
    counted.push((
        "update of a copied field, which 20 follow that 20 copy in turn".to_owned(),
        cost_of_a_chain((&chain, &recorder), &aside, 4, 200..220).await,
    ));
    let guide = include_str!("../../../../../docs/guide/copies.md");
    let (_, table) = guide.split_once("## Round trips").expect("a table");
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    let said = rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        (
            cells[1].to_owned(),
            cells[column].parse::<usize>().expect("a number"),
        )
    });
    assert_eq!(counted, said.collect::<Vec<_>>());
}

pub async fn another_declaration_is_noticed(fixture: Fixture) {
    let (old, db) = (
        odm::Database::<before::Net>::with_backend(fixture.backend()),
        Db::with_backend(fixture.backend()),
    );
    // Of an empty collection it is kept as what it is.
    assert_eq!(old.backfills().await.unwrap(), []);
    old.sync_indexes().await.unwrap();
    old.insert(host(1)).await.unwrap();
    let first = before::NewLogMessage {
        id: 1,
        host: Ref::new(1),
        ipaddr: "?".into(),
        doubled: 0,
    };
    old.insert(first).await.unwrap();
    old.settled().await.unwrap();
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
    // Neither looking nor a part of it is the end of it.
    db.repair().await.unwrap();
    db.repair().only::<Host>().apply().await.unwrap();
    assert_eq!(db.backfills().await.unwrap(), [backfill]);
    db.repair().only::<LogMessage>().apply().await.unwrap();
    assert_eq!(db.backfills().await.unwrap(), []);
    let message = db.get::<LogMessage>(1).await.unwrap();
    assert_eq!((&*message.ipaddr, message.doubled), ("10.0.0.1", 2));
}
