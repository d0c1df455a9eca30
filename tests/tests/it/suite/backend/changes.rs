use std::time::Duration;

use bson::{Bson, Document, RawDocumentBuf, Timestamp, doc, rawdoc};
use futures_util::{FutureExt, future::join_all};
use odm::{
    Error, ErrorKind,
    backend::{
        Backend, ChangeCursor, Executor, Fault, Faults, Recorder,
        operation::{
            DocumentChange, FullDocument, Operation, UpdateOperation, WatchFrom, WatchOperation,
        },
    },
};

use super::{TEST_COLLECTION, decoded, delete, insert, update};
use crate::Fixture;

/// Opens a change stream. Returns `None` if the backend has no change streams and says so.
async fn watch(db: &dyn Backend, watch: WatchOperation) -> Option<Box<dyn ChangeCursor>> {
    match db.watch(watch).await {
        Ok(changes) => {
            assert!(db.capabilities().change_streams);
            Some(changes)
        }
        Err(error) => {
            assert!(!db.capabilities().change_streams, "{error}");
            assert!(error.is_unsupported());
            None
        }
    }
}

fn things() -> WatchOperation {
    WatchOperation::collection(TEST_COLLECTION)
}

fn watch_after(token: RawDocumentBuf) -> WatchOperation {
    WatchOperation {
        from: WatchFrom::After(token),
        ..things()
    }
}

/// Returns exactly the next `count` events.
async fn next_events(changes: &mut dyn ChangeCursor, count: usize) -> Vec<Document> {
    let mut events = Vec::new();
    while events.len() < count {
        let batch = tokio::time::timeout(Duration::from_secs(30), changes.next_batch());
        let batch = batch.await.expect("an event in time").expect("a batch");
        assert!(!batch.is_empty(), "the end after {events:?}");
        events.extend(decoded(batch));
    }
    assert_eq!(events.len(), count, "{events:?}");
    events
}

/// Removes the fields that differ between backends.
fn comparable_events(events: Vec<Document>) -> Vec<Document> {
    let events = events.into_iter().map(|mut event| {
        for field in ["_id", "clusterTime", "wallTime", "txnNumber", "lsid"] {
            event.remove(field);
        }
        if let Ok(namespace) = event.get_document_mut("ns") {
            namespace.remove("db");
        }
        event
    });
    events.collect()
}

fn token(event: &Document) -> RawDocumentBuf {
    let token = event.get_document("_id").expect("a token");
    RawDocumentBuf::try_from(token).expect("a small document")
}

fn time(event: &Document) -> Timestamp {
    event.get_timestamp("clusterTime").expect("a time")
}

fn inserted(id: i32) -> Document {
    doc! {
        "operationType": "insert",
        "ns": { "coll": TEST_COLLECTION },
        "documentKey": { "_id": id },
        "fullDocument": { "_id": id },
    }
}

fn updated(id: i32, fields: Document) -> Document {
    doc! {
        "operationType": "update",
        "ns": { "coll": TEST_COLLECTION },
        "documentKey": { "_id": id },
        "updateDescription": {
            "updatedFields": fields,
            "removedFields": [],
            "truncatedArrays": [],
        },
    }
}

fn deleted(id: i32) -> Document {
    doc! { "operationType": "delete", "ns": { "coll": TEST_COLLECTION }, "documentKey": { "_id": id } }
}

fn things_with_ids(ids: impl IntoIterator<Item = i32>) -> odm::backend::operation::InsertOperation {
    insert(ids.into_iter().map(|id| rawdoc! { "_id": id }))
}

pub async fn a_collection_or_the_whole_database(db: Fixture) {
    let db = db.backend();
    let Some(mut one) = watch(&*db, things()).await else {
        return;
    };
    let mut all = watch(&*db, WatchOperation::database()).await.unwrap();
    let mut other = things_with_ids([1]);
    other.collection = "others".into();
    db.insert(other).await.unwrap();
    db.insert(things_with_ids([2])).await.unwrap();
    let in_others = doc! {
        "operationType": "insert",
        "ns": { "coll": "others" },
        "documentKey": { "_id": 1 },
        "fullDocument": { "_id": 1 },
    };
    assert_eq!(
        comparable_events(next_events(&mut *all, 2).await),
        [in_others, inserted(2)]
    );
    assert_eq!(
        comparable_events(next_events(&mut *one, 1).await),
        [inserted(2)]
    );
}

