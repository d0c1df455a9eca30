//! Spans and events that operations emit through `tracing`.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use odm::{
    backend::{
        Fault, Faults,
        operation::{Operation, Stage},
    },
    prelude::*,
};
use tracing::{
    Dispatch, Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::Interest,
};

use crate::Fixture;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "makers")]
struct Maker {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[index]
    number: i64,
    #[reference]
    maker: Ref<Maker>,
    #[embed(max = 20)]
    tags: Vec<String>,
}

#[derive(Schema)]
#[schema(models(Maker, Part))]
struct Shop;
type Db = odm::Database<Shop>;

fn part(id: i64, tags: usize) -> Part {
    Part {
        id,
        name: format!("part {id}"),
        number: id,
        maker: Ref::new(1),
        tags: (0..tags).map(|tag| format!("tag {tag}")).collect(),
    }
}

async fn insert_parts(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db.insert(Maker { id: 1 }).await.unwrap();
    db.insert_many((1..=12).map(|id| part(id, 2)))
        .await
        .unwrap();
    db
}

/// The fields of a span or an event, as text.
#[derive(Debug, Clone, Default)]
struct SpanFields(BTreeMap<&'static str, String>);

impl SpanFields {
    fn get(&self, field: &str) -> &str {
        self.0.get(field).map_or("", String::as_str)
    }
}

impl Visit for SpanFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        self.0
            .insert(field.name(), text.trim_matches('"').to_owned());
    }
}

#[derive(Default)]
struct RecordedSpans {
    spans: Vec<SpanFields>,
    /// The events of backend operations.
    events: Vec<SpanFields>,
    warnings: Vec<SpanFields>,
    /// The events of retries and fallbacks.
    retries: Vec<SpanFields>,
}

/// A subscriber for this thread, on which a test runs with all tasks.
#[derive(Clone)]
struct Listener {
    plans: bool,
    heard: Arc<Mutex<RecordedSpans>>,
}

impl Listener {
    fn listen(plans: bool) -> (Self, tracing::subscriber::DefaultGuard) {
        // Two more dispatchers keep callsites enabled. With a single dispatcher, `tracing` asks only the thread that first
        // reaches a callsite about interest, and that thread may belong to a test without a listener.
        static ALL_OTHER_SUBSCRIBERS: OnceLock<[Dispatch; 2]> = OnceLock::new();
        ALL_OTHER_SUBSCRIBERS
            .get_or_init(|| [false; 2].map(|plans| Dispatch::new(Self::new(plans))));
        let listener = Self::new(plans);
        let guard = tracing::subscriber::set_default(listener.clone());
        (listener, guard)
    }

    fn new(plans: bool) -> Self {
        Self {
            plans,
            heard: Arc::default(),
        }
    }

    fn operations(&self) -> Vec<SpanFields> {
        let mut heard = self.heard.lock().unwrap();
        let spans = std::mem::take(&mut heard.spans);
        let mut operations = spans.into_iter();
        operations
            .by_ref()
            .filter(|span| !span.get("operation").is_empty())
            .collect()
    }

    fn events(&self) -> Vec<SpanFields> {
        std::mem::take(&mut self.heard.lock().unwrap().events)
    }

    fn retries(&self) -> Vec<SpanFields> {
        std::mem::take(&mut self.heard.lock().unwrap().retries)
    }

    fn warnings(&self) -> Vec<SpanFields> {
        std::mem::take(&mut self.heard.lock().unwrap().warnings)
    }
}

