//! Options of a MongoDB URL: passed on without an effect on internal reads, or refused.

use std::sync::{Arc, Mutex, PoisonError};

use bson::{Document, doc, rawdoc};
use futures_util::TryStreamExt;
use odm::{
    Database, Document as _, Error, ErrorKind, Result,
    backend::{
        self, Backend, BoxFuture, Executor, Transaction, Wrapper, drain,
        operation::{
            Aggregate, Count, Distinct, Find, FindEach, FindSeveral, Insert, Operation, Watch,
        },
    },
    prelude::*,
};
use odm_tests::{
    mongod::{self, Server},
    storm::{self, Copies, Counts, Links, Size, Storm},
};

/// The URL of a fresh database with options.
fn url(server: &Server, options: &str) -> String {
    let url = server.fresh_url();
    let join = if url.contains('?') { '&' } else { '?' };
    format!("{url}{join}{options}")
}

async fn refused(url: &str) -> Error {
    backend::open(url).await.expect_err("it cannot be opened")
}

/// Options are refused before the first connection.
#[tokio::test]
async fn what_would_break_a_guarantee_is_refused_with_a_remedy() {
    for (options, said) in [
        ("w=0", "Leave `w` out"),
        ("w=1", "Leave `w` out"),
        ("w=3", "Leave `w` out"),
        ("w=twoCenters", "`w=twoCenters`"),
        ("W=1", "Leave `w` out"),
        ("journal=false", "Leave `journal` out"),
        ("w=majority&journal=false", "Leave `journal` out"),
        ("loadBalanced=true", "`mongos`"),
        ("socketTimeoutMS=5000", "`tokio::time::timeout`"),
        ("WaitQueueTimeoutMS=5000", "`waitQueueTimeoutMS`"),
        ("uuidRepresentation=javaLegacy", "Leave it out"),
        ("maxAdaptiveRetries=3", "`maxAdaptiveRetries`"),
        ("enableOverloadRetargeting=true", "Leave it out"),
        ("compressors=zstd", "features = [\"zstd-compression\"]"),
        ("proxyHost=localhost", "features = [\"socks5-proxy\"]"),
        ("appName=a?b&w=1", "Leave `w` out"),
        ("maxStalenessSeconds=90", "read preference"),
        ("readPreference=primary&maxStalenessSeconds=90", "primary"),
        ("readPreference=secondary&maxStalenessSeconds=9", "90"),
        ("readPreferenceTags=a:b", "read preference"),
        ("timeoutMS=100", "timeoutms"),
    ] {
        let error = refused(&format!("mongodb://127.0.0.1:1/shop?{options}")).await;
        assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{options}: {error}");
        assert!(error.to_string().contains(said), "{options}: {error}");
    }
}

/// Every write waits for a majority, with and without the option.
#[tokio::test]
async fn a_majority_may_be_asked_for() {
    for server in [mongod::standalone().await, mongod::replica_set().await] {
        let url = url(server, "w=majority&journal=true&wtimeoutMS=60000");
        let backend = backend::open(&url).await.expect("it opens");
        backend.insert(insert(1)).await.expect("an insert");
        assert_eq!(backend.count(count()).await.expect("a count"), 1);
    }
}

fn insert(id: i32) -> Insert {
    Insert {
        collection: "things".into(),
        documents: vec![rawdoc! { "_id": id, "n": id }],
        ordered: true,
    }
}

fn count() -> Count {
    Count {
        collection: "things".into(),
        filter: rawdoc! {},
        limit: None,
        max_time: None,
    }
}

fn find() -> Find {
    Find {
        collection: "things".into(),
        filter: rawdoc! {},
        projection: None,
        sort: None,
        limit: None,
        max_time: None,
    }
}

/// Each kind of read, of a collection with one document.
async fn every_read(reads: &dyn Executor) -> Result<()> {
    assert_eq!(drain(reads.find(find()).await?).await?.len(), 1);
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
        max_time: None,
    };
    assert_eq!(drain(reads.find_each(each).await?).await?.len(), 1);
    let several = FindSeveral {
        finds: vec![find(), find()],
    };
    assert_eq!(drain(reads.find_several(several).await?).await?.len(), 2);
    let aggregate = Aggregate {
        collection: "things".into(),
        pipeline: vec![rawdoc! { "$match": { "n": 1 } }],
        variables: rawdoc! {},
        max_time: None,
    };
    assert_eq!(reads.aggregate_all(aggregate).await?.len(), 1);
    let distinct = Distinct {
        collection: "things".into(),
        path: "n".to_owned(),
        filter: rawdoc! {},
        max_time: None,
    };
    assert_eq!(reads.distinct(distinct).await?.len(), 1);
    reads.explain(find()).await.map(drop)
}

