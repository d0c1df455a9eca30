//! Tests of the embedded engine only: database files and threads.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
};

use bson::{RawDocumentBuf, rawdoc};
use futures_util::FutureExt;
use odm::{
    Durability, ErrorKind, Result,
    backend::{
        self, Backend, BackendTransaction, BoxFuture, Capabilities, Executor, Recorder, Wrapper,
        operation::{
            AggregateOperation, CountOperation, DocumentChange, InsertOperation, Operation,
            ReadOptions, UpdateOperation,
        },
    },
    prelude::*,
};
use odm_tests::{aftermath::expire_leases, assert_clean};

fn count() -> CountOperation {
    CountOperation {
        collection: "things".into(),
        filter: rawdoc! {},
        limit: None,
        options: Default::default(),
    }
}

fn insert(id: i32) -> InsertOperation {
    InsertOperation {
        collection: "things".into(),
        documents: vec![rawdoc! { "_id": id }],
        ordered: true,
        origin: Default::default(),
    }
}

#[tokio::test]
async fn documents_persist_after_reopening() {
    let files = tempfile::tempdir().unwrap();
    let url = format!("odm:{}", files.path().join("shop.odm").display());
    for id in 0..3 {
        let backend = backend::open(&url).await.unwrap();
        backend.insert(insert(id)).await.unwrap();
        assert_eq!(
            backend.count(count()).await.unwrap(),
            u64::from(id.unsigned_abs()) + 1
        );
    }
}

#[tokio::test]
async fn a_file_can_be_opened_once() {
    let files = tempfile::tempdir().unwrap();
    let url = format!("odm:{}", files.path().join("shop.odm").display());
    let first = backend::open(&url).await.unwrap();
    let error = backend::open(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InUse);
    assert!(error.to_string().contains("shop.odm"), "{error}");
    first.insert(insert(1)).await.unwrap();
}

#[tokio::test]
async fn an_error_of_opening_a_file_has_the_path_once() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("shop.odm");
    fs::write(&file, "not a database").unwrap();
    for path in [files.path().join("missing/shop.odm"), file] {
        let url = format!("odm:{}", path.display());
        let text = backend::open(&url).await.unwrap_err().to_string();
        let path = path.display().to_string();
        assert_eq!(text.matches(&path).count(), 1, "{text}");
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "lines")]
struct Line {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    host: Ref<Host>,
    #[denormalize(from = host.name)]
    name: String,
}

#[derive(Schema)]
#[schema(models(Host, Line))]
struct Net;

type NetDb = odm::Database<Net>;

/// An insert with a copy leaves background work. The work must not keep the file open after a drop or after `close`.
#[tokio::test]
async fn a_dropped_or_closed_database_can_be_opened_again_at_once() {
    let files = tempfile::tempdir().unwrap();
    let url = format!("odm:{}", files.path().join("net.odm").display());
    let path = files.path().join("net.odm");
    let db = NetDb::open(&url).await.unwrap();
    db.sync_indexes().await.unwrap();
    db.insert(Host {
        id: 1,
        name: "one".into(),
    })
    .await
    .unwrap();
    drop(db);
    for round in 0..80 {
        let db = NetDb::open(&url).await.unwrap();
        let line = NewLine {
            id: round,
            host: Ref::new(1),
        };
        db.insert(line).await.unwrap();
        let name = format!("round {round}");
        db.update::<Host>(1).set(|h| h.name(), name).await.unwrap();
        if round % 2 == 0 {
            db.close().await.unwrap();
            // `odm_engine` does not wait for an open file, so this open proves that the file is closed.
            odm_engine::Database::open(&path).unwrap();
        } else {
            drop(db);
        }
    }
    // No pending work was lost.
    let db = NetDb::open(&url).await.unwrap();
    db.wait_for_pending()
        .timeout(std::time::Duration::from_secs(30))
        .await
        .unwrap();
    let lines = db.find::<Line>().all().await.unwrap();
    assert_eq!(lines.len(), 80);
    assert!(lines.iter().all(|line| line.name == "round 79"));
}

