//! Failures of a MongoDB server, injected by fail points: lost connections, lost replies, missing write concern.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bson::{Document, doc, rawdoc};
use odm::{
    Error, ErrorKind,
    backend::{
        self, Backend,
        operation::{
            CountOperation, DocumentChange, FindAndModify, FindAndModifyKind, FindOperation,
            InsertOperation, ReadOptions, UpdateOperation,
        },
    },
};
use odm_tests::mongod::{self, Server};

/// A database on a shared server, with fail points for this client alone.
struct FailPointDatabase {
    backend: Arc<dyn Backend>,
    admin: mongodb::Database,
    app: String,
}

impl FailPointDatabase {
    /// Opens a fresh database. The name of the database is also the application name, which selects the client for fail points.
    async fn on(server: &Server) -> Option<Self> {
        if server.is_foreign() {
            // The server may forbid fail points, and may have further clients.
            return None;
        }
        let url = server.fresh_url();
        let app = url
            .split(['/', '?'])
            .find(|part| part.starts_with("odm_test"))?
            .to_owned();
        let join = if url.contains('?') { '&' } else { '?' };
        let backend = backend::open(&format!("{url}{join}appName={app}")).await;
        let client = mongodb::Client::with_uri_str(server.url("admin")).await;
        Some(Self {
            backend: backend.expect("the backend opens"),
            admin: client.expect("a client").database("admin"),
            app,
        })
    }

    /// Makes a command fail the next `times` times.
    async fn inject_failure(&self, command: &str, times: i32, how: Document) {
        let mut data = doc! { "failCommands": [command], "appName": &self.app };
        data.extend(how);
        let mode = doc! { "times": times };
        let fail = doc! { "configureFailPoint": "failCommand", "mode": mode, "data": data };
        self.admin
            .run_command(fail)
            .await
            .expect("the server fails on demand");
    }