pub async fn dropping_a_watch_does_not_affect_other_watches(db: Fixture) {
    let db = db.backend();
    let Some(mut kept) = watch(&*db, things()).await else {
        return;
    };
    for id in 0..5 {
        let mut dropped = watch(&*db, things()).await.unwrap();
        assert!(dropped.next_batch().now_or_never().is_none());
        drop(dropped);
        db.insert(things_with_ids([id])).await.unwrap();
    }
    let expected: Vec<_> = (0..5).map(inserted).collect();
    assert_eq!(
        comparable_events(next_events(&mut *kept, 5).await),
        expected
    );
}

pub async fn a_filter_chooses_events(db: Fixture) {
    let db = db.backend();
    let filtered = |filter| WatchOperation { filter, ..things() };
    let deletes = filtered(rawdoc! { "operationType": { "$in": ["delete", "replace"] } });
    let Some(mut deletes) = watch(&*db, deletes).await else {
        return;
    };
    let of_two = filtered(rawdoc! { "documentKey._id": { "$eq": 2 } });
    let mut of_two = watch(&*db, of_two).await.unwrap();
    let renamed = filtered(rawdoc! { "updateDescription.updatedFields.name": { "$exists": true } });
    let mut renamed = watch(&*db, renamed).await.unwrap();
    db.insert(things_with_ids([1, 2])).await.unwrap();
    for set in [rawdoc! { "age": 1 }, rawdoc! { "name": "b" }] {
        let set = update(rawdoc! {}, rawdoc! { "$set": set });
        let all = UpdateOperation { multi: true, ..set };
        db.update(all).await.unwrap();
    }
    db.delete(delete(rawdoc! { "_id": 1 })).await.unwrap();
    assert_eq!(
        comparable_events(next_events(&mut *deletes, 1).await),
        [deleted(1)]
    );
    let named = |id| updated(id, doc! { "name": "b" });
    let expected = [inserted(2), updated(2, doc! { "age": 1 }), named(2)];
    assert_eq!(
        comparable_events(next_events(&mut *of_two, 3).await),
        expected
    );
    assert_eq!(
        comparable_events(next_events(&mut *renamed, 2).await),
        [named(1), named(2)]
    );

    let wrong = filtered(rawdoc! { "a": { "$nonsense": 1 } });
    let error = db.watch(wrong).await.err().expect("an unknown operator");
    assert!(error.is_unsupported(), "{error}");
}

pub async fn a_lookup_returns_the_current_document(db: Fixture) {
    let db = db.backend();
    let lookup = WatchOperation {
        full_document: FullDocument::UpdateLookup,
        ..things()
    };
    db.insert(things_with_ids([1, 2])).await.unwrap();
    let Some(mut changes) = watch(&*db, lookup.clone()).await else {
        return;
    };
    let start = changes.resume_token();
    drop(changes);
    for value in [1, 2] {
        let all = update(rawdoc! {}, rawdoc! { "$set": { "a": value } });
        db.update(UpdateOperation { multi: true, ..all })
            .await
            .unwrap();
    }
    db.delete(delete(rawdoc! { "_id": 2 })).await.unwrap();
    let from = WatchFrom::After(start);
    changes = watch(&*db, WatchOperation { from, ..lookup })
        .await
        .unwrap();
    let full: Vec<_> = next_events(&mut *changes, 5)
        .await
        .into_iter()
        .map(|event| event.get("fullDocument").cloned())
        .collect();
    let now = Some(Bson::Document(doc! { "_id": 1, "a": 2 }));
    let gone = Some(Bson::Null);
    assert_eq!(full, [now.clone(), gone.clone(), now, gone, None]);
}

pub async fn a_token_resumes_after_its_event(db: Fixture) {
    let db = db.backend();
    let Some(mut changes) = watch(&*db, things()).await else {
        return;
    };
    let start = changes.resume_token();
    db.insert(things_with_ids([1, 2])).await.unwrap();
    let events = next_events(&mut *changes, 2).await;
    let end = changes.resume_token();
    db.insert(things_with_ids([3])).await.unwrap();
    for (from, missed) in [
        (start, 1..=3),
        (token(&events[0]), 2..=3),
        (token(&events[1]), 3..=3),
        (end, 3..=3),
    ] {
        let mut resumed = watch(&*db, watch_after(from)).await.unwrap();
        let missed: Vec<_> = missed.map(inserted).collect();
        assert_eq!(
            comparable_events(next_events(&mut *resumed, missed.len()).await),
            missed
        );
    }
    // A stream without a token starts at the current time.
    let mut now = watch(&*db, things()).await.unwrap();
    db.insert(things_with_ids([4])).await.unwrap();
    assert_eq!(
        comparable_events(next_events(&mut *now, 1).await),
        [inserted(4)]
    );
}

