//! An ordinary session of the official driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::{Document, Timestamp, doc, rawdoc};
use futures_util::TryStreamExt;
use mongodb::error::ErrorKind;
use mongodb::options::{CollectionOptions, IndexOptions, WriteConcern};
use mongodb::{Client, ClientSession, Collection, IndexModel};
use odm_engine::{Database, Durability};
use odm_wire::Server;

use super::TestServer;

/// Returns a collection with the documents `{ _id: n, n: n % 10 }`.
async fn numbers(client: &Client, count: i32) -> Collection<Document> {
    let collection = client.database("test").collection("numbers");
    let documents = (0..count).map(|n| doc! { "_id": n, "n": n % 10 });
    collection.insert_many(documents).await.unwrap();
    collection
}

#[tokio::test]
async fn documents_are_written_and_found() {
    let server = TestServer::writable().await;
    let numbers = numbers(&server.client().await, 100).await;
    assert_eq!(numbers.count_documents(doc! { "n": 3 }).await.unwrap(), 10);
    let found = numbers
        .find(doc! { "n": 3 })
        .sort(doc! { "_id": -1 })
        .skip(1)
        .limit(2);
    let found: Vec<_> = found.await.unwrap().try_collect().await.unwrap();
    assert_eq!(
        found,
        [doc! { "_id": 83, "n": 3 }, doc! { "_id": 73, "n": 3 }]
    );
    let updated = numbers.update_many(doc! { "n": 3 }, doc! { "$inc": { "n": 100 } });
    assert_eq!(updated.await.unwrap().modified_count, 10);
    let upserted = numbers
        .update_one(doc! { "_id": "new" }, doc! { "$set": { "n": 1 } })
        .upsert(true);
    assert!(upserted.await.unwrap().upserted_id.is_some());
    let modified = numbers.find_one_and_update(doc! { "_id": "new" }, doc! { "$set": { "n": 2 } });
    assert_eq!(modified.await.unwrap(), Some(doc! { "_id": "new", "n": 1 }));
    let deleted = numbers.find_one_and_delete(doc! { "_id": "new" }).await;
    assert_eq!(deleted.unwrap(), Some(doc! { "_id": "new", "n": 2 }));
    assert_eq!(
        numbers
            .delete_many(doc! { "n": 103 })
            .await
            .unwrap()
            .deleted_count,
        10
    );
    let mut distinct = numbers.distinct("n", doc! {}).await.unwrap();
    distinct.retain(|value| value.as_i32() == Some(3));
    assert!(distinct.is_empty());
}

#[tokio::test]
async fn errors_have_the_codes_and_keys_of_mongodb() {
    let server = TestServer::writable().await;
    let client = server.client().await;
    let numbers = numbers(&client, 3).await;
    let error = numbers.insert_many([doc! { "_id": 7 }, doc! { "_id": 1 }, doc! { "_id": 8 }]);
    let error = error.await.unwrap_err();
    let ErrorKind::InsertMany(failure) = *error.kind else {
        panic!("{error}");
    };
    let failure = &failure.write_errors.unwrap()[0];
    assert_eq!((failure.index, failure.code), (1, 11000));
    assert!(
        failure
            .message
            .contains("test.numbers index: _id_ dup key: { _id: 1 }")
    );
    assert_eq!(numbers.count_documents(doc! {}).await.unwrap(), 4);
    let unordered = numbers
        .insert_many([doc! { "_id": 1 }, doc! { "_id": 8 }])
        .ordered(false);
    assert!(unordered.await.is_err());
    assert_eq!(numbers.count_documents(doc! {}).await.unwrap(), 5);
    let database = client.database("test");
    for (command, code) in [
        (doc! { "frobnicate": 1 }, 59),
        (doc! { "bulkWrite": 1 }, 59),
        (doc! { "ping": 1, "frob": 1 }, 40415),
        (doc! { "find": "c", "filter": { "$frob": 1 } }, 2),
        (doc! { "find": "c", "filter": [] }, 14),
        (doc! { "find": "$c" }, 73),
        (doc! { "find": "c", "collation": { "locale": "haw" } }, 115),
        (doc! { "create": "d", "collation": { "locale": "de" } }, 115),
        (
            doc! { "aggregate": "c", "pipeline": [{ "$frob": 1 }], "cursor": {} },
            40324,
        ),
        (doc! { "listIndexes": "missing" }, 26),
        (doc! { "drop": "missing" }, 26),
        (doc! { "create": "c", "capped": true, "size": 100 }, 115),
        (doc! { "getMore": 12_i64, "collection": "c" }, 43),
        (doc! { "insert": "c", "documents": [] }, 16),
    ] {
        let error = database.run_command(command.clone()).await.unwrap_err();
        let ErrorKind::Command(failure) = &*error.kind else {
            panic!("{command}: {error}");
        };
        assert_eq!(failure.code, code, "{command}: {error}");
    }
}