impl Subscriber for Listener {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        match metadata.target() {
            "odm" | "odm::advice" | "odm::operation" | "odm::retry" => true,
            "odm::plan" => self.plans,
            _ => false,
        }
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = SpanFields::default();
        span.record(&mut fields);
        let spans = &mut self.heard.lock().unwrap().spans;
        spans.push(fields);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let at = usize::try_from(span.into_u64()).unwrap() - 1;
        if let Some(span) = self.heard.lock().unwrap().spans.get_mut(at) {
            values.record(span);
        }
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = SpanFields::default();
        event.record(&mut fields);
        let mut heard = self.heard.lock().unwrap();
        if event.metadata().target() == "odm::operation" {
            heard.events.push(fields);
        } else if event.metadata().target() == "odm::retry" {
            heard.retries.push(fields);
        } else if *event.metadata().level() == Level::WARN {
            heard.warnings.push(fields);
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

pub async fn an_operation_is_one_span(fixture: Fixture) {
    let db = insert_parts(&fixture).await;
    let (listener, _guard) = Listener::listen(false);
    let find = db
        .find::<Part>()
        .filter(|p| p.number().lte(5))
        .with(|p| p.maker());
    assert_eq!(find.clone().all().await.unwrap().len(), 5);
    drop(find);
    db.update_many::<Part>(|p| p.number().gt(5))
        .set(|p| p.name(), "new")
        .await
        .unwrap();
    db.insert(part(13, 0)).await.unwrap();
    db.modify::<Part>(1, |part| part.name.push('!'))
        .await
        .unwrap();
    let mut rows = db.find::<Part>().stream();
    while let Some(row) = rows.next().await {
        row.unwrap();
    }
    drop(rows);
    let summary: Vec<_> = listener
        .operations()
        .iter()
        .map(|span| {
            assert_eq!(
                (span.get("model"), span.get("collection")),
                ("Part", "parts")
            );
            let fields = ["operation", "queries", "writes", "documents"];
            fields.map(|field| span.get(field).to_owned()).join(" ")
        })
        .collect();
    // The documents of a join count, too. For `modify`, the read and the write both count.
    assert_eq!(
        summary,
        [
            "find 2 0 6",
            "update_many 0 1 7",
            "insert 0 1 1",
            "modify 1 1 2",
            "find 1 0 13"
        ]
    );
    assert!(listener.warnings().is_empty());
}

pub async fn each_backend_operation_is_an_event(fixture: Fixture) {
    let db = insert_parts(&fixture).await;
    let (listener, _guard) = Listener::listen(false);
    db.find::<Part>()
        .with(|p| p.maker())
        .comment("all parts")
        .all()
        .await
        .unwrap();
    db.update_many::<Part>(|p| p.number().gt(5))
        .set(|p| p.name(), "new")
        .await
        .unwrap();
    let duplicate = db.insert(Maker { id: 1 }).await.unwrap_err();
    assert!(duplicate.is_duplicate_key());
    let events = listener.events();
    let fields = [
        "db.operation.name",
        "db.collection.name",
        "db.response.returned_rows",
        "error.type",
    ];
    let summary: Vec<_> = events
        .iter()
        .map(|event| fields.map(|field| event.get(field)).join(" "))
        .collect();
    assert_eq!(
        summary,
        [
            "find parts 12 ",
            "find makers 1 ",
            "update parts 7 ",
            "insert makers  DuplicateKey",
        ]
    );
    let system = fixture.backend().system_name();
    for event in &events {
        assert_eq!(event.get("db.system.name"), system);
        let milliseconds: f64 = event.get("duration_ms").parse().unwrap();
        assert!(milliseconds > 0.0);
    }
    assert_eq!(events[1].get("comment"), "all parts");
    let actions: Vec<_> = events.iter().map(|event| event.get("odm.action")).collect();
    assert_eq!(actions, ["find", "find", "update_many", "insert"]);
}

/// A place, and a stay whose place must exist.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "places")]
struct Place {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "stays")]
struct Stay {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = restrict)]
    place: Ref<Place>,
}

#[derive(Schema)]
#[schema(models(Place, Stay))]
struct Travel;

/// A board, with the number of its posts.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "boards")]
struct Board {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Post::board)]
    posts: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    board: Ref<Board>,
}

#[derive(Schema)]
#[schema(models(Board, Post))]
struct Forum;

pub async fn events_name_the_stage_of_follow_up_work(fixture: Fixture) {
    let db = odm::Database::<Travel>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db.insert(Place { id: 1 }).await.unwrap();
    let (listener, _guard) = Listener::listen(false);
    let stay = Stay {
        id: 1,
        place: Ref::new(1),
    };
    db.insert(stay).await.unwrap();
    let fields = ["db.operation.name", "odm.action", "odm.stage", "odm.step"];
    let summary = listener.events().into_iter();
    let summary = summary.map(|event| fields.map(|field| event.get(field)).join(" "));
    let summary: Vec<_> = summary.collect();
    let guard = match fixture.backend().capabilities().transactions {
        true => "update insert references guard the targets",
        false => "update insert references remove the intent record",
    };
    assert!(summary.iter().any(|line| line == guard), "{summary:#?}");
    // A commit has no origin.
    let without_origin = summary.iter().filter(|line| line.ends_with("   "));
    assert!(
        without_origin
            .clone()
            .all(|line| line.starts_with("commitTransaction"))
    );
}