pub async fn a_watch_starts_at_a_time(db: Fixture) {
    let db = db.backend();
    let Some(mut changes) = watch(&*db, things()).await else {
        return;
    };
    for id in 0..3 {
        db.insert(things_with_ids([id])).await.unwrap();
    }
    let events = next_events(&mut *changes, 3).await;
    let at = |time| WatchOperation {
        from: WatchFrom::At(time),
        ..things()
    };
    let mut resumed = watch(&*db, at(time(&events[1]))).await.unwrap();
    assert_eq!(next_events(&mut *resumed, 2).await, events[1..]);
}

pub async fn transaction_events_arrive_at_the_commit(db: Fixture) {
    let db = db.backend();
    db.insert(things_with_ids([0])).await.unwrap();
    let Some(mut changes) = watch(&*db, things()).await else {
        return;
    };
    let (kept, aborted) = (db.begin().await.unwrap(), db.begin().await.unwrap());
    aborted.insert(things_with_ids([9])).await.unwrap();
    kept.insert(things_with_ids([1, 2])).await.unwrap();
    let set = update(rawdoc! { "_id": 1 }, rawdoc! { "$set": { "a": 1 } });
    kept.update(set).await.unwrap();
    db.insert(things_with_ids([3])).await.unwrap();
    kept.delete(delete(rawdoc! { "_id": 0 })).await.unwrap();
    aborted.abort().await;
    kept.commit().await.unwrap();
    let events = next_events(&mut *changes, 5).await;
    let times: Vec<_> = events.iter().map(time).collect();
    assert!(times[0] < times[1]);
    assert!(times[1..].iter().all(|time| *time == times[1]));
    let expected = [
        inserted(3),
        inserted(1),
        inserted(2),
        updated(1, doc! { "a": 1 }),
        deleted(0),
    ];
    assert_eq!(comparable_events(events), expected);
}

pub async fn dropping_a_collection_ends_its_watch(db: Fixture) {
    let db = db.backend();
    db.insert(things_with_ids([1])).await.unwrap();
    let Some(mut one) = watch(&*db, things()).await else {
        return;
    };
    let mut all = watch(&*db, WatchOperation::database()).await.unwrap();
    db.drop_collection(TEST_COLLECTION).await.unwrap();
    db.insert(things_with_ids([2])).await.unwrap();
    let dropped = doc! { "operationType": "drop", "ns": { "coll": TEST_COLLECTION } };
    let events = next_events(&mut *one, 2).await;
    let invalidated = token(&events[1]);
    let invalidate = doc! { "operationType": "invalidate" };
    assert_eq!(comparable_events(events), [dropped.clone(), invalidate]);
    for _ in 0..2 {
        assert!(one.next_batch().await.unwrap().is_empty());
    }
    assert_eq!(
        comparable_events(next_events(&mut *all, 2).await),
        [dropped, inserted(2)]
    );
    let mut again = watch(&*db, watch_after(invalidated)).await.unwrap();
    assert_eq!(
        comparable_events(next_events(&mut *again, 1).await),
        [inserted(2)]
    );
}

pub async fn dropping_a_wait_loses_nothing(db: Fixture) {
    let db = db.backend();
    let Some(mut changes) = watch(&*db, things()).await else {
        return;
    };
    let mut events = Vec::new();
    for id in 0..20 {
        db.insert(things_with_ids([id])).await.unwrap();
        let short = Duration::from_millis(u64::try_from(id % 4).unwrap());
        let before = changes.resume_token();
        match tokio::time::timeout(short, changes.next_batch()).await {
            Ok(batch) => events.extend(decoded(batch.unwrap())),
            // The resume token belongs to the last returned event.
            Err(_) if !events.is_empty() => {
                let mut again = watch(&*db, watch_after(before)).await.unwrap();
                let next = comparable_events(decoded(again.next_batch().await.unwrap()));
                assert_eq!(next[0], inserted(i32::try_from(events.len()).unwrap()));
            }
            Err(_) => {}
        }
    }
    let remaining = 20 - events.len();
    events.extend(next_events(&mut *changes, remaining).await);
    assert_eq!(
        comparable_events(events),
        (0..20).map(inserted).collect::<Vec<_>>()
    );
}

