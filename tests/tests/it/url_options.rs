//! Options of a MongoDB URL: passed on without an effect on internal reads, or refused.

use std::sync::{Arc, Mutex, PoisonError};

use bson::{Document, doc, rawdoc};
use futures_util::TryStreamExt;
use odm::{
    Database, Document as _, Error, ErrorKind, Result,
    backend::{
        self, Backend, BackendTransaction, BoxFuture, Executor, Wrapper,
        operation::{
            AggregateOperation, CountOperation, DistinctOperation, FindEach, FindOperation,
            FindSeveral, InsertOperation, Operation, WatchOperation,
        },
        read_to_end,
    },
    prelude::*,
};
use odm_tests::{
    mongod::{self, Server},
    storm::{self, Copies, Links, Rollups, Size, Storm},
};

/// The URL of a fresh database with options.
fn url(server: &Server, options: &str) -> String {
    let url = server.fresh_url();
    let join = if url.contains('?') { '&' } else { '?' };
    format!("{url}{join}{options}")
}

async fn open_error(url: &str) -> Error {
    backend::open(url).await.expect_err("it cannot be opened")
}

/// Options are refused before the first connection.
#[tokio::test]
async fn unsafe_options_are_refused_with_a_remedy() {
    for (options, remedy) in [
        ("w=0", "Remove `w`"),
        ("w=1", "Remove `w`"),
        ("w=3", "Remove `w`"),
        ("w=twoCenters", "`w=twoCenters`"),
        ("W=1", "Remove `w`"),
        ("journal=false", "Remove `journal`"),
        ("w=majority&journal=false", "Remove `journal`"),
        ("loadBalanced=true", "`mongos`"),
        ("socketTimeoutMS=5000", "`tokio::time::timeout`"),
        ("WaitQueueTimeoutMS=5000", "`waitQueueTimeoutMS`"),
        ("uuidRepresentation=javaLegacy", "Remove the option"),
        ("maxAdaptiveRetries=3", "`maxAdaptiveRetries`"),
        ("enableOverloadRetargeting=true", "Remove the option"),
        (
            "compressors=zstd",
            "the feature `zstd-compression` of `odm`",
        ),
        ("proxyHost=localhost", "the feature `socks5-proxy` of `odm`"),
        ("appName=a?b&w=1", "Remove `w`"),
        ("maxStalenessSeconds=90", "read preference"),
        ("readPreference=primary&maxStalenessSeconds=90", "primary"),
        ("readPreference=secondary&maxStalenessSeconds=9", "90"),
        ("readPreferenceTags=a:b", "read preference"),
        ("timeoutMS=100", "timeoutms"),
    ] {
        let error = open_error(&format!("mongodb://127.0.0.1:1/shop?{options}")).await;
        assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{options}: {error}");
        assert!(error.to_string().contains(remedy), "{options}: {error}");
    }
}

/// Every write waits for a majority, with and without the option.
#[tokio::test]
async fn a_majority_write_concern_is_accepted() {
    for server in [mongod::standalone().await, mongod::replica_set().await] {
        let url = url(server, "w=majority&journal=true&wtimeoutMS=60000");
        let backend = backend::open(&url).await.expect("it opens");
        backend.insert(insert(1)).await.expect("an insert");
        assert_eq!(backend.count(count()).await.expect("a count"), 1);
    }
}

fn insert(id: i32) -> InsertOperation {
    InsertOperation {
        collection: "things".into(),
        documents: vec![rawdoc! { "_id": id, "n": id }],
        ordered: true,
        origin: Default::default(),
    }
}

fn count() -> CountOperation {
    CountOperation {
        collection: "things".into(),
        filter: rawdoc! {},
        limit: None,
        options: Default::default(),
    }
}

fn find() -> FindOperation {
    FindOperation {
        collection: "things".into(),
        filter: rawdoc! {},
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    }
}

