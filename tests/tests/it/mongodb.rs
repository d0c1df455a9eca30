//! Behavior of the MongoDB backend that the other backends do not share.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use bson::{Bson, doc, rawdoc};
use mongodb::{Client, Database};
use odm::{
    ErrorKind,
    backend::{
        self, BoxFuture,
        operation::{
            AggregateOperation, CountOperation, Direction, DistinctOperation, DocumentChange,
            FindEach, FindOperation, FindSeveral, Index, InsertOperation, ReadOptions,
            UpdateOperation,
        },
        read_to_end,
    },
    prelude::*,
};
use odm_tests::{
    Fixture,
    models::Post,
    mongod::{self, Kind, Server},
};

async fn driver(fixture: &Fixture) -> Database {
    let client = Client::with_uri_str(fixture.url()).await.expect("a client");
    client.default_database().expect("the URL names a database")
}

fn insert(documents: impl IntoIterator<Item = bson::RawDocumentBuf>) -> InsertOperation {
    InsertOperation {
        collection: "things".into(),
        documents: documents.into_iter().collect(),
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

#[tokio::test]
async fn capabilities_depend_on_the_server_kind() {
    for (fixture, is_replicated) in [
        (Fixture::mongodb_standalone().await, false),
        (Fixture::mongodb_replica_set().await, true),
    ] {
        let capabilities = fixture.backend().capabilities();
        assert_eq!(capabilities.transactions, is_replicated);
        assert_eq!(capabilities.change_streams, is_replicated);
    }
}

/// The last two documents of each of 10 hosts cost at most 20 examined keys and 20 examined documents, without a sort stage.
#[tokio::test]
async fn find_each_uses_the_index_for_order_and_limit() {
    let fixture = Fixture::mongodb_standalone().await;
    let (backend, driver) = (fixture.backend(), driver(&fixture).await);
    backend
        .insert(insert(
            (0..5_000).map(|i| rawdoc! { "_id": i, "host": i % 50, "time": i }),
        ))
        .await
        .unwrap();
    let keys = vec![
        ("host".to_owned(), Direction::Ascending),
        ("time".to_owned(), Direction::Descending),
    ];
    backend
        .create_indexes("things", vec![Index::new(keys)])
        .await
        .unwrap();
    driver.run_command(doc! { "profile": 2 }).await.unwrap();
    let find = FindEach {
        collection: "things".into(),
        path: "host".to_owned(),
        keys: (0..10).map(Into::into).collect(),
        filter: rawdoc! {},
        projection: None,
        sort: Some(rawdoc! { "time": -1 }),
        limit: Some(2),
        options: Default::default(),
    };
    let found = read_to_end(backend.find_each(find).await.unwrap())
        .await
        .unwrap();
    assert_eq!(found.len(), 20);
    driver.run_command(doc! { "profile": 0 }).await.unwrap();

    let profile = driver.collection::<bson::Document>("system.profile");
    let profile = profile
        .find_one(doc! { "command.aggregate": 1 })
        .await
        .unwrap();
    let profile = profile.expect("the aggregation was profiled");
    for examined in ["docsExamined", "keysExamined"] {
        // The server does not include the cost of the last key.
        assert!(
            (18..=20).contains(&profile.get_i32(examined).unwrap()),
            "{profile}"
        );
    }
    assert_eq!(profile.get("hasSortStage"), None, "{profile}");
    fixture.cleanup().await;
}

/// A read of all 1,000 documents takes a single reply. A cursor that the caller reads in batches starts with a batch of 101
/// documents.
#[tokio::test]
async fn reading_all_takes_a_single_reply() {
    for fixture in [
        Fixture::mongodb_standalone().await,
        Fixture::mongodb_replica_set().await,
    ] {
        let (backend, driver) = (fixture.backend(), driver(&fixture).await);
        let documents = (0..1_000).map(|i| rawdoc! { "_id": i, "host": i % 10 });
        backend.insert(insert(documents)).await.unwrap();
        let find = || FindOperation {
            collection: "things".into(),
            filter: rawdoc! {},
            projection: None,
            sort: None,
            limit: None,
            options: Default::default(),
        };
        let hosts = FindEach {
            collection: "things".into(),
            path: "host".to_owned(),
            keys: (0..10).map(Into::into).collect(),
            filter: rawdoc! {},
            projection: None,
            sort: None,
            limit: None,
            options: Default::default(),
        };
        let several = FindSeveral {
            finds: vec![find(), find()],
        };
        let grouped = AggregateOperation {
            collection: "things".into(),
            pipeline: vec![rawdoc! { "$match": {} }],
            variables: rawdoc! {},
            options: Default::default(),
        };
        let limited = FindOperation {
            limit: Some(500),
            ..find()
        };
        driver.run_command(doc! { "profile": 2 }).await.unwrap();
        assert_eq!(backend.find_all(find()).await.unwrap().len(), 1_000);
        assert_eq!(backend.find_all(limited).await.unwrap().len(), 500);
        assert_eq!(backend.aggregate_all(grouped).await.unwrap().len(), 1_000);
        let each = read_to_end(backend.find_each(hosts).await.unwrap()).await;
        assert_eq!(each.unwrap().len(), 1_000);
        let several = read_to_end(backend.find_several(several).await.unwrap()).await;
        assert_eq!(several.unwrap().len(), 2_000);
        driver.run_command(doc! { "profile": 0 }).await.unwrap();
        let profile = driver.collection::<bson::Document>("system.profile");
        let more = profile.count_documents(doc! { "op": "getmore" }).await;
        assert_eq!(more.unwrap(), 0);

        let mut cursor = backend.find(find()).await.unwrap();
        assert_eq!(cursor.next_batch().await.unwrap().len(), 101);
        drop(cursor);
        if fixture.backend().capabilities().transactions {
            let tx = backend.begin().await.unwrap();
            assert_eq!(tx.find_all(find()).await.unwrap().len(), 1_000);
            tx.commit().await.unwrap();
        }
        fixture.cleanup().await;
    }
}

#[tokio::test]
async fn find_each_in_a_transaction() {
    let fixture = Fixture::mongodb_replica_set().await;
    let tx = fixture.backend().begin().await.unwrap();
    tx.insert(insert(
        (0..500).map(|i| rawdoc! { "_id": i, "host": i % 2 }),
    ))
    .await
    .unwrap();
    let find = FindEach {
        collection: "things".into(),
        path: "host".to_owned(),
        keys: vec![0.into(), 1.into()],
        filter: rawdoc! {},
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    };
    let found = read_to_end(tx.find_each(find).await.unwrap())
        .await
        .unwrap();
    assert_eq!(found.len(), 500);
    tx.commit().await.unwrap();
    fixture.cleanup().await;
}

#[tokio::test]
async fn an_oversized_document_is_named_in_the_error() {
    let fixture = Fixture::mongodb_standalone().await;
    let backend = fixture.backend();
    let large = "x".repeat(17 << 20);
    let error = backend
        .insert(insert([
            rawdoc! { "_id": 1 },
            rawdoc! { "_id": 2, "text": large },
            rawdoc! { "_id": 3 },
        ]))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.inserted(), Some(1));
    assert_eq!(error.id(), Some(&Bson::Int32(2)));
    assert_eq!(backend.count(count()).await.unwrap(), 1);
    fixture.cleanup().await;
}

#[tokio::test]
async fn the_largest_document_is_stored() {
    let fixture = Fixture::mongodb_replica_set().await;
    let backend = fixture.backend();
    let text = "x".repeat((16 << 20) - 64);
    let largest = |id: i32| rawdoc! { "_id": id, "text": text.as_str() };
    backend
        .insert(insert([largest(1), largest(2)]))
        .await
        .unwrap();
    // After a duplicate key error, the backend sends the document again as a raw command, because the raw answer has the key.
    let error = backend.insert(insert([largest(1)])).await.unwrap_err();
    assert_eq!(error.value(), Some(&bson::bson!({ "_id": 1 })));
    fixture.cleanup().await;
}

/// The driver would send only the last of two conditions on the same field.
#[tokio::test]
async fn a_duplicate_filter_field_is_rejected() {
    let fixture = Fixture::mongodb_standalone().await;
    let mut filter = rawdoc! {};
    for bound in [1, 2] {
        filter.append(bson::raw::cstr!("a"), rawdoc! { "$ne": bound });
    }
    let count = CountOperation { filter, ..count() };
    let error = fixture.backend().count(count).await.unwrap_err();
    assert!(error.is_unsupported(), "{error}");
}

/// An index that `Index` cannot describe is listed as such, and causes no error.
#[tokio::test]
async fn undescribable_indexes_are_listed() {
    let fixture = Fixture::mongodb_standalone().await;
    let things = driver(&fixture)
        .await
        .collection::<bson::Document>("things");
    for keys in [
        doc! { "a": "text" },
        doc! { "b": "hashed" },
        doc! { "$**": 1 },
        doc! { "c": 1.0 },
    ] {
        let index = mongodb::IndexModel::builder().keys(keys).build();
        things.create_index(index).await.unwrap();
    }
    let indexes = fixture.backend().list_indexes("things").await.unwrap();
    let names: Vec<_> = indexes.iter().map(|index| index.name.as_str()).collect();
    assert_eq!(names, ["a_text", "b_hashed", "$**_1", "c_1"]);
    let others: Vec<_> = indexes
        .iter()
        .map(|index| index.unsupported_definition.is_some())
        .collect();
    assert_eq!(others, [true, false, true, false]);
    assert_eq!(indexes[1].hashed.as_deref(), Some("b"));
    fixture.cleanup().await;
}

#[tokio::test]
async fn a_lost_server_is_a_connection_error_and_no_acknowledged_write_is_lost() {
    let mut server = Server::start(Kind::Standalone).await.unwrap();
    let url = format!("{}?serverSelectionTimeoutMS=500", server.url("shop"));
    let backend = backend::open(&url).await.unwrap();
    backend
        .insert(insert([rawdoc! { "_id": 1 }]))
        .await
        .unwrap();
    server.kill().unwrap();
    let error = backend
        .insert(insert([rawdoc! { "_id": 2 }]))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection);
    assert_eq!(error.inserted(), None);
    server.restart().await.unwrap();
    let backend = backend::open(&url).await.unwrap();
    assert_eq!(backend.count(count()).await.unwrap(), 1);
}