pub async fn every_write_has_an_event(db: Fixture) {
    let db = db.backend();
    let Some(mut changes) = watch(&*db, things()).await else {
        return;
    };
    let lines = rawdoc! {
        "_id": 1, "n": 1, "gone": true, "at": { "x": 1, "y": 2 }, "list": [1, 2],
        "lines": [{ "k": 1 }, { "k": 2 }, { "k": 2 }],
    };
    db.insert(insert([lines.clone()])).await.unwrap();
    let mut expected = vec![doc! {
        "operationType": "insert",
        "ns": { "coll": TEST_COLLECTION },
        "documentKey": { "_id": 1 },
        "fullDocument": Document::try_from(lines).unwrap(),
    }];
    let second = [rawdoc! { "x.k": 2 }];
    for (filter, operators, array_filters, fields, removed) in [
        (
            rawdoc! {},
            rawdoc! { "$inc": { "n": 1 }, "$set": { "m": 0 } },
            &[][..],
            doc! { "n": 2, "m": 0 },
            vec![],
        ),
        (
            rawdoc! {},
            rawdoc! { "$set": { "n": 3 }, "$unset": { "gone": "" } },
            &[],
            doc! { "n": 3 },
            vec!["gone"],
        ),
        (
            rawdoc! {},
            rawdoc! { "$set": { "at.x": 5, "at.z.deep": 6 }, "$unset": { "at.y": "" } },
            &[],
            doc! { "at.x": 5, "at.z": { "deep": 6 } },
            vec!["at.y"],
        ),
        (
            rawdoc! {},
            rawdoc! { "$set": { "at": { "x": 5, "y": 9 } } },
            &[],
            doc! { "at": { "x": 5, "y": 9 } },
            vec![],
        ),
        // An array grows, then shrinks.
        (
            rawdoc! {},
            rawdoc! { "$push": { "list": { "$each": [3, 4] } } },
            &[],
            doc! { "list.2": 3, "list.3": 4 },
            vec![],
        ),
        (
            rawdoc! {},
            rawdoc! { "$push": { "list": { "$each": [5], "$slice": -3 } } },
            &[],
            doc! { "list": [3, 4, 5] },
            vec![],
        ),
        (
            rawdoc! {},
            rawdoc! { "$addToSet": { "list": 6 } },
            &[],
            doc! { "list": [3, 4, 5, 6] },
            vec![],
        ),
        (
            rawdoc! {},
            rawdoc! { "$pull": { "list": { "$gt": 4 } } },
            &[],
            doc! { "list": [3, 4] },
            vec![],
        ),
        (
            rawdoc! {},
            rawdoc! { "$pop": { "list": 1 } },
            &[],
            doc! { "list": [3] },
            vec![],
        ),
        // Array elements: the matched element, a filtered element, several elements, all elements.
        (
            rawdoc! { "lines.k": 2 },
            rawdoc! { "$set": { "lines.$.q": 1 } },
            &[],
            doc! { "lines.1.q": 1 },
            vec![],
        ),
        (
            rawdoc! {},
            rawdoc! { "$set": { "lines.$[x].q": 1 } },
            &second,
            doc! { "lines.2": { "k": 2, "q": 1 } },
            vec![],
        ),
        (
            rawdoc! {},
            rawdoc! { "$inc": { "lines.$[x].q": 1 } },
            &second,
            doc! { "lines": [{ "k": 1 }, { "k": 2, "q": 2 }, { "k": 2, "q": 2 }] },
            vec![],
        ),
    ] {
        let command = UpdateOperation {
            change: DocumentChange::Operators {
                update: operators,
                array_filters: array_filters.to_vec(),
            },
            ..update(filter, rawdoc! {})
        };
        assert_eq!(db.update(command).await.unwrap().modified, 1);
        let mut event = updated(1, fields);
        let description = event.get_document_mut("updateDescription").unwrap();
        description.insert("removedFields", removed);
        expected.push(event);
    }
    // An update that changes no value has no event.
    let same = update(rawdoc! {}, rawdoc! { "$set": { "n": 3 } });
    assert_eq!(db.update(same).await.unwrap().modified, 0);
    db.insert(things_with_ids([2])).await.unwrap();
    expected.push(inserted(2));
    let replace = UpdateOperation {
        change: DocumentChange::Replacement(rawdoc! { "n": 3 }),
        ..update(rawdoc! { "_id": 1 }, rawdoc! {})
    };
    // A replacement has an event even if the document stays equal.
    for _ in 0..2 {
        assert_eq!(db.update(replace.clone()).await.unwrap().modified, 1);
        expected.push(doc! {
            "operationType": "replace",
            "ns": { "coll": TEST_COLLECTION },
            "documentKey": { "_id": 1 },
            "fullDocument": { "_id": 1, "n": 3 },
        });
    }
    let all = update(rawdoc! {}, rawdoc! { "$inc": { "n": 1 } });
    db.update(UpdateOperation { multi: true, ..all })
        .await
        .unwrap();
    expected.extend([updated(1, doc! { "n": 4 }), updated(2, doc! { "n": 1 })]);
    let all = delete(rawdoc! {});
    db.delete(odm::backend::operation::DeleteOperation { multi: true, ..all })
        .await
        .unwrap();
    expected.extend([deleted(1), deleted(2)]);
    let events = comparable_events(next_events(&mut *changes, expected.len()).await);
    for (event, expected) in events.into_iter().zip(expected) {
        assert_eq!(event, expected);
    }
}