/// Each kind of read, of a collection with one document.
async fn every_read(reads: &dyn Executor) -> Result<()> {
    assert_eq!(read_to_end(reads.find(find()).await?).await?.len(), 1);
    assert_eq!(reads.find_all(find()).await?.len(), 1);
    assert_eq!(reads.count(count()).await?, 1);
    let each = FindEach {
        collection: "things".into(),
        path: "n".to_owned(),
        keys: vec![1.into()],
        filter: rawdoc! {},
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    };
    assert_eq!(read_to_end(reads.find_each(each).await?).await?.len(), 1);
    let several = FindSeveral {
        finds: vec![find(), find()],
    };
    assert_eq!(
        read_to_end(reads.find_several(several).await?).await?.len(),
        2
    );
    let aggregate = AggregateOperation {
        collection: "things".into(),
        pipeline: vec![rawdoc! { "$match": { "n": 1 } }],
        variables: rawdoc! {},
        options: Default::default(),
    };
    assert_eq!(reads.aggregate_all(aggregate).await?.len(), 1);
    let distinct = DistinctOperation {
        collection: "things".into(),
        path: "n".to_owned(),
        filter: rawdoc! {},
        options: Default::default(),
    };
    assert_eq!(reads.distinct(distinct).await?.len(), 1);
    reads.explain(find()).await.map(drop)
}

/// Reads of the application have the level of the URL; reads of the backend do not.
#[tokio::test]
async fn application_reads_use_the_url_read_concern() {
    for (server, levels) in [
        (
            mongod::replica_set().await,
            &["local", "available", "majority", "linearizable", "snapshot"][..],
        ),
        (
            mongod::standalone().await,
            &["local", "available", "majority"][..],
        ),
    ] {
        for level in levels {
            let options = format!("readConcernLevel={level}");
            let backend = backend::open(&url(server, &options))
                .await
                .expect("it opens");
            backend.insert(insert(1)).await.expect("an insert");
            every_read(&*backend).await.expect("its own reads");
            let reads = backend.client_reads().expect("MongoDB has some");
            let read = every_read(&*reads).await;
            assert!(read.is_ok(), "{level}: {read:?}");
            if backend.capabilities().change_streams {
                let mut watch = backend
                    .watch(WatchOperation::collection("things"))
                    .await
                    .expect("it");
                backend.insert(insert(2)).await.expect("an insert");
                assert_eq!(watch.next_batch().await.expect("an event").len(), 1);
            }
        }
    }
}

/// A standalone server refuses levels that need a replica set, at each read of the application.
#[tokio::test]
async fn a_standalone_server_refuses_replica_set_read_concerns() {
    for level in ["linearizable", "snapshot"] {
        let options = format!("readConcernLevel={level}");
        let url = url(mongod::standalone().await, &options);
        let backend = backend::open(&url).await.expect("it opens");
        backend.insert(insert(1)).await.expect("an insert");
        every_read(&*backend).await.expect("its own reads");
        let reads = backend.client_reads().expect("MongoDB has some");
        assert!(every_read(&*reads).await.is_err(), "{level}");
    }
}

/// A set of one member can be connected directly.
#[tokio::test]
async fn a_direct_connection_to_a_member_works() {
    let server = mongod::replica_set().await;
    if server.is_foreign() {
        return;
    }
    let url = url(server, "directConnection=true");
    run_small_storm::<Copies>(backend::open(&url).await.expect("it opens")).await;
}

/// A pool of one connection is slow, without a deadlock.
#[tokio::test]
async fn a_pool_of_one_connection_does_not_deadlock() {
    let url = url(mongod::replica_set().await, "maxPoolSize=1&minPoolSize=1");
    let storm = run_small_storm::<Copies>(backend::open(&url).await.expect("it opens"));
    // A write that waits for a transaction must not take the connection of the commit.
    let in_time = tokio::time::timeout(std::time::Duration::from_secs(45), storm);
    in_time.await.expect("no deadlock");
}

#[tokio::test]
async fn writes_work_without_driver_retries() {
    let url = url(
        mongod::replica_set().await,
        "retryWrites=false&retryReads=false",
    );
    run_small_storm::<Copies>(backend::open(&url).await.expect("it opens")).await;
}