#[tokio::test]
async fn a_replica_set_survives_a_restart() {
    let mut server = Server::start(Kind::ReplicaSet).await.unwrap();
    let backend = backend::open(&server.url("shop")).await.unwrap();
    let tx = backend.begin().await.unwrap();
    tx.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    tx.commit().await.unwrap();
    let open = backend.begin().await.unwrap();
    open.insert(insert([rawdoc! { "_id": 2 }])).await.unwrap();
    server.kill().unwrap();
    server.restart().await.unwrap();
    // The restart discarded the transaction, so the error permits a retry of the whole transaction.
    assert!(open.commit().await.unwrap_err().is_conflict());
    assert_eq!(backend.count(count()).await.unwrap(), 1);
    backend
        .insert(insert([rawdoc! { "_id": 2 }]))
        .await
        .unwrap();
}

#[tokio::test]
async fn the_shared_servers_are_shared() {
    let (a, b) = (mongod::replica_set().await, mongod::replica_set().await);
    assert!(std::ptr::eq(a, b));
    assert_eq!(a.kind(), Kind::ReplicaSet);
    assert_ne!(a.fresh_url(), b.fresh_url());
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "services")]
struct Service {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    host: Ref<Host>,
    #[denormalize(from = host.name)]
    at: String,
    #[index]
    email: String,
}