pub async fn retries_name_their_reason(fixture: Fixture) {
    insert_parts(&fixture).await;
    let faults = Faults::new(fixture.backend());
    let db = Db::with_backend(Arc::new(faults.clone()));
    let (listener, _guard) = Listener::listen(false);
    let conflict = || {
        let error = odm::Error::new(odm::ErrorKind::Conflict, "injected conflict");
        Fault::FailBefore(error)
    };
    faults.inject(1, Operation::is_write, conflict());
    db.modify::<Part>(1, |part| part.name.push('!'))
        .await
        .unwrap();
    let [retry] = &listener.retries()[..] else {
        panic!("expected one retry");
    };
    let fields = ["reason", "attempt"].map(|field| retry.get(field));
    assert_eq!(fields, ["another write changed the document", "1"]);

    if !fixture.backend().capabilities().transactions {
        return;
    }
    faults.inject(1, Operation::is_write, conflict());
    let renamed = db.transaction(async |db| {
        let update = db.update::<Part>(1).set(|p| p.name(), "new");
        update.await.map(drop)
    });
    renamed.await.unwrap();
    let [retry] = &listener.retries()[..] else {
        panic!("expected one retry");
    };
    assert!(retry.get("reason").contains("injected conflict"));
    assert_eq!(retry.get("message"), "retry");
}

pub async fn fallbacks_name_their_reason(fixture: Fixture) {
    let db = odm::Database::<Forum>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let (listener, _guard) = Listener::listen(false);
    let post = Post {
        id: 1,
        board: Ref::new(1),
    };
    db.insert(post).await.unwrap();
    let retries = listener.retries();
    let fallback = retries
        .iter()
        .find(|event| event.get("message") == "fallback");
    let fields = fallback.map(|event| ["model", "reason"].map(|field| event.get(field)));
    // Without transactions, the rollups of every parent are updated after the write.
    let has_transactions = fixture.backend().capabilities().transactions;
    let reason = "a parent is missing: its rollups are updated after the commit";
    assert_eq!(fields, has_transactions.then_some(["Post", reason]));
}

pub async fn failed_follow_up_work_is_warned_about(fixture: Fixture) {
    let faults = Faults::new(fixture.backend());
    let db = odm::Database::<Forum>::with_backend(Arc::new(faults.clone()));
    db.sync_indexes().await.unwrap();
    let (listener, _guard) = Listener::listen(false);
    let lost = odm::Error::new(odm::ErrorKind::Connection, "injected loss");
    // The rollups of a new board are computed after the answer.
    let is_of_rollups = |operation: &Operation| operation.origin().stage == Some(Stage::ROLLUPS);
    faults.inject(1, is_of_rollups, Fault::FailBefore(lost));
    db.insert(NewBoard { id: 1 }).await.unwrap();
    db.wait_for_pending().await.unwrap();
    let warnings = listener.warnings();
    let [warning] = &warnings[..] else {
        panic!("expected one warning: {warnings:?}");
    };
    assert_eq!(
        warning.get("message"),
        "rollup update failed and stays pending"
    );
    assert!(warning.get("error").contains("injected loss"));
}

pub async fn a_dropped_operation_is_an_event(fixture: Fixture) {
    insert_parts(&fixture).await;
    let faults = Faults::new(fixture.backend());
    let db = Db::with_backend(Arc::new(faults.clone()));
    let (listener, _guard) = Listener::listen(false);
    faults.inject(1, Operation::is_query, Fault::HangBefore);
    let mut read = Box::pin(db.find::<Part>().all().into_future());
    // The first poll sends the operation.
    assert!(futures_util::poll!(&mut read).is_pending());
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(read);
    let events = listener.events();
    let [event] = &events[..] else {
        panic!("{events:?}");
    };
    let fields = ["db.operation.name", "error.type"].map(|field| event.get(field));
    assert_eq!(fields, ["find", "Dropped"]);
    let milliseconds: f64 = event.get("duration_ms").parse().unwrap();
    assert!(milliseconds >= 20.0, "{milliseconds}");
}

pub async fn slow_operations_are_warned_about(fixture: Fixture) {
    insert_parts(&fixture).await;
    let slow = |at_least| {
        let options = Db::options().slow_operations(at_least);
        options.open_backend(fixture.backend())
    };
    let (all, none) = (slow(Duration::ZERO).await, slow(Duration::MAX).await);
    let (listener, _guard) = Listener::listen(false);
    all.unwrap().find::<Part>().all().await.unwrap();
    none.unwrap().find::<Part>().all().await.unwrap();
    let events = listener.events();
    let messages: Vec<_> = events.iter().map(|event| event.get("message")).collect();
    assert_eq!(messages, ["slow operation", "operation"]);
}

pub async fn a_query_per_document_is_warned_about(fixture: Fixture) {
    let db = insert_parts(&fixture).await;
    let (listener, _guard) = Listener::listen(false);
    // Sequential reads and `get_many` cause no warning.
    for _ in 0..15 {
        db.get::<Part>(1).await.unwrap();
    }
    db.get_many::<Part>(1..=12).await.unwrap();
    assert!(listener.warnings().is_empty());
    let all = (1..=12).map(|id| db.get::<Part>(id).into_future());
    for part in futures_util::future::join_all(all).await {
        part.unwrap();
    }
    let warnings = listener.warnings();
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}");
    };
    assert_eq!(
        (warning.get("model"), warning.get("filter")),
        ("Part", "{_id: {$eq: ?}}")
    );
    assert!(warning.get("message").contains("get_many"), "{warning:?}");
    for number in 1..=12 {
        let find = db
            .find::<Part>()
            .filter(|p| p.number().eq(number) & p.name().ne("secret"));
        find.first().await.unwrap();
    }
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(!format!("{warnings:?}").contains("secret"), "{warnings:?}");
}