/// A small storm.
async fn run_small_storm<S: Storm>(backend: Arc<dyn Backend>) {
    let db = Database::<S::Schema>::with_backend(backend);
    let size = Size {
        tasks: 4,
        operations: 25,
        ids: 12,
        seed: 0,
    };
    storm::begin::<S>(&db, size).await;
    storm::run::<S>(&db, size).await;
}

/// A backend wrapper that records the reads of clients, or has no such reads.
#[derive(Debug)]
struct ReadRecorder<T: ?Sized = dyn Backend> {
    inner: Arc<T>,
    has_client_reads: bool,
    /// Whether this wraps the reads of a client.
    is_client: bool,
    operations: Arc<Mutex<Vec<Operation>>>,
}

impl ReadRecorder {
    fn new(inner: Arc<dyn Backend>, has_client_reads: bool) -> Arc<Self> {
        Arc::new(Self {
            inner,
            has_client_reads,
            is_client: false,
            operations: Arc::default(),
        })
    }

    fn take_operations(&self) -> Vec<Operation> {
        std::mem::take(
            &mut *self
                .operations
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

impl<T: Executor + ?Sized> Wrapper for ReadRecorder<T> {
    type Inner = T;

    fn inner(&self) -> &T {
        &self.inner
    }

    fn perform<'a, R: Send + 'a>(
        &'a self,
        operation: Operation,
        run: BoxFuture<'a, Result<R>>,
    ) -> BoxFuture<'a, Result<R>> {
        if self.is_client {
            let mut operations = self
                .operations
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            operations.push(operation);
        }
        run
    }

    fn wrap_transaction(
        &self,
        transaction: Arc<dyn BackendTransaction>,
    ) -> Arc<dyn BackendTransaction> {
        transaction
    }

    fn wrap_client_reads(&self, reads: Arc<dyn Executor>) -> Option<Arc<dyn Executor>> {
        self.has_client_reads.then(|| {
            let around: Arc<dyn Executor> = Arc::new(ReadRecorder {
                inner: reads,
                has_client_reads: false,
                is_client: true,
                operations: Arc::clone(&self.operations),
            });
            around
        })
    }
}

/// Writes, checks, repairs and waits make no read of a client. The storms have all of these operations.
#[tokio::test]
async fn internal_reads_ignore_the_url_options() {
    for server in [mongod::standalone().await, mongod::replica_set().await] {
        let open = async || {
            let url = url(server, "readPreference=nearest&readConcernLevel=local");
            ReadRecorder::new(backend::open(&url).await.expect("it opens"), true)
        };
        let watched = open().await;
        run_small_storm::<Copies>(watched.clone()).await;
        assert_eq!(watched.take_operations(), []);
        let watched = open().await;
        run_small_storm::<Rollups>(watched.clone()).await;
        assert_eq!(watched.take_operations(), []);
        let watched = open().await;
        run_small_storm::<Links>(watched.clone()).await;
        assert_eq!(watched.take_operations(), []);
        run_overflow_maintenance(open().await).await;
    }
}

/// A model with numbered ids.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "shelves", id = "shelves/{#number}")]
struct Shelf {
    #[serde(rename = "_id")]
    id: String,
    number: i64,
    room: String,
}

/// A model with an overflow array and a checked reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "books", version)]
struct Book {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(exists)]
    shelf: Ref<Shelf>,
    #[snapshot(from = shelf.room)]
    room: String,
    #[embed(overflow(after = 3, into = "more_pages", owner = "book"))]
    pages: Overflow<String>,
    version: i64,
}

#[derive(Schema)]
#[schema(models(Shelf, Book))]
struct Library;

/// Arrays that overflow, and the jobs of a database.
async fn run_overflow_maintenance(watched: Arc<ReadRecorder>) {
    let db = Database::<Library>::with_backend(watched.clone());
    db.sync_indexes().await.expect("indexes");
    let room = "hall".to_owned();
    let shelf = db.insert(NewShelf { room }).await.expect("an insert");
    let book = NewBook {
        id: 1,
        shelf: shelf.to_ref(),
        pages: ["1".to_owned()].into_iter().collect(),
    };
    db.insert(book).await.expect("an insert");
    for page in 2..=9 {
        let pushed = db.update::<Book>(1).push(|b| b.pages(), page.to_string());
        pushed.await.expect("a push");
    }
    db.wait_for_pending().await.expect("nothing is pending");
    db.pending().await.expect("a report");
    db.backfills().await.expect("a report");
    assert!(db.check().await.expect("a report").is_clean());
    db.repair().apply().await.expect("a report");
    db.upgrade::<Book>().await.expect("a report");
    // Elements of an overflow array come from one server.
    let pages = db.get::<Book>(1).elements(|b| b.pages()).all().await;
    assert_eq!(pages.expect("all of them").len(), 9);
    assert_eq!(watched.take_operations(), []);

    db.get::<Book>(1).await.expect("the book");
    db.find_by_id::<Book>(1).await.expect("the book");
    db.get_many::<Book>([1]).await.expect("the book");
    db.load((Ref::<Book>::new(1),)).await.expect("the book");
    assert_eq!(db.find::<Book>().all().await.expect("the book").len(), 1);
    assert_eq!(db.find::<Book>().count().await.expect("one"), 1);
    assert_eq!(watched.take_operations().len(), 6);
}

/// The commands at the server: internal reads have the primary with a majority or a snapshot, writes wait for a majority.
#[tokio::test]
async fn internal_commands_ignore_the_url_read_options() {
    for server in [mongod::standalone().await, mongod::replica_set().await] {
        if server.is_foreign() {
            continue;
        }
        let url = url(server, "readPreference=nearest&readConcernLevel=local");
        let backend = backend::open(&url).await.expect("it opens");
        let is_replicated = backend.capabilities().transactions;
        let client = mongodb::Client::with_uri_str(&url).await.expect("a client");
        let driver = client.default_database().expect("a database");
        // The profile of a storm is larger than its default size.
        let large = doc! { "create": "system.profile", "capped": true, "size": 256 << 20 };
        driver.run_command(large).await.expect("a profile");
        driver.run_command(doc! { "profile": 2 }).await.expect("it");
        run_small_storm::<Copies>(ReadRecorder::new(backend.clone(), false)).await;
        run_small_storm::<Rollups>(ReadRecorder::new(backend.clone(), false)).await;
        run_small_storm::<Links>(ReadRecorder::new(backend.clone(), false)).await;
        driver.run_command(doc! { "profile": 0 }).await.expect("it");

        let profile = driver.collection::<Document>("system.profile");
        let commands = profile.find(doc! { "command.lsid": { "$exists": true } });
        let commands: Vec<_> = commands.await.expect("it").try_collect().await.expect("it");
        assert!(commands.len() > 500, "{} commands", commands.len());
        let mut reads = 0;
        for profiled in &commands {
            let command = profiled.get_document("command").expect("a command");
            assert!(!command.contains_key("$readPreference"), "{command}");
            let is_read = ["find", "aggregate", "count", "distinct"]
                .iter()
                .any(|name| command.contains_key(*name));
            let level = command.get_document("readConcern").ok();
            let level = level.and_then(|concern| concern.get_str("level").ok());
            match (command.contains_key("txnNumber"), level) {
                // Retryable writes have a number too.
                (true, Some(level)) => assert_eq!(level, "snapshot", "{command}"),
                (false, level) if is_read && is_replicated => {
                    assert_eq!(level, Some("majority"), "{command}");
                    reads += 1;
                }
                (_, level) => assert_eq!(level, None, "{command}"),
            }
            let is_write = ["insert", "update", "delete", "findAndModify"]
                .iter()
                .any(|name| command.contains_key(*name));
            if is_write && !command.contains_key("autocommit") {
                let concern = command.get_document("writeConcern").expect("a concern");
                let concern = (concern.get_str("w").ok(), concern.get_bool("j").ok());
                assert_eq!(concern, (Some("majority"), Some(true)), "{command}");
            }
        }
        assert!(!is_replicated || reads > 50, "{reads} reads");
    }
}