#[derive(Schema)]
#[schema(models(Host, Service))]
struct Net;

async fn net(fixture: &Fixture) -> odm::Database<Net> {
    let db = odm::Database::<Net>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let name = "a".to_owned();
    db.insert(Host { id: 1, name }).await.unwrap();
    for id in 1..=3 {
        let host = Ref::new(1);
        let email = format!("{id}@host");
        db.insert(NewService { id, host, email }).await.unwrap();
    }
    db
}

/// A validation rule of the server rejects the new copy of a single dependent.
#[tokio::test]
async fn a_validation_rule_rejects_a_single_copy() {
    for fixture in [
        Fixture::mongodb_standalone().await,
        Fixture::mongodb_replica_set().await,
    ] {
        let db = net(&fixture).await;
        let driver = driver(&fixture).await;
        let rule = doc! { "$or": [{ "_id": { "$ne": 2_i64 } }, { "at": "a" }] };
        let command = doc! { "collMod": "services", "validator": rule };
        driver.run_command(command).await.unwrap();
        let renamed = db.update::<Host>(1).set(|h| h.name(), "b");
        renamed.await.unwrap();
        let at = db.find::<Service>().sort(|s| s.id().asc()).all().await;
        let at: Vec<_> = at.unwrap().into_iter().map(|service| service.at).collect();
        assert_eq!(at, ["b", "a", "b"]);
        let error = db.wait_for_pending().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StillPending);
        let pending = db.pending().await.unwrap();
        let [rejection] = pending.models[0].rejections.as_slice() else {
            panic!("{pending}");
        };
        assert_eq!(
            (&*rejection.collection, &rejection.id),
            ("services", &Bson::Int64(2))
        );
        assert!(rejection.reason.contains("validation"), "{rejection}");

        // In the caller's transaction, the error names the rejecting document.
        let together = db.transaction(|tx| async move {
            let renamed = tx.update::<Host>(1).set(|h| h.name(), "c");
            renamed.await.map(drop)
        });
        match (
            fixture.backend().capabilities().transactions,
            together.await,
        ) {
            (true, Err(error)) => {
                assert_eq!(
                    (error.collection(), error.id()),
                    (Some("services"), Some(&Bson::Int64(2))),
                    "{error}"
                );
            }
            (false, Err(error)) => assert!(error.is_unsupported(), "{error}"),
            (_, Ok(())) => panic!("it is refused"),
        }

        let command = doc! { "collMod": "services", "validator": {} };
        driver.run_command(command).await.unwrap();
        assert_eq!(db.run_pending().await.unwrap(), 1);
        let report = db.check().await.unwrap();
        assert!(report.is_clean(), "{report}");
        fixture.cleanup().await;
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "boards")]
struct Board {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Like::board)]
    likes: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "likes")]
