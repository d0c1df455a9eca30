//! What a server does when it fails on demand: lost connections, lost answers, unsafe writes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bson::{Document, doc, rawdoc};
use odm::{
    Error, ErrorKind,
    backend::{
        self, Backend,
        operation::{Change, Count, Find, FindAndModify, Insert, Modification, Update},
    },
};
use odm_tests::mongod::{self, Server};

/// A database on a shared server, whose failures are for this client alone.
struct Failing {
    backend: Arc<dyn Backend>,
    admin: mongodb::Database,
    app: String,
}

impl Failing {
    /// The fresh database's name is also that of the client, by which the server knows whom to fail.
    async fn on(server: &Server) -> Option<Self> {
        if server.is_foreign() {
            // It may not allow failures, and they would be for others too.
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

    /// The command fails the next few times.
    async fn fail(&self, command: &str, times: i32, how: Document) {
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
        let count = Count {
            collection: "things".into(),
            filter: rawdoc! {},
            limit: None,
            max_time: None,
        };
        self.backend.count(count).await.expect("a count")
    }
}

fn insert(id: i32) -> Insert {
    Insert {
        collection: "things".into(),
        documents: vec![rawdoc! { "_id": id }],
        ordered: true,
    }
}

fn lost() -> Document {
    doc! { "closeConnection": true }
}

fn is_connection(error: &Error) -> bool {
    error.kind() == ErrorKind::Connection
}

/// The server has one failure on demand at a time, so these are one test.
#[tokio::test]
async fn on_a_replica_set() {
    let Some(failing) = Failing::on(mongod::replica_set().await).await else {
        return;
    };
    let backend = &failing.backend;
    backend.insert(insert(1)).await.unwrap();

    // The driver tries writes of one document and reads again.
    failing.fail("insert", 1, lost()).await;
    backend.insert(insert(2)).await.unwrap();
    failing.fail("aggregate", 1, lost()).await;
    assert_eq!(failing.count().await, 2);

    // A failure that lasts is told.
    failing.fail("insert", 2, lost()).await;
    let error = backend.insert(insert(3)).await.unwrap_err();
    assert!(is_connection(&error), "{error:?}");
    assert_eq!(error.inserted(), None);
    assert_eq!(error.collection(), Some("things"));

    // What returns the document is tried again too; an unordered insert of several is not.
    failing.fail("findAndModify", 1, lost()).await;
    let change = Change::operators(rawdoc! { "$inc": { "n": 1 } });
    let count_up = FindAndModify {
        collection: "things".into(),
        filter: rawdoc! { "_id": 1 },
        sort: None,
        projection: None,
        modification: Modification::Update {
            change,
            upsert: false,
            return_new: true,
        },
    };
    let counted = backend.find_and_modify(count_up).await.unwrap().unwrap();
    assert_eq!(counted.get_i32("n").unwrap(), 1);
    failing.fail("insert", 1, lost()).await;
    let unordered = Insert {
        documents: vec![rawdoc! { "_id": 1 }, rawdoc! { "_id": 9 }],
        ordered: false,
        ..insert(0)
    };
    let error = backend.insert(unordered).await.unwrap_err();
    assert!(is_connection(&error), "{error:?}");
    assert_eq!(error.inserted(), None);
    assert_eq!(error.collection(), Some("things"));

    // Written, but not where it is safe.
    let concern = doc! { "code": 64, "errmsg": "waiting for replication timed out" };
    failing
        .fail("insert", 1, doc! { "writeConcernError": concern })
        .await;
    let error = backend.insert(insert(3)).await.unwrap_err();
    assert!(is_connection(&error), "{error:?}");
    assert_eq!(error.code(), Some(64));

    // The outcome of a commit is found out by committing again.
    let tx = backend.begin().await.unwrap();
    tx.insert(insert(4)).await.unwrap();
    failing.fail("commitTransaction", 3, lost()).await;
    tx.commit().await.unwrap();
    assert_eq!(failing.count().await, 4);

    // A transaction that loses its connection was not kept, and may be tried again.
    let tx = backend.begin().await.unwrap();
    tx.insert(insert(5)).await.unwrap();
    failing.fail("insert", 1, lost()).await;
    let error = tx.insert(insert(6)).await.unwrap_err();
    assert!(error.is_conflict(), "{error:?}");
    let error = tx.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TransactionOver);
    assert_eq!(failing.count().await, 4);

    // A conflict at the commit, too.
    let tx = backend.begin().await.unwrap();
    tx.insert(insert(5)).await.unwrap();
    let labels = ["TransientTransactionError"];
    failing
        .fail(
            "commitTransaction",
            1,
            doc! { "errorCode": 251, "errorLabels": labels },
        )
        .await;
    assert!(tx.commit().await.unwrap_err().is_conflict());
}

#[tokio::test]
async fn on_a_standalone_server() {
    let Some(failing) = Failing::on(mongod::standalone().await).await else {
        return;
    };
    let backend = &failing.backend;
    failing.fail("insert", 1, lost()).await;
    let error = backend.insert(insert(1)).await.unwrap_err();
    assert!(is_connection(&error), "{error:?}");

    failing.fail("update", 1, lost()).await;
    let update = Update {
        collection: "things".into(),
        filter: rawdoc! {},
        change: Change::operators(rawdoc! { "$set": { "a": 1 } }),
        multi: true,
        upsert: false,
    };
    let error = backend.update(update).await.unwrap_err();
    assert!(is_connection(&error), "{error:?}");

    // A cursor that breaks in the middle says so, rather than end.
    let documents = (0..500).map(|i| rawdoc! { "_id": i }).collect();
    let many = Insert {
        documents,
        ..insert(0)
    };
    backend.insert(many).await.unwrap();
    let find = Find {
        collection: "things".into(),
        filter: rawdoc! {},
        projection: None,
        sort: None,
        limit: None,
        max_time: None,
    };
    let mut cursor = backend.find(find).await.unwrap();
    assert!(!cursor.next_batch().await.unwrap().is_empty());
    failing.fail("getMore", 1, lost()).await;
    assert!(is_connection(&cursor.next_batch().await.unwrap_err()));
    assert!(cursor.next_batch().await.unwrap().is_empty());

    // A server that does not answer in time, and so does not look at the limit either, is not waited for.
    let block = doc! { "blockConnection": true, "blockTimeMS": 20_000 };
    failing.fail("find", 1, block).await;
    let limited = Find {
        collection: "things".into(),
        filter: rawdoc! {},
        projection: None,
        sort: None,
        limit: None,
        max_time: Some(Duration::from_millis(100)),
    };
    let begun = Instant::now();
    let error = backend.find_all(limited).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}