#[tokio::test]
async fn a_cursor_reads_all_documents_in_batches_of_one_snapshot() {
    let server = TestServer::writable().await;
    let numbers = numbers(&server.client().await, 1_000).await;
    let mut cursor = numbers.find(doc! {}).batch_size(7).await.unwrap();
    assert!(cursor.advance().await.unwrap());
    numbers.delete_many(doc! {}).await.unwrap();
    let mut count = 1;
    while cursor.advance().await.unwrap() {
        count += 1;
    }
    assert_eq!(count, 1_000);
    // A cursor that is dropped is closed by `killCursors`.
    let status = || async {
        let client = server.client().await;
        let admin = client.database("admin");
        let status = admin.run_command(doc! { "serverStatus": 1 }).await.unwrap();
        let cursor = status
            .get_document("metrics")
            .unwrap()
            .get_document("cursor")
            .unwrap();
        cursor
            .get_document("open")
            .unwrap()
            .get_i32("total")
            .unwrap()
    };
    numbers
        .insert_many((0..10).map(|n| doc! { "_id": n }))
        .await
        .unwrap();
    let mut cursor = numbers.find(doc! {}).batch_size(2).await.unwrap();
    assert!(cursor.advance().await.unwrap());
    assert_eq!(status().await, 1);
    drop(cursor);
    for _ in 0..500 {
        if status().await == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the cursor stays open");
}

#[tokio::test]
async fn large_documents_come_in_batches_below_the_limit_of_a_message() {
    let server = TestServer::writable().await;
    let client = server.client().await;
    let large = client.database("test").collection::<Document>("large");
    let text = "x".repeat(9 << 20);
    for id in 0..5 {
        large
            .insert_one(doc! { "_id": id, "text": &text })
            .await
            .unwrap();
    }
    let found: Vec<_> = large
        .find(doc! {})
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(found.len(), 5);
    assert!(
        found
            .iter()
            .all(|document| document.get_str("text").unwrap() == text)
    );
}

#[tokio::test]
async fn indexes_are_created_used_and_dropped() {
    let server = TestServer::writable().await;
    let client = server.client().await;
    let numbers = numbers(&client, 100).await;
    let unique = IndexOptions::builder().unique(true).sparse(true).build();
    let index = IndexModel::builder()
        .keys(doc! { "email": 1 })
        .options(unique);
    numbers.create_index(index.build()).await.unwrap();
    numbers
        .create_index(IndexModel::builder().keys(doc! { "n": -1 }).build())
        .await
        .unwrap();
    let names = numbers.list_index_names().await.unwrap();
    assert_eq!(names, ["_id_", "email_1", "n_-1"]);
    numbers.insert_one(doc! { "email": "a" }).await.unwrap();
    assert!(numbers.insert_one(doc! { "email": "a" }).await.is_err());
    let explain = doc! { "explain": { "find": "numbers", "filter": { "n": 3 } }, "verbosity": "executionStats" };
    let explain = client.database("test").run_command(explain).await.unwrap();
    let statistics = explain.get_document("executionStats").unwrap();
    assert_eq!(statistics.get_i32("nReturned").unwrap(), 10);
    assert_eq!(statistics.get_i32("totalDocsExamined").unwrap(), 10);
    let stages = statistics.get_document("executionStages").unwrap();
    let scan = stages.get_document("inputStage").unwrap();
    assert_eq!(scan.get_str("indexName").unwrap(), "n_-1");
    numbers.drop_index("n_-1").await.unwrap();
    assert!(numbers.drop_index("n_-1").await.is_err());
    numbers.drop_indexes().await.unwrap();
    assert_eq!(numbers.list_index_names().await.unwrap(), ["_id_"]);
}

#[tokio::test]
async fn pipelines_run_also_on_other_collections() {
    let server = TestServer::writable().await;
    let client = server.client().await;
    let numbers = numbers(&client, 100).await;
    let database = client.database("test");
    database
        .collection("names")
        .insert_one(doc! { "_id": 3, "name": "three" })
        .await
        .unwrap();
    let pipeline = [
        doc! { "$match": { "_id": { "$lt": 5 } } },
        doc! { "$lookup": { "from": "names", "localField": "n", "foreignField": "_id", "as": "names" } },
        doc! { "$unwind": "$names" },
        doc! { "$project": { "_id": 0, "name": "$names.name" } },
        doc! { "$unionWith": { "coll": "names", "pipeline": [{ "$project": { "_id": 0, "name": 1 } }] } },
    ];
    let found: Vec<_> = numbers
        .aggregate(pipeline)
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(found, [doc! { "name": "three" }, doc! { "name": "three" }]);
}

#[tokio::test]
async fn transactions_are_atomic_and_isolated() {
    let server = TestServer::writable().await;
    let client = server.client().await;
    let numbers = numbers(&client, 3).await;
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    numbers
        .delete_one(doc! { "_id": 0 })
        .session(&mut session)
        .await
        .unwrap();
    let inside = numbers.count_documents(doc! {}).session(&mut session).await;
    assert_eq!(inside.unwrap(), 2);
    assert_eq!(numbers.count_documents(doc! {}).await.unwrap(), 3);
    session.abort_transaction().await.unwrap();
    assert_eq!(numbers.count_documents(doc! {}).await.unwrap(), 3);
    session.start_transaction().await.unwrap();
    numbers
        .delete_one(doc! { "_id": 0 })
        .session(&mut session)
        .await
        .unwrap();
    session.commit_transaction().await.unwrap();
    session.commit_transaction().await.unwrap();
    assert_eq!(numbers.count_documents(doc! {}).await.unwrap(), 2);

    // Two transactions change one document: the second gets the label of a conflict.
    let mut other = client.start_session().await.unwrap();
    for session in [&mut session, &mut other] {
        session.start_transaction().await.unwrap();
        numbers
            .find_one(doc! { "_id": 1 })
            .session(session)
            .await
            .unwrap();
    }
    let change = || numbers.update_one(doc! { "_id": 1 }, doc! { "$inc": { "n": 1 } });
    change().session(&mut session).await.unwrap();
    let error = change().session(&mut other).await.unwrap_err();
    assert!(error.contains_label("TransientTransactionError"), "{error}");
    session.commit_transaction().await.unwrap();
    let error = other.commit_transaction().await.unwrap_err();
    assert!(error.contains_label("TransientTransactionError"), "{error}");
}

#[tokio::test]
async fn the_reads_of_a_snapshot_session_see_one_state() {
    let server = TestServer::writable().await;
    let client = server.client().await;
    let numbers = numbers(&client, 3).await;
    let mut snapshot = client.start_session().snapshot(true).await.unwrap();
    // The first read chooses the state. Later batches of its cursor are from the same state.
    let mut cursor = numbers
        .find(doc! {})
        .batch_size(2)
        .session(&mut snapshot)
        .await
        .unwrap();
    numbers.delete_many(doc! {}).await.unwrap();
    let mut found = 0;
    while cursor
        .next(&mut snapshot)
        .await
        .transpose()
        .unwrap()
        .is_some()
    {
        found += 1;
    }
    assert_eq!(found, 3);
    let counted = numbers
        .count_documents(doc! {})
        .session(&mut snapshot)
        .await;
    assert_eq!(counted.unwrap(), 3);
    let distinct = numbers
        .distinct("_id", doc! {})
        .session(&mut snapshot)
        .await;
    assert_eq!(distinct.unwrap().len(), 3);
    assert_eq!(numbers.count_documents(doc! {}).await.unwrap(), 0);
    let mut later = client.start_session().snapshot(true).await.unwrap();
    let counted = numbers.count_documents(doc! {}).session(&mut later).await;
    assert_eq!(counted.unwrap(), 0);

    // The driver numbers this write for a repetition.
    let written = numbers.insert_one(doc! {}).session(&mut later).await;
    assert!(written.is_err(), "a write has no snapshot");
    assert_eq!(numbers.count_documents(doc! {}).await.unwrap(), 0);

    let snapshot = doc! { "level": "snapshot" };
    let database = client.database("test");
    for (command, code) in [
        (doc! { "count": "c", "readConcern": snapshot.clone() }, 72),
        (
            doc! { "find": "c", "readConcern": { "level": "snapshot", "atClusterTime": Timestamp { time: 7, increment: 1 } } },
            239,
        ),
        (
            doc! { "find": "c", "readConcern": { "level": "snapshot", "atClusterTime": 7 } },
            14,
        ),
        (
            doc! { "aggregate": "c", "pipeline": [{ "$out": "d" }], "cursor": {}, "readConcern": snapshot },
            115,
        ),
    ] {
        let error = database.run_command(command.clone()).await.unwrap_err();
        let ErrorKind::Command(failure) = &*error.kind else {
            panic!("{command}: {error}");
        };
        assert_eq!(failure.code, code, "{command}: {error}");
    }
}

#[tokio::test]
async fn journaled_writes_and_commits_succeed_with_each_durability() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Database::open(folder.path().join("shop.odm")).unwrap();
    let journaled = WriteConcern::builder().journal(true).build();
    for (before, durability) in [(0, Durability::Full), (2, Durability::Relaxed)] {
        let engine = engine.with_durability(durability);
        let server = TestServer::start(Server::builder(engine).allow_writes()).await;
        let database = server.client().await.database("test");
        let options = CollectionOptions::builder().write_concern(journaled.clone());
        let numbers = database.collection_with_options::<Document>("numbers", options.build());
        numbers.insert_one(doc! {}).await.unwrap();
        let mut session = database.client().start_session().await.unwrap();
        let transaction = session.start_transaction();
        transaction.write_concern(journaled.clone()).await.unwrap();
        let in_transaction = database.collection("numbers");
        let inserted = in_transaction.insert_one(doc! {});
        inserted.session(&mut session).await.unwrap();
        session.commit_transaction().await.unwrap();
        let count = numbers.count_documents(doc! {}).await.unwrap();
        assert_eq!(count, before + 2);
    }
}