struct Like {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    board: Ref<Board>,
}

#[derive(Schema)]
#[schema(models(Board, Like))]
struct Boards;

/// A parent that rejects the new count stops the deletion of that child alone.
#[tokio::test]
async fn a_validation_rule_rejects_a_single_rollup() {
    for fixture in [
        Fixture::mongodb_standalone().await,
        Fixture::mongodb_replica_set().await,
    ] {
        let db = odm::Database::<Boards>::with_backend(fixture.backend());
        db.sync_indexes().await.unwrap();
        for id in 1..=2 {
            db.insert(NewBoard { id }).await.unwrap();
            let board = Ref::new(id);
            db.insert(Like { id, board }).await.unwrap();
        }
        db.wait_for_pending().await.unwrap();
        let driver = driver(&fixture).await;
        let rule = doc! { "$or": [{ "_id": { "$ne": 1_i64 } }, { "likes": { "$gte": 1 } }] };
        let command = doc! { "collMod": "boards", "validator": rule };
        driver.run_command(command).await.unwrap();
        let error = db.delete::<Like>(1).await.unwrap_err();
        db.delete::<Like>(2).await.unwrap();
        assert_eq!(db.get::<Board>(2).await.unwrap().likes, 0);
        if fixture.backend().capabilities().transactions {
            let named = (error.collection(), error.id());
            assert_eq!(named, (Some("boards"), Some(&Bson::Int64(1))), "{error}");
            assert_eq!(db.find::<Like>().count().await.unwrap(), 1);
        } else {
            assert!(error.to_string().contains("boards 1"), "{error}");
            let error = db.wait_for_pending().await.unwrap_err();
            assert!(error.to_string().contains("boards 1"), "{error}");
            let pending = db.pending().await.unwrap();
            assert_eq!(
                pending.models[0].rejections[0].id,
                Bson::Int64(1),
                "{pending}"
            );
        }
        let command = doc! { "collMod": "boards", "validator": {} };
        driver.run_command(command).await.unwrap();
        db.run_pending().await.unwrap();
        db.delete::<Like>(1).await.unwrap();
        let report = db.check().await.unwrap();
        assert!(report.is_clean(), "{report}");
        assert_eq!(db.get::<Board>(1).await.unwrap().likes, 0);
        fixture.cleanup().await;
    }
}