/// Waits until no work is pending. Reads run no pending work.
async fn wait_for_background_work(db: &NetDb) {
    let end = async {
        while !db.pending().await.unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let limit = std::time::Duration::from_secs(60);
    tokio::time::timeout(limit, end).await.unwrap();
}

/// A handle of the backend keeps the background work of a dropped database running.
#[tokio::test(flavor = "multi_thread")]
async fn background_work_continues_while_the_backend_is_open() {
    let backend: Arc<dyn Backend> = Arc::new(backend::Engine::memory());
    let dropped = NetDb::with_backend(backend.clone());
    dropped.sync_indexes().await.unwrap();
    let name = "before".to_owned();
    dropped.insert(Host { id: 1, name }).await.unwrap();
    let lines = (0..5_000).map(|id| NewLine {
        id,
        host: Ref::new(1),
    });
    dropped.insert_many(lines).await.unwrap();
    dropped.wait_for_pending().await.unwrap();
    let renamed = dropped.update::<Host>(1).set(|h| h.name(), "after");
    renamed.await.unwrap();
    drop(dropped);

    let db = NetDb::with_backend(backend);
    wait_for_background_work(&db).await;
    let outdated = db.find::<Line>().filter(|l| l.name().ne("after"));
    assert_eq!(outdated.count().await.unwrap(), 0);
}

fn host(id: i64) -> Host {
    Host {
        id,
        name: format!("host{id}"),
    }
}

/// Short operations in memory complete at their first poll, also outside of a Tokio runtime. On a busy machine, an operation can
/// exceed its time and move to another thread, so each operation has many attempts.
#[test]
fn short_operations_in_memory_do_not_wait() {
    let db = NetDb::with_backend(Arc::new(backend::Engine::memory()));
    let attempts = 1..=100;
    let inserts = attempts.clone().filter_map(|id| {
        let insert = db.insert(host(id)).into_future();
        insert.now_or_never().map(Result::unwrap)
    });
    assert!(inserts.count() > 0);
    let update = |id| db.update::<Host>(id).set(|h| h.name(), "new").into_future();
    assert!(
        attempts
            .clone()
            .any(|id| update(id).now_or_never().is_some())
    );
    let get = |id| db.find_by_id::<Host>(id).into_future();
    assert!(attempts.clone().any(|id| get(id).now_or_never().is_some()));
    let transaction = |id| {
        let work = move |tx: odm::Transaction<Net>| async move {
            tx.update::<Host>(id).set(|h| h.name(), "newer").await?;
            tx.find_by_id::<Host>(id).await
        };
        db.transaction(work).into_future()
    };
    assert!(
        attempts
            .clone()
            .any(|id| transaction(id).now_or_never().is_some())
    );
}

/// Other tasks of a thread run during a long read, and between many short operations.
#[tokio::test]
async fn operations_let_other_tasks_run() {
    let db = NetDb::with_backend(Arc::new(backend::Engine::memory()));
    db.insert_many((0..20_000).map(host)).await.unwrap();
    let turns = Arc::new(AtomicUsize::new(0));
    let counter = tokio::spawn({
        let turns = turns.clone();
        async move {
            loop {
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    });
    let before = turns.load(Ordering::Relaxed);
    let scan = db.find::<Host>().filter(|h| h.name().eq("host7"));
    assert_eq!(scan.count().await.unwrap(), 1);
    let during_scan = turns.load(Ordering::Relaxed);
    assert!(during_scan > before);
    for id in 0..1_000 {
        db.get::<Host>(id).await.unwrap();
    }
    assert!(turns.load(Ordering::Relaxed) > during_scan);
    counter.abort();
}

/// A dropped read that would take minutes must end soon, because a running read keeps the file open.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_read_ends() {
    use std::time::{Duration, Instant};

    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("shop.odm");
    let url = format!("odm:{}", path.display());
    let elements: bson::RawArrayBuf = (0..100_000).map(bson::RawBson::Int32).collect();
    let square = rawdoc! { "$sum": { "$map": { "input": "$elements", "as": "a", "in": {
    "$sum": { "$map": { "input": "$elements", "in": { "$add": ["$$this", "$$a"] } } } } } } };
    let aggregate = AggregateOperation {
        collection: "things".into(),
        pipeline: vec![rawdoc! { "$project": { "x": square } }],
        variables: rawdoc! {},
        options: Default::default(),
    };
    let many = (0..3_000).map(|id| rawdoc! { "_id": id }).collect();
    for (is_cursor, is_limited) in [(false, false), (true, false), (false, true), (true, true)] {
        let backend = backend::open(&url).await.unwrap();
        backend.drop_collection("things").await.unwrap();
        let documents = if is_cursor {
            Vec::clone(&many)
        } else {
            Vec::new()
        };
        let last = rawdoc! { "_id": 5_000, "elements": elements.clone() };
        let insert = InsertOperation {
            collection: "things".into(),
            documents: documents.into_iter().chain([last]).collect(),
            ordered: true,
            origin: Default::default(),
        };
        backend.insert(insert).await.unwrap();
        if is_limited {
            // A read over its time limit ends too, in the first batch and in later batches.
            let limited = AggregateOperation {
                options: ReadOptions::default().with_max_time(Some(Duration::from_secs(1))),
                ..aggregate.clone()
            };
            let read = async {
                let mut cursor = backend.aggregate(limited).await?;
                while !cursor.next_batch().await?.is_empty() {}
                Ok::<_, odm::Error>(())
            };
            let error = read.await.expect_err("it is no long read");
            assert!(error.is_timeout(), "{error}");
        } else if is_cursor {
            // The slow document is in a later batch.
            let mut cursor = backend.aggregate(aggregate.clone()).await.unwrap();
            let wait = async { while !cursor.next_batch().await.unwrap().is_empty() {} };
            let waited = tokio::time::timeout(Duration::from_secs(1), wait).await;
            assert!(waited.is_err(), "it is no long read");
        } else {
            let read = backend.aggregate(aggregate.clone());
            let waited = tokio::time::timeout(Duration::from_millis(300), read).await;
            assert!(waited.is_err(), "it is no long read");
        }
        drop(backend);
        let begun = Instant::now();
        while odm_engine::Database::open(&path).is_err() {
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "it goes on: cursor {is_cursor}, limit {is_limited}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn foreign_and_truncated_files_are_left_alone() {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("shop.odm");
    let url = format!("odm:{}", path.display());
    let text = "not a database, but dear to somebody".repeat(1_000);
    fs::write(&path, &text).unwrap();
    let error = backend::open(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert!(error.to_string().contains("shop.odm"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);

    fs::remove_file(&path).unwrap();
    backend::open(&url)
        .await
        .unwrap()
        .insert(insert(1))
        .await
        .unwrap();
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = backend::open(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}

#[tokio::test]
async fn a_url_without_a_file_is_an_error() {
    for url in ["odm:", "memory:shop"] {
        let error = backend::open(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidUrl);
    }
}

#[tokio::test]
async fn memory_databases_are_separate() {
    let (a, b) = (
        backend::open("memory:").await.unwrap(),
        backend::open("memory:").await.unwrap(),
    );
    a.insert(insert(1)).await.unwrap();
    assert_eq!(b.count(count()).await.unwrap(), 0);
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "jobs")]
struct Job {
    #[serde(rename = "_id")]
    id: i64,
    is_open: bool,
    #[embed(overflow(after = 2, into = "more_steps"))]
    steps: Overflow<i64>,
}

#[derive(Schema)]
#[schema(models(Job))]
struct Office;

/// A backend that opens every job before a search for ids, and closes every job before a write, like a concurrent client.
#[derive(Debug)]
struct ConcurrentJobChanges(Arc<dyn Backend>);

impl ConcurrentJobChanges {
    async fn set(&self, is_open: bool) -> Result<()> {
        set_in_all(&*self.0, "jobs", rawdoc! { "is_open": is_open }).await
    }
}

/// Sets fields of all documents of a collection, like a concurrent client.
async fn set_in_all(
    backend: &dyn Backend,
    collection: &'static str,
    fields: RawDocumentBuf,
) -> Result<()> {
    let update = UpdateOperation {
        collection: collection.into(),
        filter: RawDocumentBuf::new(),
        change: DocumentChange::operators(rawdoc! { "$set": fields }),
        multi: true,
        upsert: false,
        origin: Default::default(),
    };
    backend.update(update).await.map(drop)
}

impl Wrapper for ConcurrentJobChanges {
    type Inner = dyn Backend;

    fn inner(&self) -> &dyn Backend {
        &*self.0
    }

    fn perform<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        run: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        Box::pin(async move {
            match operation {
                Operation::Find(find) => {
                    let is_of_ids = |projection: RawDocumentBuf| projection.iter().count() == 1;
                    if find.projection.is_some_and(is_of_ids) {
                        self.set(true).await?;
                    }
                }
                Operation::Update(_) | Operation::FindAndModify(_) => self.set(false).await?,
                _ => {}
            }
            run.await
        })
    }

    fn wrap_transaction(
        &self,
        transaction: Arc<dyn BackendTransaction>,
    ) -> Arc<dyn BackendTransaction> {
        transaction
    }
}

/// A backend with a concurrent client that renews the lease of every chunk before the recovery reads a chunk.
#[derive(Debug)]
struct RenewedChunks(Arc<dyn Backend>);

impl Wrapper for RenewedChunks {
    type Inner = dyn Backend;

    fn inner(&self) -> &dyn Backend {
        &*self.0
    }

    fn perform<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        run: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        Box::pin(async move {
            if operation.origin().step == "read the provisional chunk" {
                let in_one_hour = DateTime::now().timestamp_millis() + 3_600_000;
                let renewal = rawdoc! {
                    "_odm.provisional.lease": DateTime::from_millis(in_one_hour),
                    "is_renewed": true,
                };
                set_in_all(&*self.0, "more_steps", renewal).await?;
            }
            run.await
        })
    }

    fn wrap_transaction(
        &self,
        transaction: Arc<dyn BackendTransaction>,
    ) -> Arc<dyn BackendTransaction> {
        transaction
    }
}

/// A recovery leaves a chunk to the writer that has renewed the lease since the recovery found the chunk.
#[tokio::test]
async fn a_chunk_with_a_renewed_lease_is_not_recovered() {
    let engine: Arc<dyn Backend> = Arc::new(backend::Engine::memory());
    let db = odm::Database::<Office>::with_backend(Arc::new(RenewedChunks(engine.clone())));
    db.sync_indexes().await.unwrap();
    let chunk = InsertOperation {
        collection: "more_steps".into(),
        documents: vec![rawdoc! {
            "_id": 1,
            "_odm": { "provisional": { "lease": DateTime::from_millis(0), "token": ObjectId::new() } },
        }],
        ..insert(1)
    };
    engine.insert(chunk).await.unwrap();
    let chunks = |filter| CountOperation {
        collection: "more_steps".into(),
        filter,
        ..count()
    };
    db.run_pending().await.unwrap();
    let renewed = engine.count(chunks(rawdoc! { "is_renewed": true })).await;
    assert_eq!(renewed.unwrap(), 1);

    // Without the renewal, the recovery deletes a chunk without an owner.
    let expired = rawdoc! { "_odm.provisional.lease": DateTime::from_millis(0) };
    set_in_all(&*engine, "more_steps", expired).await.unwrap();
    let db = odm::Database::<Office>::with_backend(engine.clone());
    db.run_pending().await.unwrap();
    assert_eq!(engine.count(chunks(rawdoc! {})).await.unwrap(), 0);
}

/// A backend with a concurrent client that opens every job before an update in a transaction.
#[derive(Debug)]
struct ConflictingUpdates<T: ?Sized> {
    inner: Arc<T>,
    engine: Arc<dyn Backend>,
    is_transaction: bool,
}

impl<T: Executor + ?Sized> Wrapper for ConflictingUpdates<T> {
    type Inner = T;

    fn inner(&self) -> &T {
        &self.inner
    }

    fn perform<'a, R: Send + 'a>(
        &'a self,
        operation: Operation,
        run: BoxFuture<'a, Result<R>>,
    ) -> BoxFuture<'a, Result<R>> {
        Box::pin(async move {
            if self.is_transaction && matches!(operation, Operation::Update(_)) {
                set_in_all(&*self.engine, "persons", rawdoc! { "email": "client" }).await?;
            }
            run.await
        })
    }

    fn wrap_transaction(
        &self,
        transaction: Arc<dyn BackendTransaction>,
    ) -> Arc<dyn BackendTransaction> {
        Arc::new(ConflictingUpdates {
            inner: transaction,
            engine: self.engine.clone(),
            is_transaction: true,
        })
    }
}

#[tokio::test]
async fn a_conflict_ends_an_explained_write() {
    let engine: Arc<dyn Backend> = Arc::new(backend::Engine::memory());
    let db = odm::Database::<Persons>::with_backend(Arc::new(ConflictingUpdates {
        inner: engine.clone(),
        engine,
        is_transaction: false,
    }));
    let email = "first".to_owned();
    db.insert(Person { id: 1, email }).await.unwrap();
    let update = db.update::<Person>(1).set(|p| p.email(), "explained");
    let error = update.explain().await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(db.get::<Person>(1).await.unwrap().email, "client");
}

/// Every search finds a job, so the result must be a conflict and not "no match".
#[tokio::test(start_paused = true)]
async fn update_first_reports_permanent_contention_as_conflict() {
    let backend = ConcurrentJobChanges(Arc::new(backend::Engine::memory()));
    let db = odm::Database::<Office>::with_backend(Arc::new(backend));
    let (is_open, steps) = (true, Overflow::new());
    let id = 1;
    db.insert(Job { id, is_open, steps }).await.unwrap();
    let first = db.update_first::<Job>(|j| j.is_open().eq(true));
    let error = first.push(|j| j.steps(), 1).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "boxes")]
struct Parcel {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    depot: Ref<Depot>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "depots")]
struct Depot {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Parcel::depot)]
    parcels: i64,
}