pub async fn many_watchers_see_the_same(db: Fixture) {
    let db = db.backend();
    let Some(first) = watch(&*db, things()).await else {
        return;
    };
    let mut watchers = vec![first];
    for _ in 0..10 {
        watchers.push(watch(&*db, things()).await.unwrap());
    }
    let writes = (0..4).map(|writer| {
        let db = &db;
        async move {
            for n in 0..10 {
                db.insert(things_with_ids([writer * 100 + n]))
                    .await
                    .unwrap();
            }
        }
    });
    let reads = watchers
        .iter_mut()
        .map(|changes| next_events(&mut **changes, 40));
    let (_, seen) = futures_util::future::join(join_all(writes), join_all(reads)).await;
    for events in &seen {
        assert_eq!(*events, seen[0]);
    }
    let mut ids: Vec<_> = seen[0]
        .iter()
        .map(|event| token(event).into_bytes())
        .collect();
    ids.dedup();
    assert_eq!(ids.len(), 40);
}

pub async fn invalid_resume_tokens_are_refused(db: Fixture) {
    let db = db.backend();
    let Some(_changes) = watch(&*db, things()).await else {
        return;
    };
    for token in [
        rawdoc! {},
        rawdoc! { "_data": 1 },
        rawdoc! { "_data": "" },
        rawdoc! { "_data": "not hexadecimal" },
    ] {
        let error = db.watch(watch_after(token.clone())).await.err();
        let error = error.expect("an error");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{token:?}: {error}");
    }
}

pub async fn wrappers_forward_change_streams(db: Fixture) {
    let recorder = Recorder::new(db.backend());
    let faults = Faults::new(std::sync::Arc::new(recorder.clone()));
    let is_watch = |operation: &Operation| matches!(operation, Operation::Watch(_));
    let injected = Error::new(ErrorKind::Backend, "injected");
    faults.inject(1, is_watch, Fault::FailBefore(injected));
    let error = faults.watch(things()).await.err();
    assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Backend));
    let changes = watch(&faults, things()).await;
    assert_eq!(
        recorder.operations().last(),
        Some(&Operation::Watch(things()))
    );
    let Some(mut changes) = changes else { return };
    faults.insert(things_with_ids([1])).await.unwrap();
    assert_eq!(
        comparable_events(next_events(&mut *changes, 1).await),
        [inserted(1)]
    );
}