/// Reads a number in a transaction, and writes the next number.
async fn increment(
    numbers: &Collection<Document>,
    session: &mut ClientSession,
) -> mongodb::error::Result<()> {
    session.start_transaction().await?;
    let found = numbers.find_one(doc! { "_id": 0 }).session(&mut *session);
    let n = found
        .await?
        .expect("a document")
        .get_i32("n")
        .expect("a number");
    let next = doc! { "$set": { "n": n + 1 } };
    let updated = numbers
        .update_one(doc! { "_id": 0 }, next)
        .session(&mut *session);
    updated.await?;
    session.commit_transaction().await
}

#[tokio::test]
async fn concurrent_transactions_with_retries_lose_no_update() {
    let server = TestServer::writable().await;
    let client = server.client().await;
    let numbers = numbers(&client, 1).await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (client, numbers) = (client.clone(), numbers.clone());
            tokio::spawn(async move {
                let mut session = client.start_session().await.unwrap();
                for _ in 0..5 {
                    while let Err(error) = increment(&numbers, &mut session).await {
                        assert!(error.contains_label("TransientTransactionError"), "{error}");
                        // The server has aborted the transaction already, or aborts it now.
                        let _ = session.abort_transaction().await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let found = numbers.find_one(doc! { "_id": 0 }).await.unwrap().unwrap();
    assert_eq!(found.get_i32("n").unwrap(), 40);
}

#[tokio::test]
async fn a_change_stream_returns_events_and_resumes() {
    let server = TestServer::writable().await;
    let client = server.client().await;
    let numbers = numbers(&client, 1).await;
    let only_seven = [doc! { "$match": { "documentKey._id": { "$gte": 7 } } }];
    let mut changes = numbers.watch().pipeline(only_seven.clone()).await.unwrap();
    for id in [6, 7, 8] {
        numbers.insert_one(doc! { "_id": id }).await.unwrap();
    }
    let event = changes.next_if_any().await.unwrap();
    let event = match event {
        Some(event) => event,
        None => changes.try_next().await.unwrap().unwrap(),
    };
    assert_eq!(event.document_key, Some(doc! { "_id": 7 }));
    let namespace = event.ns.unwrap();
    assert_eq!(
        (namespace.db.as_str(), namespace.coll.as_deref()),
        ("test", Some("numbers"))
    );
    let resumed = numbers.watch().pipeline(only_seven).resume_after(event.id);
    let mut resumed = resumed.await.unwrap();
    let event = resumed.try_next().await.unwrap().unwrap();
    assert_eq!(event.full_document, Some(doc! { "_id": 8 }));

    // Drivers do not resume a stream after this error.
    let without_tokens = [doc! { "$project": { "_id": 0 } }];
    let mut changes = numbers.watch().pipeline(without_tokens).await.unwrap();
    numbers.insert_one(doc! { "_id": 9 }).await.unwrap();
    let error = changes.try_next().await.unwrap_err();
    assert!(
        error.contains_label("NonResumableChangeStreamError"),
        "{error}"
    );

    // A stream waits for an event without a busy loop, and wakes up at once.
    let mut changes = client.database("test").watch().await.unwrap();
    let waiting = tokio::spawn(async move { changes.try_next().await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    numbers.delete_one(doc! { "_id": 6 }).await.unwrap();
    let event = tokio::time::timeout(Duration::from_millis(900), waiting).await;
    let event = event.expect("no wake-up").unwrap().unwrap().unwrap();
    assert_eq!(event.document_key, Some(doc! { "_id": 6 }));
}

/// Each event wakes the stream up, and the pipeline drops the event.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_stream_answers_at_its_deadline_also_between_busy_writers() {
    let engine = Database::memory();
    let server = TestServer::start(Server::builder(engine.clone()).allow_writes()).await;
    let database = server.client().await.database("odm");
    let nothing = doc! { "$match": { "operationType": "none" } };
    let pipeline = vec![doc! { "$changeStream": {} }, nothing];
    let open = doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} };
    let opened = database.run_command(open).await.unwrap();
    let id = opened
        .get_document("cursor")
        .unwrap()
        .get_i64("id")
        .unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            while !is_over.load(Ordering::Relaxed) {
                // The writer is faster than the stream.
                let inserted = engine.insert("c", vec![rawdoc! {}; 100]).unwrap();
                inserted.into_result().unwrap();
            }
        }
    });
    let read = doc! { "getMore": id, "collection": "c", "maxTimeMS": 200 };
    let read = tokio::time::timeout(Duration::from_secs(20), database.run_command(read)).await;
    is_over.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    let reply = read.expect("no answer at the deadline").unwrap();
    let cursor = reply.get_document("cursor").unwrap();
    assert!(cursor.get_array("nextBatch").unwrap().is_empty());
}