#[derive(Schema)]
#[schema(models(Parcel, Depot))]
struct Post;

/// A backend like a standalone server, with a concurrent client that moves every parcel to another depot before the rollups record
/// the parents of the parcel.
#[derive(Debug)]
struct MovingParcels {
    engine: Arc<dyn Backend>,
    moves: Arc<AtomicI64>,
}

/// The number of moves of a client that has stopped.
const STOPPED: i64 = i64::MIN;

impl Wrapper for MovingParcels {
    type Inner = dyn Backend;

    fn inner(&self) -> &dyn Backend {
        &*self.engine
    }

    fn perform<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        run: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        Box::pin(async move {
            let is_record = operation.origin().step == "record the contributions";
            if is_record && self.moves.load(Ordering::Relaxed) != STOPPED {
                let depot = 100 + self.moves.fetch_add(1, Ordering::Relaxed);
                set_in_all(&*self.engine, "boxes", rawdoc! { "depot": depot }).await?;
            }
            run.await
        })
    }

    fn wrap_transaction(
        &self,
        transaction: Arc<dyn BackendTransaction>,
    ) -> Arc<dyn BackendTransaction> {
        transaction
    }

    fn capabilities(&self, mut inner: Capabilities) -> Capabilities {
        inner.transactions = false;
        inner
    }
}