    async fn count(&self) -> u64 {
        let count = CountOperation {
            collection: "things".into(),
            filter: rawdoc! {},
            limit: None,
            options: Default::default(),
        };
        self.backend.count(count).await.expect("a count")
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

fn close_connection() -> Document {
    doc! { "closeConnection": true }
}

fn is_connection(error: &Error) -> bool {
    error.kind() == ErrorKind::Connection
}

/// All failures on a replica set. The server has a single fail point at a time, so the steps share a test.
#[tokio::test]
async fn failures_on_a_replica_set() {
    let Some(failing) = FailPointDatabase::on(mongod::replica_set().await).await else {
        return;
    };
    let backend = &failing.backend;
    backend.insert(insert(1)).await.unwrap();

    // The driver retries writes of single documents, and reads.
    failing
        .inject_failure("insert", 1, close_connection())
        .await;
    backend.insert(insert(2)).await.unwrap();
    failing
        .inject_failure("aggregate", 1, close_connection())
        .await;
    assert_eq!(failing.count().await, 2);

    // A lasting failure is returned as an error.
    failing
        .inject_failure("insert", 2, close_connection())
        .await;
    let error = backend.insert(insert(3)).await.unwrap_err();
    assert!(is_connection(&error), "{error:?}");
    assert_eq!(error.inserted(), None);
    assert_eq!(error.collection(), Some("things"));

    // The driver also retries `findAndModify`, but not an unordered insert of several documents.
    failing
        .inject_failure("findAndModify", 1, close_connection())
        .await;
    let change = DocumentChange::operators(rawdoc! { "$inc": { "n": 1 } });
    let count_up = FindAndModify {
        collection: "things".into(),
        filter: rawdoc! { "_id": 1 },
        sort: None,
        projection: None,
        modification: FindAndModifyKind::Update {
            change,
            upsert: false,
            return_new: true,
        },
        origin: Default::default(),
    };
    let counted = backend.find_and_modify(count_up).await.unwrap().unwrap();
    assert_eq!(counted.get_i32("n").unwrap(), 1);
    failing
        .inject_failure("insert", 1, close_connection())
        .await;
    let unordered = InsertOperation {
        documents: vec![rawdoc! { "_id": 1 }, rawdoc! { "_id": 9 }],
        ordered: false,
        ..insert(0)
    };
    let error = backend.insert(unordered).await.unwrap_err();
    assert!(is_connection(&error), "{error:?}");
    assert_eq!(error.inserted(), None);
    assert_eq!(error.collection(), Some("things"));

    // The server applied the write, but the write concern is not satisfied.
    let concern = doc! { "code": 64, "errmsg": "waiting for replication timed out" };
    failing
        .inject_failure("insert", 1, doc! { "writeConcernError": concern })
        .await;
    let error = backend.insert(insert(3)).await.unwrap_err();
    assert!(is_connection(&error), "{error:?}");
    assert_eq!(error.code(), Some(64));

    // The backend repeats a commit until the outcome is known.
    let tx = backend.begin().await.unwrap();
    tx.insert(insert(4)).await.unwrap();
    failing
        .inject_failure("commitTransaction", 3, close_connection())
        .await;
    tx.commit().await.unwrap();
    assert_eq!(failing.count().await, 4);

    // A transaction with a lost connection is rolled back, and may be retried.
    let tx = backend.begin().await.unwrap();
    tx.insert(insert(5)).await.unwrap();
    failing
        .inject_failure("insert", 1, close_connection())
        .await;
    let error = tx.insert(insert(6)).await.unwrap_err();
    assert!(error.is_conflict(), "{error:?}");
    let error = tx.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TransactionOver);
    assert_eq!(failing.count().await, 4);

    // A commit can return a conflict.
    let tx = backend.begin().await.unwrap();
    tx.insert(insert(5)).await.unwrap();
    let labels = ["TransientTransactionError"];
    failing
        .inject_failure(
            "commitTransaction",
            1,
            doc! { "errorCode": 251, "errorLabels": labels },
        )
        .await;
    assert!(tx.commit().await.unwrap_err().is_conflict());
}

#[tokio::test]
async fn failures_on_a_standalone_server() {
    let Some(failing) = FailPointDatabase::on(mongod::standalone().await).await else {
        return;
    };
    let backend = &failing.backend;
    failing
        .inject_failure("insert", 1, close_connection())
        .await;
    let error = backend.insert(insert(1)).await.unwrap_err();
    assert!(is_connection(&error), "{error:?}");

    failing
        .inject_failure("update", 1, close_connection())
        .await;
    let update = UpdateOperation {
        collection: "things".into(),
        filter: rawdoc! {},
        change: DocumentChange::operators(rawdoc! { "$set": { "a": 1 } }),
        multi: true,
        upsert: false,
        origin: Default::default(),
    };
    let error = backend.update(update).await.unwrap_err();
    assert!(is_connection(&error), "{error:?}");

    // A broken cursor returns an error, instead of ending early.
    let documents = (0..500).map(|i| rawdoc! { "_id": i }).collect();
    let many = InsertOperation {
        documents,
        ..insert(0)
    };
    backend.insert(many).await.unwrap();
    let find = FindOperation {
        collection: "things".into(),
        filter: rawdoc! {},
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    };
    let mut cursor = backend.find(find).await.unwrap();
    assert!(!cursor.next_batch().await.unwrap().is_empty());
    failing
        .inject_failure("getMore", 1, close_connection())
        .await;
    assert!(is_connection(&cursor.next_batch().await.unwrap_err()));
    assert!(cursor.next_batch().await.unwrap().is_empty());

    // The client enforces the time limit, because a server that does not answer cannot enforce the limit.
    let block = doc! { "blockConnection": true, "blockTimeMS": 20_000 };
    failing.inject_failure("find", 1, block).await;
    let limited = FindOperation {
        collection: "things".into(),
        filter: rawdoc! {},
        projection: None,
        sort: None,
        limit: None,
        options: ReadOptions::default().with_max_time(Some(Duration::from_millis(100))),
    };
    let begun = Instant::now();
    let error = backend.find_all(limited).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}