/// An index with a collation under the name of a declared index is reported, and replaced on request.
#[tokio::test]
async fn an_index_with_a_collation_is_replaced() {
    for fixture in [
        Fixture::mongodb_standalone().await,
        Fixture::mongodb_replica_set().await,
    ] {
        let driver = driver(&fixture).await;
        let collation = doc! { "locale": "de", "strength": 1 };
        let indexes = [
            doc! { "key": { "email": 1 }, "name": "email_1", "collation": collation },
            doc! { "key": { "email": "text" }, "name": "words" },
        ];
        let create = doc! { "createIndexes": "services", "indexes": indexes.to_vec() };
        driver.run_command(create).await.unwrap();
        let db = odm::Database::<Net>::with_backend(fixture.backend());
        let report = db.sync_indexes().await.unwrap();
        let [(_, declared, found)] = report.differing.as_slice() else {
            panic!("{report}");
        };
        assert!(
            declared.unsupported_definition.is_none() && found.unsupported_definition.is_some(),
            "{report}"
        );
        assert!(report.to_string().contains("\"de\""), "{report}");
        let report = db
            .sync_indexes()
            .replace_differing()
            .drop_undeclared()
            .await
            .unwrap();
        let dropped: Vec<_> = report
            .dropped
            .iter()
            .map(|(_, index)| &*index.name)
            .collect();
        assert_eq!(dropped, ["email_1"], "{report}");
        // `drop_undeclared` keeps indexes that no model can declare.
        let undeclared: Vec<_> = report
            .undeclared
            .iter()
            .map(|(_, index)| &*index.name)
            .collect();
        assert_eq!(undeclared, ["words"], "{report}");
        let second = db.sync_indexes().await.unwrap();
        assert!(
            second.differing.is_empty() && second.created.is_empty(),
            "{second}"
        );
        fixture.cleanup().await;
    }
}

/// Declared indexes use the simple collation, even if the collection has a different default collation.
#[tokio::test]
async fn declared_indexes_ignore_the_collection_collation() {
    let fixture = Fixture::mongodb_replica_set().await;
    let driver = driver(&fixture).await;
    let collation = doc! { "locale": "de", "strength": 1 };
    let create = doc! { "create": "services", "collation": collation };
    driver.run_command(create).await.unwrap();
    let db = odm::Database::<Net>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let indexes = fixture.backend().list_indexes("services").await.unwrap();
    assert!(
        indexes
            .iter()
            .all(|index| index.unsupported_definition.is_none()),
        "{indexes:?}"
    );
    assert_eq!(db.sync_indexes().await.unwrap(), Default::default());
    fixture.cleanup().await;
}

/// Returns a filter that takes minutes: the server sleeps at each document.
fn slow_filter() -> bson::RawDocumentBuf {
    let sleep =
        rawdoc! { "body": "function() { sleep(50); return true; }", "args": [], "lang": "js" };
    rawdoc! { "$expr": { "$function": sleep } }
}

/// Returns the operations in progress on a database.
async fn running_operations(admin: &Database, database: &str) -> Vec<bson::Document> {
    let current = doc! { "currentOp": 1, "ns": { "$regex": format!("^{database}[.]") } };
    let current = admin
        .run_command(current)
        .await
        .expect("the current operations");
    let current = current.get_array("inprog").expect("the current operations");
    current
        .iter()
        .filter_map(|operation| operation.as_document().cloned())
        .collect()
}