/// A parent is updated only after the child has recorded the parent. Without the record, no process would find the parent after a
/// crash.
#[tokio::test]
async fn a_child_that_never_rests_changes_no_parent() {
    let engine: Arc<dyn Backend> = Arc::new(backend::Engine::memory());
    let moves = Arc::new(AtomicI64::new(STOPPED));
    let moving = MovingParcels {
        engine: engine.clone(),
        moves: moves.clone(),
    };
    let db = odm::Database::<Post>::with_backend(Arc::new(moving));
    db.sync_indexes().await.unwrap();
    let depots = [1, 2].into_iter().chain(100..400);
    db.insert_many(depots.map(|id| NewDepot { id }))
        .await
        .unwrap();
    let depot = Ref::new(1);
    db.insert(Parcel { id: 1, depot }).await.unwrap();
    db.wait_for_pending().await.unwrap();

    moves.store(0, Ordering::Relaxed);
    let moved = db.update::<Parcel>(1).set(|p| p.depot(), Ref::new(2));
    moved.await.unwrap();
    let made = moves.swap(STOPPED, Ordering::Relaxed);
    assert!(made > 50, "{made} moves");
    let counted = db.find::<Depot>().filter(|d| d.parcels().gt(0)).all();
    let counted: Vec<_> = counted
        .await
        .unwrap()
        .into_iter()
        .map(|depot| depot.id)
        .collect();
    assert_eq!(counted, [1], "only the recorded parent has the parcel");
    assert!(!db.pending().await.unwrap().is_empty());

    // Once the client rests, the work is completed.
    expire_leases::<Post>(&engine).await.unwrap();
    db.run_pending().await.unwrap();
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[index(unique)]
    email: String,
}