/// A stream returns an error once. Every later read returns the end of the stream.
pub async fn an_error_ends_the_stream(fixture: Fixture) {
    let db = fixture.backend();
    if !db.capabilities().change_streams {
        return;
    }
    let mut changes = match fixture.url().starts_with("mongodb") {
        true => {
            // The filter divides by `n`, so evaluating the event of the document with 0 fails.
            let quotient = rawdoc! { "$divide": [1, "$fullDocument.n"] };
            let failing = WatchOperation {
                filter: rawdoc! { "$expr": { "$gt": [quotient, 0] } },
                ..things()
            };
            let mut changes = db.watch(failing).await.unwrap();
            let number = |n: i32| insert([rawdoc! { "_id": n, "n": n }]);
            db.insert(number(1)).await.unwrap();
            next_events(&mut *changes, 1).await;
            db.insert(number(0)).await.unwrap();
            changes
        }
        false => {
            // The engine buffers at most 32 MiB of unread events.
            let changes = db.watch(things()).await.unwrap();
            let text = "x".repeat(9 << 20);
            for id in 0..5 {
                let large = rawdoc! { "_id": id, "text": text.as_str() };
                db.insert(insert([large])).await.unwrap();
            }
            changes
        }
    };
    let wait = Duration::from_secs(30);
    let failed = tokio::time::timeout(wait, changes.next_batch()).await;
    failed.expect("an answer in time").expect_err("it fails");
    for _ in 0..3 {
        let end = tokio::time::timeout(wait, changes.next_batch()).await;
        assert!(end.expect("an answer in time").expect("the end").is_empty());
    }
}

/// An update that sets 9 MB in a document of 9 MB. A MongoDB version without event fragments cannot send this event and returns
/// an error. All events before and after the error arrive complete.
pub async fn an_event_of_more_than_16_mb(fixture: Fixture) {
    let db = fixture.backend();
    let lookup = WatchOperation {
        full_document: FullDocument::UpdateLookup,
        ..things()
    };
    let Some(before) = watch(&*db, lookup.clone()).await else {
        return;
    };
    let start = before.resume_token();
    drop(before);
    let set = async |id: i32, change: RawDocumentBuf| {
        let set = rawdoc! { "$set": change };
        db.update(update(rawdoc! { "_id": id }, set)).await.unwrap();
    };
    let text = "x".repeat(9 << 20);
    db.insert(insert([rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }]))
        .await
        .unwrap();
    set(1, rawdoc! { "n": 1 }).await;
    set(2, rawdoc! { "text": text.as_str() }).await;
    set(1, rawdoc! { "n": 2 }).await;
    set(2, rawdoc! { "text": text.replace('x', "y") }).await;
    set(2, rawdoc! { "m": 1 }).await;
    set(1, rawdoc! { "n": 3 }).await;

    // Reading the events now makes the lookups find the large document.
    let operation = || WatchOperation {
        from: WatchFrom::After(start.clone()),
        ..lookup.clone()
    };
    let mut changes = watch(&*db, operation()).await.expect("a watch");
    let mut received = Vec::new();
    while received.len() < 8 {
        let batch = tokio::time::timeout(Duration::from_secs(60), changes.next_batch());
        match batch.await.expect("an event in time") {
            Ok(batch) => {
                assert!(!batch.is_empty(), "the end after {received:?}");
                for event in decoded(batch) {
                    let key = event.get_document("documentKey").unwrap();
                    let id = key.get_i32("_id").unwrap();
                    if event.get_str("operationType").unwrap() == "update" {
                        let document = event.get_document("fullDocument").unwrap();
                        assert_eq!(document.contains_key("text"), id == 2);
                        assert!(event.contains_key("updateDescription"));
                    }
                    received.push((id, true));
                }
            }
            Err(error) => {
                assert_eq!(error.code(), Some(10334), "{error}");
                assert_eq!(error.collection(), Some(TEST_COLLECTION));
                let id = error.id().and_then(Bson::as_i32);
                received.push((id.expect("the id of the document"), false));
            }
        }
    }
    let expected = [1, 2, 1, 2, 1, 2, 2, 1].map(|id| (id, true));
    let mut without = expected;
    (without[3].1, without[5].1) = (false, false);
    assert!(received == expected || received == without, "{received:?}");

    // The stream continues after the error, and its token resumes after all these events.
    set(1, rawdoc! { "n": 4 }).await;
    next_events(&mut *changes, 1).await;
    let after_error = WatchOperation {
        from: WatchFrom::After(changes.resume_token()),
        ..lookup.clone()
    };
    let mut resumed = watch(&*db, after_error).await.expect("a watch");
    set(1, rawdoc! { "n": 5 }).await;
    let event = next_events(&mut *resumed, 1).await.remove(0);
    assert_eq!(
        event.get_document("fullDocument").unwrap(),
        &doc! { "_id": 1, "n": 5 }
    );
}