#[tokio::test]
async fn a_time_limit_ends_a_slow_query() {
    let server = TestServer::writable().await;
    let client = server.client().await;
    numbers(&client, 2_000).await;
    let pipeline = [
        doc! { "$lookup": { "from": "numbers", "pipeline": [{ "$sort": { "n": 1 } }], "as": "all" } },
        doc! { "$group": { "_id": null, "n": { "$sum": { "$size": "$all" } } } },
    ];
    let slow = doc! { "aggregate": "numbers", "pipeline": pipeline.to_vec(), "cursor": {}, "maxTimeMS": 50 };
    let started = std::time::Instant::now();
    let error = client.database("test").run_command(slow).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(10));
    let ErrorKind::Command(failure) = *error.kind else {
        panic!("{error}");
    };
    assert_eq!(
        (failure.code, failure.code_name.as_str()),
        (50, "MaxTimeMSExpired")
    );

    // A write is interrupted as a whole, and not as a failure of one of its statements.
    let long_list = doc! { "$size": { "$range": [0, { "$add": ["$n", 300_000] }] } };
    let filter = doc! { "$expr": { "$gt": [long_list, 5] } };
    let statement = doc! { "q": filter, "u": { "$set": { "x": 1 } }, "multi": true };
    let slow = doc! { "update": "numbers", "updates": [statement], "maxTimeMS": 50 };
    let error = client.database("test").run_command(slow).await.unwrap_err();
    let ErrorKind::Command(failure) = *error.kind else {
        panic!("{error}");
    };
    assert_eq!(failure.code, 50);
    let numbers = client.database("test").collection::<Document>("numbers");
    assert_eq!(numbers.count_documents(doc! { "x": 1 }).await.unwrap(), 0);
}