#[derive(Schema)]
#[schema(models(Person))]
struct Persons;

/// An index with a collation, made through the engine alone, is reported, and replaced on request.
#[tokio::test]
async fn an_index_with_a_collation_is_reported_and_replaced() {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("shop.odm");
    {
        let engine = odm_engine::Database::open(&path).unwrap();
        let keys = [("email", odm_engine::Direction::Ascending)];
        let collation = rawdoc! { "locale": "de", "strength": 1 };
        let mut german = odm_engine::Index::new(keys);
        german.collation = odm_engine::Collation::from_document(&collation).unwrap();
        let all = odm_engine::Index::new([("$**", odm_engine::Direction::Ascending)]);
        engine.create_indexes("persons", &[german, all]).unwrap();
    }
    let url = format!("odm:{}", path.display());
    let db = odm::Database::<Persons>::open(&url).await.unwrap();
    let report = db.sync_indexes().await.unwrap();
    let [(_, _, found)] = report.differing.as_slice() else {
        panic!("{report}");
    };
    assert!(found.unsupported_definition.is_some(), "{report}");
    assert_eq!(report.undeclared.len(), 1, "{report}");
    let replaced = db.sync_indexes().replace_differing().drop_undeclared();
    let report = replaced.await.unwrap();
    assert_eq!(report.dropped.len(), 1, "{report}");
    let second = db.sync_indexes().await.unwrap();
    assert!(
        second.differing.is_empty() && second.created.is_empty(),
        "{second}"
    );
    assert_eq!(second.undeclared.len(), 1, "{second}");
}