/// Reads of the application have the level of the URL; reads of the backend do not.
#[tokio::test]
async fn reads_of_the_application_have_the_level_of_the_url() {
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
                    .watch(Watch::collection("things"))
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
async fn a_standalone_server_has_no_level_of_members() {
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
async fn one_member_may_be_connected_directly() {
    let server = mongod::replica_set().await;
    if server.is_foreign() {
        return;
    }
    let url = url(server, "directConnection=true");
    agrees::<Copies>(backend::open(&url).await.expect("it opens")).await;
}

/// A pool of one connection is slow, without a deadlock.
#[tokio::test]
async fn one_connection_is_enough() {
    let url = url(mongod::replica_set().await, "maxPoolSize=1&minPoolSize=1");
    let storm = agrees::<Copies>(backend::open(&url).await.expect("it opens"));
    // A write that waits for a transaction must not take the connection of the commit.
    let in_time = tokio::time::timeout(std::time::Duration::from_secs(45), storm);
    in_time.await.expect("no deadlock");
}

#[tokio::test]
async fn nothing_depends_on_retries_of_the_driver() {
    let url = url(
        mongod::replica_set().await,
        "retryWrites=false&retryReads=false",
    );
    agrees::<Copies>(backend::open(&url).await.expect("it opens")).await;
}

/// A small storm.
async fn agrees<S: Storm>(backend: Arc<dyn Backend>) {
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
struct Watched<T: ?Sized = dyn Backend> {
    inner: Arc<T>,
    has_client_reads: bool,
    /// Whether this wraps the reads of a client.
    is_client: bool,
    seen: Arc<Mutex<Vec<Operation>>>,
}

impl Watched {
    fn new(inner: Arc<dyn Backend>, has_client_reads: bool) -> Arc<Self> {
        Arc::new(Self {
            inner,
            has_client_reads,
            is_client: false,
            seen: Arc::default(),
        })
    }

    fn seen(&self) -> Vec<Operation> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Executor + ?Sized> Wrapper for Watched<T> {
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
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(operation);
        }
        run
    }

    fn around(&self, transaction: Arc<dyn Transaction>) -> Arc<dyn Transaction> {
        transaction
    }

    fn around_reads(&self, reads: Arc<dyn Executor>) -> Option<Arc<dyn Executor>> {
        self.has_client_reads.then(|| {
            let around: Arc<dyn Executor> = Arc::new(Watched {
                inner: reads,
                has_client_reads: false,
                is_client: true,
                seen: Arc::clone(&self.seen),
            });
            around
        })
    }
}

/// Writes, checks, repairs and waits make no read of a client. The storms have all of these operations.
#[tokio::test]
async fn only_the_application_reads_as_the_url_says() {
    for server in [mongod::standalone().await, mongod::replica_set().await] {
        let open = async || {
            let url = url(server, "readPreference=nearest&readConcernLevel=local");
            Watched::new(backend::open(&url).await.expect("it opens"), true)
        };
        let watched = open().await;
        agrees::<Copies>(watched.clone()).await;
        assert_eq!(watched.seen(), []);
        let watched = open().await;
        agrees::<Counts>(watched.clone()).await;
        assert_eq!(watched.seen(), []);
        let watched = open().await;
        agrees::<Links>(watched.clone()).await;
        assert_eq!(watched.seen(), []);
        jobs(open().await).await;
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
async fn jobs(watched: Arc<Watched>) {
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
    db.settled().await.expect("nothing is pending");
    db.owed().await.expect("a report");
    db.backfills().await.expect("a report");
    assert!(db.check().await.expect("a report").is_clean());
    db.repair().apply().await.expect("a report");
    db.upgrade::<Book>().await.expect("a report");
    // Elements of an overflow array come from one server.
    let pages = db.get::<Book>(1).elements(|b| b.pages()).all().await;
    assert_eq!(pages.expect("all of them").len(), 9);
    assert_eq!(watched.seen(), []);

    db.get::<Book>(1).await.expect("the book");
    db.find_by_id::<Book>(1).await.expect("the book");
    db.get_many::<Book>([1]).await.expect("the book");
    db.load((Ref::<Book>::new(1),)).await.expect("the book");
    assert_eq!(db.find::<Book>().all().await.expect("the book").len(), 1);
    assert_eq!(db.find::<Book>().count().await.expect("one"), 1);
    assert_eq!(watched.seen().len(), 6);
}

/// The commands at the server: internal reads have the primary with a majority or a snapshot, writes wait for a majority.
#[tokio::test]
async fn commands_of_the_framework_ignore_the_read_options() {
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
        agrees::<Copies>(Watched::new(backend.clone(), false)).await;
        agrees::<Counts>(Watched::new(backend.clone(), false)).await;
        agrees::<Links>(Watched::new(backend.clone(), false)).await;
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