/// Starts a read, drops the future once the server works on the read, and waits until the server stops.
async fn assert_drop_ends_read<F: Future>(admin: &Database, database: &str, name: &str, read: F) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let begun = async {
        while running_operations(admin, database).await.is_empty() {
            assert!(Instant::now() < deadline, "{name} does not begin");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = read => panic!("{name} came to its end"),
        () = begun => {}
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let running = running_operations(admin, database).await;
        if running.is_empty() {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{name} is still running: {running:?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Dropping the future of a read ends the read on the server, even if reads occupy every connection of the client.
#[tokio::test]
async fn a_dropped_read_ends_on_the_server() {
    for kind in [Kind::Standalone, Kind::ReplicaSet] {
        let server = Server::start(kind).await.unwrap();
        let admin = Client::with_uri_str(server.url("admin")).await.unwrap();
        let admin = admin.database("admin");
        let url = server.url("shop");
        let join = if url.contains('?') { '&' } else { '?' };
        let backend = backend::open(&format!("{url}{join}maxPoolSize=1"))
            .await
            .unwrap();
        let backend = &backend;
        let documents = (0..4_000).map(|id| rawdoc! { "_id": id, "n": id % 2 });
        backend.insert(insert(documents)).await.unwrap();
        let find = || FindOperation {
            collection: "things".into(),
            filter: slow_filter(),
            projection: None,
            sort: None,
            limit: None,
            options: Default::default(),
        };
        let sorted = || FindOperation {
            sort: Some(rawdoc! { "n": 1 }),
            ..find()
        };
        let aggregate = AggregateOperation {
            collection: "things".into(),
            pipeline: vec![rawdoc! { "$match": slow_filter() }],
            variables: rawdoc! {},
            options: Default::default(),
        };
        let distinct = DistinctOperation {
            collection: "things".into(),
            path: "n".to_owned(),
            filter: slow_filter(),
            options: Default::default(),
        };
        let each = FindEach {
            collection: "things".into(),
            path: "n".to_owned(),
            keys: vec![0.into(), 1.into()],
            filter: slow_filter(),
            projection: None,
            sort: None,
            limit: None,
            options: Default::default(),
        };
        let several = FindSeveral {
            finds: vec![find(), find()],
        };
        let count_all = CountOperation {
            filter: slow_filter(),
            ..count()
        };
        let reads: Vec<(&str, BoxFuture<'_, ()>)> = vec![
            (
                "find",
                Box::pin(async { drop(backend.find(sorted()).await) }),
            ),
            (
                "find_all",
                Box::pin(async { drop(backend.find_all(find()).await) }),
            ),
            (
                "aggregate",
                Box::pin(async { drop(backend.aggregate_all(aggregate).await) }),
            ),
            (
                "count",
                Box::pin(async { drop(backend.count(count_all).await) }),
            ),
            (
                "distinct",
                Box::pin(async { drop(backend.distinct(distinct).await) }),
            ),
            (
                "find_each",
                Box::pin(async { drop(backend.find_each(each).await) }),
            ),
            (
                "find_several",
                Box::pin(async { drop(backend.find_several(several).await) }),
            ),
            (
                "explain",
                Box::pin(async { drop(backend.explain(find()).await) }),
            ),
        ];
        for (name, read) in reads {
            assert_drop_ends_read(&admin, "shop", name, read).await;
        }

        // The second batch of a cursor is dropped as well.
        let slow_later = rawdoc! { "$expr": { "$cond": [
            { "$lt": ["$_id", 500] },
            true,
            { "$function": { "body": "function() { sleep(50); return true; }", "args": [], "lang": "js" } },
        ] } };
        let mut cursor = backend
            .find(FindOperation {
                filter: slow_later,
                ..find()
            })
            .await
            .unwrap();
        assert_eq!(cursor.next_batch().await.unwrap().len(), 101);
        let next = async move { cursor.next_batch().await };
        assert_drop_ends_read(&admin, "shop", "getMore", next).await;

        // The time limit ends a slow read with a timeout error.
        let limited = FindOperation {
            options: ReadOptions::default().with_max_time(Some(Duration::from_millis(300))),
            ..find()
        };
        let error = backend.find_all(limited).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        assert!(running_operations(&admin, "shop").await.is_empty());

        // The end of a transaction ends the reads in the transaction.
        if kind == Kind::ReplicaSet {
            let tx = backend.begin().await.unwrap();
            let read = async move { tx.find_all(find()).await };
            assert_drop_ends_read(&admin, "shop", "a transaction's read", read).await;
            let tx = backend.begin().await.unwrap();
            tx.update(update_all()).await.unwrap();
            let read = async { tx.find_all(find()).await };
            let _late = tokio::time::timeout(Duration::from_millis(300), read).await;
            let begun = Instant::now();
            tx.abort().await;
            assert!(begun.elapsed() < Duration::from_secs(10));
            let plain = tokio::time::timeout(Duration::from_secs(10), backend.update(update_all()));
            plain.await.expect("nothing is locked").unwrap();
        }
        // Sessions of ended reads return to the pool in working order.
        for _ in 0..20 {
            assert_eq!(backend.count(count()).await.unwrap(), 4_000);
        }
    }
}

fn update_all() -> UpdateOperation {
    UpdateOperation {
        collection: "things".into(),
        filter: rawdoc! { "_id": { "$lt": 3 } },
        change: DocumentChange::operators(rawdoc! { "$inc": { "m": 1 } }),
        multi: true,
        upsert: false,
        origin: Default::default(),
    }
}

/// Cancellation support costs no commands: a read sends the same commands as before, and no session commands.
#[tokio::test]
async fn completed_reads_send_no_extra_commands() {
    for kind in [Kind::Standalone, Kind::ReplicaSet] {
        let server = Server::start(kind).await.unwrap();
        let admin = Client::with_uri_str(server.url("admin")).await.unwrap();
        let admin = admin.database("admin");
        let backend = backend::open(&server.url("shop")).await.unwrap();
        let documents = (0..300).map(|id| rawdoc! { "_id": id });
        backend.insert(insert(documents)).await.unwrap();
        let commands = async || {
            let status = admin.run_command(doc! { "serverStatus": 1 }).await.unwrap();
            let commands = status
                .get_document("metrics")
                .unwrap()
                .get_document("commands")
                .unwrap();
            let total = |name: &str| {
                commands
                    .get_document(name)
                    .map_or(0, |of| of.get_i64("total").unwrap())
            };
            let others = [
                "killSessions",
                "killCursors",
                "killOp",
                "startSession",
                "endSessions",
                "refreshSessions",
            ];
            (
                total("find"),
                total("getMore"),
                total("aggregate"),
                others.map(total),
            )
        };
        let find = || FindOperation {
            collection: "things".into(),
            filter: rawdoc! {},
            projection: None,
            sort: None,
            limit: None,
            options: ReadOptions::default().with_max_time(Some(Duration::from_secs(60))),
        };
        let before = commands().await;
        for _ in 0..50 {
            assert_eq!(backend.find_all(find()).await.unwrap().len(), 300);
            let found = read_to_end(backend.find(find()).await.unwrap()).await;
            assert_eq!(found.unwrap().len(), 300);
            assert_eq!(backend.count(count()).await.unwrap(), 300);
        }
        let after = commands().await;
        // A replica set reads its own oplog during the test, so its counters include more reads.
        if kind == Kind::Standalone {
            assert_eq!((after.0 - before.0, after.1 - before.1), (100, 50));
        }
        assert!(
            after.2 - before.2 >= 50 && after.3 == before.3,
            "{before:?} {after:?}"
        );
    }
}

/// A transaction that the server ended at its lifetime limit is not retried: a retry would take as long.
#[tokio::test]
async fn an_expired_transaction_is_not_retried() {
    let server = Server::start(Kind::ReplicaSet).await.unwrap();
    let client = Client::with_uri_str(server.url("admin")).await.unwrap();
    let shorter = doc! { "setParameter": 1, "transactionLifetimeLimitSeconds": 1 };
    client.database("admin").run_command(shorter).await.unwrap();
    let db = odm_tests::models::Db::open(server.url("shop"))
        .await
        .unwrap();
    db.insert(Post::new(1, "alex", &[])).await.unwrap();
    for ends_with_a_write in [true, false] {
        let attempts = AtomicU32::new(0);
        let long = db.transaction(|tx| {
            attempts.fetch_add(1, Ordering::Relaxed);
            async move {
                tx.update::<Post>(1).inc(|p| p.votes(), 1).await?;
                tokio::time::sleep(Duration::from_secs(4)).await;
                if ends_with_a_write {
                    tx.update::<Post>(1).inc(|p| p.votes(), 1).await?;
                }
                Ok::<_, odm::Error>(())
            }
        });
        let error = long.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TransactionExpired, "{error}");
        assert!(
            error
                .to_string()
                .contains("transactionLifetimeLimitSeconds"),
            "{error}"
        );
        assert_eq!(attempts.load(Ordering::Relaxed), 1);
    }
    assert_eq!(db.get::<Post>(1).await.unwrap().votes, 0);
}

/// Transactions of separate processes have no common queue. Pauses between the attempts let all transactions succeed.
#[tokio::test]
async fn transactions_of_several_processes_on_one_document_succeed() {
    let fixture = Fixture::mongodb_replica_set().await;
    let db = odm_tests::models::Db::with_backend(fixture.backend());
    db.insert(Post::new(1, "alex", &[])).await.unwrap();
    let mut running = Vec::new();
    for _ in 0..6 {
        // Each database opened by URL has writer queues of its own, like a separate process.
        let db = odm_tests::models::Db::open(fixture.url()).await.unwrap();
        for _ in 0..10 {
            let db = db.clone();
            running.push(tokio::spawn(async move {
                let vote = db.transaction(async |tx| -> odm::Result<_> {
                    let votes = tx.get::<Post>(1).await?.votes;
                    tx.update::<Post>(1).set(|p| p.votes(), votes + 1).await?;
                    Ok(())
                });
                vote.timeout(Duration::from_secs(120)).await
            }));
        }
    }
    for task in running {
        task.await.unwrap().unwrap();
    }
    assert_eq!(db.get::<Post>(1).await.unwrap().votes, 60);
    fixture.cleanup().await;
}