#[tokio::test]
async fn the_url_sets_the_durability() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.odm");
    let url = |options: &str| format!("odm:{}{options}", path.display());
    let durabilities = [
        ("?durability=relaxed", "Relaxed"),
        ("?durability=full", "Full"),
        ("", "Full"),
    ];
    for (id, (options, durability)) in (0..).zip(durabilities) {
        let backend = backend::open(&url(options)).await.unwrap();
        let text = format!("{backend:?}");
        assert!(
            text.contains(&format!("durability: {durability}")),
            "{text}"
        );
        backend.insert(insert(id)).await.unwrap();
        let documents = u64::from(id.unsigned_abs()) + 1;
        assert_eq!(backend.count(count()).await.unwrap(), documents);
    }
    assert!(path.exists());
    for options in ["?durability=none", "?", "?sync=off"] {
        let error = backend::open(&url(options)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{error}");
        assert!(error.to_string().contains("?durability=relaxed"), "{error}");
    }
}

/// Returns a database on a backend, with many lines that have a copy of the name of host 1.
async fn net_with_lines(backend: Arc<dyn Backend>) -> NetDb {
    let db = NetDb::with_backend(backend);
    db.sync_indexes().await.unwrap();
    db.insert(host(1)).await.unwrap();
    let lines = (0..10_000).map(|id| NewLine {
        id,
        host: Ref::new(1),
    });
    db.insert_many(lines).await.unwrap();
    db.wait_for_pending().await.unwrap();
    db
}

async fn rename_host(db: &NetDb) {
    let renamed = db.update::<Host>(1).set(|h| h.name(), "after");
    renamed.await.unwrap();
}

/// A handle has a durability of its own, and shares everything else with the opened database. Its background work goes on after the
/// drop of the handle.
#[tokio::test(flavor = "multi_thread")]
async fn a_handle_has_a_durability_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("odm:{}", folder.path().join("net.odm").display());
    let recorded = Arc::new(Recorder::new(backend::open(&url).await.unwrap()));
    let db = net_with_lines(recorded.clone()).await;
    let durability = |db: &NetDb| {
        let text = format!("{:?}", db.backend());
        ["Full", "Relaxed"].map(|name| text.contains(&format!("durability: {name}")))
    };
    let relaxed = db.with_durability(Durability::Relaxed);
    assert_eq!(durability(&db), [true, false]);
    assert_eq!(durability(&relaxed), [false, true]);
    let full = relaxed.with_durability(Durability::Full);
    assert_eq!(durability(&full), [true, false]);

    recorded.clear();
    let in_transaction = async |tx: odm::Transaction<Net>| tx.insert(host(2)).await.map(drop);
    relaxed.transaction(in_transaction).await.unwrap();
    // The recorder sees the writes of all handles.
    assert!(recorded.writes() > 0);
    rename_host(&relaxed).await;
    drop(relaxed);
    assert!(!db.pending().await.unwrap().is_empty());
    wait_for_background_work(&db).await;
    let renamed = db.find::<Line>().filter(|l| l.name().eq("after"));
    assert_eq!(renamed.count().await.unwrap(), 10_000);
    assert_clean(&db).await;

    // A database in memory has no durability.
    let memory = NetDb::open("memory:").await.unwrap();
    let relaxed = memory.with_durability(Durability::Relaxed);
    relaxed.insert(host(1)).await.unwrap();
    assert!(memory.exists::<Host>(1).await.unwrap());
}

/// Background work keeps no database open, and its rest stays pending.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_database_ends_its_background_work() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("odm:{}", folder.path().join("net.odm").display());
    let backend = backend::open(&url).await.unwrap();
    let weak = Arc::downgrade(&backend);
    let db = net_with_lines(backend).await;
    rename_host(&db).await;
    drop(db);
    let end = async {
        while weak.strong_count() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    let limit = std::time::Duration::from_secs(60);
    tokio::time::timeout(limit, end).await.unwrap();
    let db = NetDb::open(&url).await.unwrap();
    assert!(!db.pending().await.unwrap().is_empty());
}