pub async fn a_collection_scan_is_warned_about(fixture: Fixture) {
    let db = insert_parts(&fixture).await;
    let (listener, _guard) = Listener::listen(true);
    let by_name = || db.find::<Part>().filter(|p| p.name().eq("secret"));
    by_name().all().await.unwrap();
    by_name().count().await.unwrap();
    db.update_many::<Part>(|p| p.name().eq("secret"))
        .set(|p| p.number(), 0)
        .await
        .unwrap();
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    for warning in &warnings {
        assert_eq!(
            (warning.get("model"), warning.get("documents_examined")),
            ("Part", "12")
        );
        assert_eq!(warning.get("filter"), "{name: {$eq: ?}}");
    }
    // A find of all documents needs a scan, and the remaining operations use an index.
    db.find::<Part>().all().await.unwrap();
    db.find::<Part>()
        .filter(|p| p.number().gt(5))
        .all()
        .await
        .unwrap();
    db.update::<Part>(1).set(|p| p.number(), 0).await.unwrap();
    assert!(listener.warnings().is_empty());
}

pub async fn an_array_near_its_maximum_is_warned_about(fixture: Fixture) {
    let db = insert_parts(&fixture).await;
    let (listener, guard) = Listener::listen(false);
    db.insert(part(20, 17)).await.unwrap();
    assert!(listener.warnings().is_empty());
    db.insert(part(21, 18)).await.unwrap();
    let warnings = listener.warnings();
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}");
    };
    let fields = ["path", "elements", "max"].map(|field| warning.get(field));
    assert_eq!(fields, ["tags", "18", "20"]);
    drop(guard);
    // The length of the array is unknown without a read. With `plans` enabled, a push reads the array.
    let (listener, _guard) = Listener::listen(true);
    let push = || {
        db.update::<Part>(20)
            .push(|p| p.tags(), "more")
            .into_future()
    };
    push().await.unwrap();
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].get("path"), "tags");
    let push = db.update::<Part>(20).push(|p| p.tags(), "more");
    push.returning_after().await.unwrap();
    assert_eq!(listener.warnings().len(), 1);
    db.update::<Part>(1)
        .push(|p| p.tags(), "more")
        .await
        .unwrap();
    assert!(listener.warnings().is_empty());
}

pub async fn explaining_plans_does_not_disturb_transactions(fixture: Fixture) {
    let db = insert_parts(&fixture).await;
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let (listener, _guard) = Listener::listen(true);
    db.transaction(async |tx| -> odm::Result<_> {
        tx.insert(part(30, 0)).await?;
        tx.update::<Part>(1).push(|p| p.tags(), "more").await?;
        let by_name = tx.find::<Part>().filter(|p| p.name().eq("part 30"));
        assert_eq!(by_name.count().await?, 1);
        let pushed = tx.update::<Part>(2).push(|p| p.tags(), "more");
        assert_eq!(pushed.returning_after().await?.tags.len(), 3);
        Ok(())
    })
    .await
    .unwrap();
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].get("filter"), "{name: {$eq: ?}}");
    assert_eq!(db.get::<Part>(1).await.unwrap().tags.len(), 3);
}

pub async fn plans_of_writes_and_pipelines_are_recorded(fixture: Fixture) {
    let db = insert_parts(&fixture).await;
    let (listener, _guard) = Listener::listen(true);
    let by_name = |name: &str| {
        let name = name.to_owned();
        db.update_many::<Part>(move |p| p.name().eq(name))
            .set(|p| p.number(), 0)
    };
    let report = db.bulk().add(by_name("a")).add(by_name("b")).await.unwrap();
    assert!(report.is_ok());
    assert_eq!(listener.warnings().len(), 2);
    let deleted = db.delete_first::<Part>(|p| p.name().eq("a"));
    assert!(!deleted.await.unwrap().is_applied());
    assert_eq!(listener.warnings().len(), 1);
    let sum = db
        .find::<Part>()
        .filter(|p| p.name().eq("a"))
        .sum(|p| p.number());
    assert_eq!(sum.await.unwrap(), 0);
    assert_eq!(listener.warnings().len(), 1);
    let makers = db.find::<Maker>().with_children(Part::by(|p| p.maker()));
    assert_eq!(makers.all().await.unwrap().len(), 1);
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].get("filter"), "{maker: {$in: [?]}}");
}
