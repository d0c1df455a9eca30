use std::thread;
use std::time::{Duration, Instant};

use bson::{RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, Timestamp, rawdoc};
use odm_engine::{
    ChangeLogLimits, ChangeStream, Database, Delete, Direction, FullDocument, Index, Update, Watch,
    WatchFrom,
};

const SOON: Duration = Duration::from_secs(10);

fn watching(collection: &str) -> Watch {
    Watch {
        collection: Some(collection.to_owned()),
        ..Watch::default()
    }
}

fn insert(database: &Database, ids: impl IntoIterator<Item = i32>) {
    let documents = ids.into_iter().map(|id| rawdoc! { "_id": id });
    let report = database.insert("c", documents.collect()).unwrap();
    report.into_result().unwrap();
}

fn update(filter: RawDocumentBuf, update: RawDocumentBuf) -> Update {
    Update {
        filter,
        update,
        ..Update::default()
    }
}

fn rest(changes: &mut ChangeStream) -> Vec<RawDocumentBuf> {
    std::iter::from_fn(|| changes.try_next().unwrap()).collect()
}

/// Returns the operation and the `_id` of each event.
fn event_summaries(events: &[RawDocumentBuf]) -> Vec<(&str, i32)> {
    let summaries = events.iter().map(|event| {
        let key = event.get_document("documentKey").unwrap();
        let operation = event.get_str("operationType").unwrap();
        (operation, key.get_i32("_id").unwrap())
    });
    summaries.collect()
}

fn time(event: &RawDocument) -> Timestamp {
    event.get_timestamp("clusterTime").unwrap()
}

#[test]
fn events_have_the_form_of_mongodb() {
    let database = Database::memory();
    let mut changes = database.watch(&Watch::default()).unwrap();
    insert(&database, [1]);
    let set = update(rawdoc! {}, rawdoc! { "$set": { "a": 1 } });
    assert_eq!(database.update("c", &set).unwrap().modified, 1);
    let replace = update(rawdoc! {}, rawdoc! { "b": 1 });
    assert_eq!(database.update("c", &replace).unwrap().modified, 1);
    assert_eq!(database.delete("c", &Delete::default()).unwrap().deleted, 1);

    let events = rest(&mut changes);
    let description = rawdoc! {
        "updatedFields": { "a": 1 }, "removedFields": [], "truncatedArrays": [],
    };
    let expected = [
        ("insert", Some(rawdoc! { "_id": 1 }), None),
        ("update", None, Some(description)),
        ("replace", Some(rawdoc! { "_id": 1, "b": 1 }), None),
        ("delete", None, None),
    ];
    assert_eq!(events.len(), expected.len());
    for (event, (operation, full, description)) in events.iter().zip(&expected) {
        let mut shape = RawDocumentBuf::new();
        let mut add = |name: &str, value: RawBson| {
            shape.append(bson::raw::CString::try_from(name).unwrap(), value);
        };
        add("_id", event.get("_id").unwrap().unwrap().into());
        add("operationType", (*operation).into());
        add("clusterTime", time(event).into());
        let wall_time = event.get_datetime("wallTime").unwrap();
        add("wallTime", wall_time.into());
        if let Some(full) = full {
            add("fullDocument", full.clone().into());
        }
        add("ns", rawdoc! { "coll": "c" }.into());
        add("documentKey", rawdoc! { "_id": 1 }.into());
        if let Some(description) = description {
            add("updateDescription", description.clone().into());
        }
        assert_eq!(*event, shape);
        let age = bson::DateTime::now().timestamp_millis() - wall_time.timestamp_millis();
        assert!((0..60_000).contains(&age));
    }
    assert!(
        events
            .windows(2)
            .all(|pair| time(&pair[0]) < time(&pair[1]))
    );
    let tokens: Vec<_> = events
        .iter()
        .map(|event| event.get_document("_id").unwrap().get_str("_data").unwrap())
        .collect();
    assert!(tokens.is_sorted_by(|a, b| a < b));
}

/// A document, an update with its array filters, and the expected `updatedFields` and `removedFields`.
type Case = (
    RawDocumentBuf,
    RawDocumentBuf,
    Vec<RawDocumentBuf>,
    RawDocumentBuf,
    Vec<&'static str>,
);

/// Each case records the answer of MongoDB 6.0.
#[test]
fn updates_are_described_as_on_mongodb() {
    let two_elements = || rawdoc! { "a": [{ "b": 1 }, { "b": 2 }] };
    let cases: Vec<Case> = vec![
        // Fields.
        (
            rawdoc! { "a": 1 },
            rawdoc! { "$set": { "a": 1, "b": 2 } },
            vec![],
            rawdoc! { "b": 2 },
            vec![],
        ),
        (
            rawdoc! { "a": { "b": 1, "c": 2 } },
            rawdoc! { "$set": { "a": { "b": 1, "c": 3 } } },
            vec![],
            rawdoc! { "a": { "b": 1, "c": 3 } },
            vec![],
        ),
        (
            rawdoc! { "a": { "b": 1 } },
            rawdoc! { "$set": { "a.c.d": 3 } },
            vec![],
            rawdoc! { "a.c": { "d": 3 } },
            vec![],
        ),
        (
            rawdoc! {},
            rawdoc! { "$set": { "a.c.d": 3, "a.e": 4 } },
            vec![],
            rawdoc! { "a": { "c": { "d": 3 }, "e": 4 } },
            vec![],
        ),
        (
            rawdoc! { "a": 1, "b": 2 },
            rawdoc! { "$unset": { "a": 1 } },
            vec![],
            rawdoc! {},
            vec!["a"],
        ),
        (
            rawdoc! { "a": { "b": 1, "c": 2 } },
            rawdoc! { "$unset": { "a.b": 1 } },
            vec![],
            rawdoc! {},
            vec!["a.b"],
        ),
        (
            rawdoc! { "a": { "b": 1 }, "c": 2 },
            rawdoc! { "$rename": { "a.b": "d.e" } },
            vec![],
            rawdoc! { "d": { "e": 1 } },
            vec!["a.b"],
        ),
        (
            rawdoc! { "a": 5 },
            rawdoc! { "$set": { "a": 5_i64 } },
            vec![],
            rawdoc! { "a": 5_i64 },
            vec![],
        ),
        // Elements by position.
        (
            rawdoc! { "a": [1, 2, 3] },
            rawdoc! { "$set": { "a.1": 9 } },
            vec![],
            rawdoc! { "a.1": 9 },
            vec![],
        ),
        (
            rawdoc! { "a": [1, 2, 3] },
            rawdoc! { "$set": { "a.5": 9 } },
            vec![],
            rawdoc! { "a.5": 9 },
            vec![],
        ),
        (
            rawdoc! { "a": [1] },
            rawdoc! { "$set": { "a.3.b": 9, "a.4": 2 } },
            vec![],
            rawdoc! { "a.3": { "b": 9 }, "a.4": 2 },
            vec![],
        ),
        (
            rawdoc! { "a": [1, 2] },
            rawdoc! { "$unset": { "a.0": 1 } },
            vec![],
            rawdoc! { "a.0": null },
            vec![],
        ),
        // Arrays that grow.
        (
            rawdoc! { "a": [1, 2] },
            rawdoc! { "$push": { "a": { "$each": [3, 4] } } },
            vec![],
            rawdoc! { "a.2": 3, "a.3": 4 },
            vec![],
        ),
        (
            rawdoc! { "a": [1, 2] },
            rawdoc! { "$push": { "a": { "$each": [3], "$position": 0 } } },
            vec![],
            rawdoc! { "a": [3, 1, 2] },
            vec![],
        ),
        (
            rawdoc! { "a": [1, 2] },
            rawdoc! { "$push": { "a": { "$each": [3], "$position": 2 } } },
            vec![],
            rawdoc! { "a": [1, 2, 3] },
            vec![],
        ),
        (
            rawdoc! { "a": [1, 2] },
            rawdoc! { "$push": { "a": { "$each": [3], "$position": 10 } } },
            vec![],
            rawdoc! { "a.2": 3 },
            vec![],
        ),
        (
            rawdoc! { "a": [1, 2] },
            rawdoc! { "$push": { "a": { "$each": [3, 4, 5], "$slice": 5 } } },
            vec![],
            rawdoc! { "a.2": 3, "a.3": 4, "a.4": 5 },
            vec![],
        ),
        (
            rawdoc! { "a": [1, 2] },
            rawdoc! { "$push": { "a": { "$each": [3], "$slice": -2 } } },
            vec![],
            rawdoc! { "a": [2, 3] },
            vec![],
        ),
        (
            rawdoc! { "a": [1, 2] },
            rawdoc! { "$push": { "a": { "$each": [], "$sort": 1 } } },
            vec![],
            rawdoc! { "a": [1, 2] },
            vec![],
        ),
        (
            rawdoc! { "a": [] },
            rawdoc! { "$push": { "a": 1 } },
            vec![],
            rawdoc! { "a": [1] },
            vec![],
        ),
        (
            rawdoc! {},
            rawdoc! { "$push": { "a.b": 1 } },
            vec![],
            rawdoc! { "a": { "b": [1] } },
            vec![],
        ),
        (
            rawdoc! { "a": [[1]] },
            rawdoc! { "$push": { "a.0": 2 } },
            vec![],
            rawdoc! { "a.0.1": 2 },
            vec![],
        ),
        (
            rawdoc! { "a": [1, 2] },
            rawdoc! { "$addToSet": { "a": { "$each": [2, 3] } } },
            vec![],
            rawdoc! { "a": [1, 2, 3] },
            vec![],
        ),
        // Arrays that shrink.
        (
            rawdoc! { "a": [1, 2] },
            rawdoc! { "$pop": { "a": 1 } },
            vec![],
            rawdoc! { "a": [1] },
            vec![],
        ),
        (
            rawdoc! { "a": [1, 2, 1] },
            rawdoc! { "$pull": { "a": 1 } },
            vec![],
            rawdoc! { "a": [2] },
            vec![],
        ),
        // Several elements.
        (
            two_elements(),
            rawdoc! { "$set": { "a.$[].b": 5 } },
            vec![],
            rawdoc! { "a": [{ "b": 5 }, { "b": 5 }] },
            vec![],
        ),
        (
            two_elements(),
            rawdoc! { "$set": { "a.$[].b": 2 } },
            vec![],
            rawdoc! { "a.0": { "b": 2 } },
            vec![],
        ),
        (
            two_elements(),
            rawdoc! { "$inc": { "a.$[x].b": 5 } },
            vec![rawdoc! { "x.b": 2 }],
            rawdoc! { "a.1.b": 7 },
            vec![],
        ),
        (
            two_elements(),
            rawdoc! { "$set": { "a.$[x].c": 5, "a.$[y].c": 6 } },
            vec![rawdoc! { "x.b": 1 }, rawdoc! { "y.b": 2 }],
            rawdoc! { "a": [{ "b": 1, "c": 5 }, { "b": 2, "c": 6 }] },
            vec![],
        ),
        (
            two_elements(),
            rawdoc! { "$set": { "a.$[x].c": 5, "a.$[y].d": 6 } },
            vec![rawdoc! { "x.b": 1 }, rawdoc! { "y.b": 1 }],
            rawdoc! { "a.0.c": 5, "a.0.d": 6 },
            vec![],
        ),
        (
            two_elements(),
            rawdoc! { "$unset": { "a.$[x].b": 1 } },
            vec![rawdoc! { "x.b": 2 }],
            rawdoc! {},
            vec!["a.1.b"],
        ),
        (
            two_elements(),
            rawdoc! { "$unset": { "a.$[].b": 1 } },
            vec![],
            rawdoc! { "a": [{}, {}] },
            vec![],
        ),
        (
            rawdoc! { "a": [{ "b": [1, 2] }] },
            rawdoc! { "$inc": { "a.$[].b.$[]": 1 } },
            vec![],
            rawdoc! { "a.0.b": [2, 3] },
            vec![],
        ),
        (
            rawdoc! { "a": [{ "b": [1, 2] }, { "b": [3] }] },
            rawdoc! { "$inc": { "a.$[].b.$[y]": 1 } },
            vec![rawdoc! { "y": 3 }],
            rawdoc! { "a.1": { "b": [4] } },
            vec![],
        ),
        (
            rawdoc! { "a": [[1], [2]] },
            rawdoc! { "$push": { "a.$[x]": 10 } },
            vec![rawdoc! { "x": 2 }],
            rawdoc! { "a.1.1": 10 },
            vec![],
        ),
    ];
    let database = Database::memory();
    let mut changes = database.watch(&Watch::default()).unwrap();
    for (id, (document, operators, array_filters, updated, removed)) in (0..).zip(cases) {
        let mut stored = rawdoc! { "_id": id };
        for (name, value) in document.iter().flatten() {
            stored.append(name, value);
        }
        database
            .insert("c", vec![stored])
            .unwrap()
            .into_result()
            .unwrap();
        let command = Update {
            array_filters,
            ..update(rawdoc! { "_id": id }, operators.clone())
        };
        assert_eq!(database.update("c", &command).unwrap().modified, 1);
        let events = rest(&mut changes);
        assert_eq!(event_summaries(&events), [("insert", id), ("update", id)]);
        let removed: RawArrayBuf = removed.into_iter().collect();
        let expected = rawdoc! {
            "updatedFields": updated, "removedFields": removed, "truncatedArrays": [],
        };
        let description = events[1].get_document("updateDescription").unwrap();
        assert_eq!(description, &*expected, "{document:?} {operators:?}");
    }
}

#[test]
fn upserts_insert_and_expired_documents_are_deleted() {
    let database = Database::memory();
    let expiring = Index::new([("at", Direction::Ascending)]).expire_after(Duration::ZERO);
    database.create_indexes("c", &[expiring]).unwrap();
    let mut changes = database.watch(&Watch::default()).unwrap();
    let old_date = bson::DateTime::from_millis(0);
    let upsert = Update {
        upsert: true,
        ..update(rawdoc! { "_id": 1 }, rawdoc! { "$set": { "at": old_date } })
    };
    assert!(database.update("c", &upsert).unwrap().upserted_id.is_some());
    assert_eq!(database.delete_expired().unwrap(), 1);
    let events = rest(&mut changes);
    assert_eq!(event_summaries(&events), [("insert", 1), ("delete", 1)]);
    let full = events[0].get_document("fullDocument").unwrap();
    assert_eq!(full, &*rawdoc! { "_id": 1, "at": old_date });
}

#[test]
fn a_dropped_collection_ends_its_stream() {
    let database = Database::memory();
    insert(&database, [1]);
    let mut changes = database.watch(&watching("c")).unwrap();
    database.drop_collection("c").unwrap();
    insert(&database, [2]);
    let operations: Vec<_> = rest(&mut changes)
        .iter()
        .map(|event| event.get_str("operationType").unwrap().to_owned())
        .collect();
    assert_eq!(operations, ["drop", "invalidate"]);
    assert!(changes.is_over());
    // The stream is over, so `next` returns without waiting.
    assert_eq!(changes.next(Duration::MAX).unwrap(), None);
    let watch = Watch {
        from: WatchFrom::After(changes.resume_token()),
        ..watching("c")
    };
    assert_eq!(
        event_summaries(&rest(&mut database.watch(&watch).unwrap())),
        [("insert", 2)]
    );
}

#[test]
fn only_counted_modifications_are_events() {
    let database = Database::memory();
    let mut changes = database.watch(&Watch::default()).unwrap();
    insert(&database, [1]);
    for operators in [
        rawdoc! { "$set": { "_id": 1 } },
        rawdoc! { "$unset": { "a": 1 } },
    ] {
        let report = database
            .update("c", &update(rawdoc! {}, operators))
            .unwrap();
        assert_eq!(report.modified, 0);
    }
    let same = update(rawdoc! {}, rawdoc! { "_id": 1 });
    assert_eq!(database.update("c", &same).unwrap().modified, 0);
    // A replacement without the `_id` counts as a modification, although the document stays equal.
    let same = update(rawdoc! { "_id": 1 }, rawdoc! {});
    assert_eq!(database.update("c", &same).unwrap().modified, 1);
    assert_eq!(
        event_summaries(&rest(&mut changes)),
        [("insert", 1), ("replace", 1)]
    );
}

#[test]
fn a_pipeline_update_is_reported_by_its_differences() {
    let database = Database::memory();
    database
        .insert(
            "c",
            vec![rawdoc! { "_id": 1, "a": 1, "b": { "c": [1, 2] }, "text": "x".repeat(50) }],
        )
        .unwrap()
        .into_result()
        .unwrap();
    let mut changes = database.watch(&Watch::default()).unwrap();
    let watch_with = |stage: RawDocumentBuf| {
        let update = Update {
            pipeline: Some(vec![stage]),
            ..update(rawdoc! {}, rawdoc! {})
        };
        assert_eq!(database.update("c", &update).unwrap().modified, 1);
    };
    watch_with(rawdoc! { "$set": { "a": 2, "b.c": [1, 3, 4] } });
    watch_with(rawdoc! { "$unset": "b" });
    watch_with(rawdoc! { "$replaceWith": { "_id": "$_id", "other": 1 } });
    let events = rest(&mut changes);
    assert_eq!(
        event_summaries(&events),
        [("update", 1), ("update", 1), ("replace", 1)]
    );
    let described =
        |event: &RawDocumentBuf| event.get_document("updateDescription").unwrap().to_owned();
    let set = rawdoc! {
        "updatedFields": { "a": 2, "b.c.1": 3, "b.c.2": 4 },
        "removedFields": [],
        "truncatedArrays": [],
    };
    assert_eq!(described(&events[0]), set);
    let unset = rawdoc! { "updatedFields": {}, "removedFields": ["b"], "truncatedArrays": [] };
    assert_eq!(described(&events[1]), unset);
}

#[test]
fn a_transaction_is_reported_completely_at_its_commit() {
    let database = Database::memory();
    let mut changes = database.watch(&Watch::default()).unwrap();
    let (kept, dropped) = (database.begin().unwrap(), database.begin().unwrap());
    let documents = vec![rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }];
    kept.insert("a", documents).unwrap().into_result().unwrap();
    let all = Update {
        multi: true,
        ..update(rawdoc! {}, rawdoc! { "$set": { "a": 1 } })
    };
    assert_eq!(kept.update("a", &all).unwrap().modified, 2);
    dropped
        .insert("b", vec![rawdoc! { "_id": 9 }])
        .unwrap()
        .into_result()
        .unwrap();
    insert(&database, [3]);
    kept.delete("a", &Delete::default()).unwrap();
    assert_eq!(event_summaries(&rest(&mut changes)), [("insert", 3)]);
    kept.commit().unwrap();
    dropped.abort().unwrap();
    let events = rest(&mut changes);
    let expected = [
        ("insert", 1),
        ("insert", 2),
        ("update", 1),
        ("update", 2),
        ("delete", 1),
    ];
    assert_eq!(event_summaries(&events), expected);
    assert!(events.iter().all(|event| time(event) == time(&events[0])));
}

#[test]
fn failed_writes_report_only_their_completed_part() {
    let database = Database::memory();
    let unique = Index::new([("a", Direction::Ascending)]).unique();
    database.create_indexes("c", &[unique]).unwrap();
    let mut changes = database.watch(&Watch::default()).unwrap();
    let documents = vec![
        rawdoc! { "_id": 1, "a": 1 },
        rawdoc! { "_id": 2, "a": 1 },
        rawdoc! { "_id": 3, "a": 3 },
    ];
    assert_eq!(database.insert("c", documents).unwrap().inserted, 1);
    let malformed = update(rawdoc! {}, rawdoc! { "$inc": { "a": "x" } });
    database.update("c", &malformed).unwrap_err();
    assert_eq!(event_summaries(&rest(&mut changes)), [("insert", 1)]);
}

#[test]
fn filters_see_the_whole_event() {
    let database = Database::memory();
    let filtered = |filter| {
        let watch = Watch {
            filter,
            full_document: FullDocument::UpdateLookup,
            ..Watch::default()
        };
        database.watch(&watch).unwrap()
    };
    let mut deletes = filtered(rawdoc! { "operationType": "delete" });
    let mut of_two = filtered(rawdoc! { "documentKey._id": 2 });
    let mut looked_up =
        filtered(rawdoc! { "operationType": "update", "fullDocument.a": { "$gt": 1 } });
    let mut elsewhere = database.watch(&watching("d")).unwrap();
    insert(&database, [1, 2]);
    let set = update(rawdoc! { "_id": 2 }, rawdoc! { "$set": { "a": 2 } });
    assert_eq!(database.update("c", &set).unwrap().modified, 1);
    database
        .delete(
            "c",
            &Delete {
                filter: rawdoc! { "_id": 1 },
                multi: false,
                ..Delete::default()
            },
        )
        .unwrap();
    assert_eq!(event_summaries(&rest(&mut deletes)), [("delete", 1)]);
    assert_eq!(
        event_summaries(&rest(&mut of_two)),
        [("insert", 2), ("update", 2)]
    );
    assert_eq!(event_summaries(&rest(&mut looked_up)), [("update", 2)]);
    assert_eq!(event_summaries(&rest(&mut elsewhere)), []);
    // The token is after the skipped events.
    assert_eq!(elsewhere.resume_token(), deletes.resume_token());

    let invalid = Watch {
        filter: rawdoc! { "a": { "$foo": 1 } },
        ..Watch::default()
    };
    assert!(database.watch(&invalid).unwrap_err().is_unknown_operator());
}

#[test]
fn a_lookup_finds_the_document_as_it_is_now() {
    let database = Database::memory();
    insert(&database, [1, 2]);
    let watch = Watch {
        full_document: FullDocument::UpdateLookup,
        ..watching("c")
    };
    let mut changes = database.watch(&watch).unwrap();
    for value in [1, 2] {
        let all = Update {
            multi: true,
            ..update(rawdoc! {}, rawdoc! { "$set": { "a": value } })
        };
        assert_eq!(database.update("c", &all).unwrap().modified, 2);
    }
    database
        .delete(
            "c",
            &Delete {
                filter: rawdoc! { "_id": 2 },
                multi: false,
                ..Delete::default()
            },
        )
        .unwrap();
    let full: Vec<_> = rest(&mut changes)
        .iter()
        .map(|event| event.get("fullDocument").unwrap().map(RawBson::from))
        .collect();
    let (now, missing) = (RawBson::from(rawdoc! { "_id": 1, "a": 2 }), RawBson::Null);
    let expected = [
        Some(now.clone()),
        Some(missing.clone()),
        Some(now),
        Some(missing),
        None,
    ];
    assert_eq!(full, expected);
}

#[test]
fn a_token_resumes_right_after_its_event_in_another_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let database = Database::open(&path).unwrap();
    let mut changes = database.watch(&watching("c")).unwrap();
    let start = changes.resume_token();
    insert(&database, [1, 2, 3]);
    let second = rest(&mut changes)[1]
        .get_document("_id")
        .unwrap()
        .to_owned();
    let end = changes.resume_token();
    drop((changes, database));

    let database = Database::open(&path).unwrap();
    insert(&database, [4]);
    let resume = |token: &RawDocumentBuf| {
        let watch = Watch {
            from: WatchFrom::After(token.clone()),
            ..watching("c")
        };
        let events = rest(&mut database.watch(&watch).unwrap());
        event_summaries(&events)
            .iter()
            .map(|(_, id)| *id)
            .collect::<Vec<_>>()
    };
    assert_eq!(resume(&start), [1, 2, 3, 4]);
    assert_eq!(resume(&second), [3, 4]);
    assert_eq!(resume(&end), [4]);
    let mut now = database.watch(&Watch::default()).unwrap();
    assert_eq!(resume(&now.resume_token()), Vec::<i32>::new());
    insert(&database, [5]);
    assert_eq!(event_summaries(&rest(&mut now)), [("insert", 5)]);
}

#[test]
fn a_time_leads_to_its_first_event() {
    let database = Database::memory();
    let mut changes = database.watch(&Watch::default()).unwrap();
    for id in 0..20 {
        insert(&database, [2 * id, 2 * id + 1]);
    }
    let events = rest(&mut changes);
    let from = |time| {
        let watch = Watch {
            from: WatchFrom::At(time),
            ..Watch::default()
        };
        database.watch(&watch).map(|mut changes| rest(&mut changes))
    };
    for at in (0..events.len()).step_by(2) {
        assert_eq!(from(time(&events[at])).unwrap(), events[at..]);
        assert_eq!(from(time(&events[at + 1])).unwrap(), events[at..]);
    }
    let future_time = Timestamp {
        time: u32::MAX,
        increment: 1,
    };
    assert_eq!(from(future_time).unwrap(), []);
    let error = from(Timestamp {
        time: 1,
        increment: 1,
    })
    .unwrap_err();
    assert_eq!((error.is_history_lost(), error.code()), (true, Some(286)));
}

#[test]
fn tokens_of_another_log_are_rejected() {
    let (database, other) = (Database::memory(), Database::memory());
    let from = |database: &Database, token| {
        let watch = Watch {
            from: WatchFrom::After(token),
            ..Watch::default()
        };
        database.watch(&watch).map(|changes| changes.resume_token())
    };
    let code = |database: &Database, token| from(database, token).unwrap_err().code();
    assert_eq!(code(&database, rawdoc! {}), Some(40647));
    assert_eq!(code(&database, rawdoc! { "_data": "82" }), Some(9));
    // A refused token does not switch the log on.
    assert_eq!(database.change_log(), None);

    let token = database.watch(&Watch::default()).unwrap().resume_token();
    let error = from(&other, token.clone()).unwrap_err();
    assert_eq!((error.is_history_lost(), error.code()), (true, Some(280)));
    assert!(from(&database, token).is_ok());
}

#[test]
fn a_token_newer_than_a_restored_backup_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (path, backup) = (
        directory.path().join("data.odm"),
        directory.path().join("backup.odm"),
    );
    let database = Database::open(&path).unwrap();
    let mut changes = database.watch(&Watch::default()).unwrap();
    insert(&database, [1]);
    let kept = rest(&mut changes).remove(0);
    drop((changes, database));
    std::fs::copy(&path, &backup).unwrap();
    let newer_token = {
        let database = Database::open(&path).unwrap();
        let mut changes = database.watch(&Watch::default()).unwrap();
        insert(&database, [2]);
        rest(&mut changes).remove(0)
    };
    // Cluster times within one second differ only in the increment, so wait for the next second.
    thread::sleep(Duration::from_millis(1_100));
    let database = Database::open(&backup).unwrap();
    let from = |event: &RawDocument| {
        let token = event.get_document("_id").unwrap().to_owned();
        let watch = Watch {
            from: WatchFrom::After(token),
            ..Watch::default()
        };
        database.watch(&watch).map(|mut changes| rest(&mut changes))
    };
    assert_eq!(from(&newer_token).unwrap_err().code(), Some(280));
    insert(&database, [3]);
    assert_eq!(from(&newer_token).unwrap_err().code(), Some(280));
    assert_eq!(event_summaries(&from(&kept).unwrap()), [("insert", 3)]);
}

#[test]
fn the_log_is_switched_on_by_the_first_watcher_and_stays_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let database = Database::open(&path).unwrap();
    insert(&database, [1]);
    assert_eq!(database.change_log(), None);
    let mut changes = database.watch(&Watch::default()).unwrap();
    assert_eq!(database.change_log(), Some(ChangeLogLimits::default()));
    assert_eq!(rest(&mut changes), []);
    let start = changes.resume_token();
    drop((changes, database));

    let database = Database::open(&path).unwrap();
    assert_eq!(database.change_log(), Some(ChangeLogLimits::default()));
    let small = ChangeLogLimits {
        max_bytes: 1_000,
        max_age: Some(Duration::from_millis(1_500)),
    };
    database.set_change_log(Some(small)).unwrap();
    insert(&database, [2]);
    drop(database);
    let database = Database::open(&path).unwrap();
    assert_eq!(database.change_log(), Some(small));
    let watch = Watch {
        from: WatchFrom::After(start),
        ..Watch::default()
    };
    assert_eq!(
        event_summaries(&rest(&mut database.watch(&watch).unwrap())),
        [("insert", 2)]
    );
}

#[test]
fn switching_the_log_off_ends_streams_and_drops_events() {
    let database = Database::memory();
    let mut changes = database.watch(&Watch::default()).unwrap();
    let token = changes.resume_token();
    let mut waiting = database.watch(&Watch::default()).unwrap();
    let waiter = thread::spawn(move || waiting.next(SOON));
    thread::sleep(Duration::from_millis(50));
    database.set_change_log(None).unwrap();
    assert!(waiter.join().unwrap().unwrap_err().is_history_lost());
    assert!(changes.try_next().unwrap_err().is_history_lost());
    assert_eq!(database.change_log(), None);

    insert(&database, [1]);
    let mut new_watch = database.watch(&Watch::default()).unwrap();
    insert(&database, [2]);
    assert_eq!(event_summaries(&rest(&mut new_watch)), [("insert", 2)]);
    // The history in between is unknown, even if the numbers match.
    assert_eq!(changes.try_next().unwrap_err().code(), Some(286));
    let watch = Watch {
        from: WatchFrom::After(token),
        ..Watch::default()
    };
    assert_eq!(database.watch(&watch).unwrap_err().code(), Some(286));
}

#[test]
fn a_transaction_is_logged_whole_or_conflicts() {
    let database = Database::memory();
    let open = || {
        let transaction = database.begin().unwrap();
        let report = transaction.insert("c", vec![rawdoc! { "_id": 1 }]).unwrap();
        report.into_result().unwrap();
        transaction
    };
    let before = open();
    database.watch(&Watch::default()).unwrap();
    assert!(before.commit().unwrap_err().is_write_conflict());
    let during = open();
    database.set_change_log(None).unwrap();
    assert!(during.commit().unwrap_err().is_write_conflict());
    let mut changes = database.watch(&Watch::default()).unwrap();
    open().commit().unwrap();
    assert_eq!(event_summaries(&rest(&mut changes)), [("insert", 1)]);
}

#[test]
fn the_log_keeps_its_size_limit_and_reports_lost_history() {
    let database = Database::memory();
    let small = ChangeLogLimits {
        max_bytes: 10_000,
        max_age: None,
    };
    database.set_change_log(Some(small)).unwrap();
    let mut slow_watch = database.watch(&Watch::default()).unwrap();
    let mut quick = database.watch(&Watch::default()).unwrap();
    for id in 0..1_000 {
        insert(&database, [id]);
        assert_eq!(event_summaries(&rest(&mut quick)), [("insert", id)]);
    }
    let error = slow_watch.try_next().unwrap_err();
    assert_eq!((error.is_history_lost(), error.code()), (true, Some(286)));
    assert!(error.message().contains("set_change_log"), "{error}");

    // The oldest available position is about as old as the log's limit allows.
    let old = quick.resume_token();
    let events = |count: i32| insert(&database, 2_000..2_000 + count);
    events(30);
    let watch = Watch {
        from: WatchFrom::After(old),
        ..Watch::default()
    };
    let size: usize = {
        let events = rest(&mut database.watch(&watch).unwrap());
        assert_eq!(events.len(), 30);
        events.iter().map(|event| event.as_bytes().len()).sum()
    };
    assert!(size < 10_000);
    for id in 3_000..3_100 {
        insert(&database, [id]);
    }
    assert!(database.watch(&watch).unwrap_err().is_history_lost());
}

#[test]
fn the_log_drops_old_events_except_the_last() {
    let database = Database::memory();
    let short = ChangeLogLimits {
        max_age: Some(Duration::from_millis(30)),
        ..ChangeLogLimits::default()
    };
    database.set_change_log(Some(short)).unwrap();
    let mut changes = database.watch(&Watch::default()).unwrap();
    insert(&database, [1, 2, 3]);
    thread::sleep(Duration::from_millis(60));
    let mut idle_watch = database.watch(&Watch::default()).unwrap();
    insert(&database, [4]);
    assert!(changes.try_next().unwrap_err().is_history_lost());
    assert_eq!(event_summaries(&rest(&mut idle_watch)), [("insert", 4)]);
    let token = idle_watch.resume_token();
    thread::sleep(Duration::from_millis(60));
    let watch = Watch {
        from: WatchFrom::After(token),
        ..Watch::default()
    };
    assert_eq!(rest(&mut database.watch(&watch).unwrap()), []);
}

#[test]
fn waiting_ends_with_an_event_or_the_timeout() {
    let database = Database::memory();
    let mut changes = database.watch(&watching("c")).unwrap();
    let started = Instant::now();
    assert_eq!(changes.next(Duration::from_millis(50)).unwrap(), None);
    assert!(started.elapsed() >= Duration::from_millis(50));
    assert_eq!(changes.next(Duration::ZERO).unwrap(), None);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(50));
            let other = vec![rawdoc! { "_id": 0 }];
            database
                .insert("other", other)
                .unwrap()
                .into_result()
                .unwrap();
            insert(&database, [1]);
        });
        let event = changes.next(Duration::MAX).unwrap().unwrap();
        assert_eq!(event_summaries(&[event]), [("insert", 1)]);
    });
}

#[test]
fn all_watchers_see_the_same_whatever_the_writers_do() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path().join("data.odm")).unwrap();
    let streams: Vec<_> = (0..8)
        .map(|_| database.watch(&Watch::default()).unwrap())
        .collect();
    let seen: Vec<Vec<RawDocumentBuf>> = thread::scope(|scope| {
        for writer in 0..4 {
            let database = &database;
            scope.spawn(move || (0..25).for_each(|n| insert(database, [writer * 100 + n])));
        }
        let read = |mut changes: ChangeStream| {
            let next = move || changes.next(SOON).unwrap().unwrap();
            std::iter::repeat_with(next).take(100).collect()
        };
        let readers: Vec<_> = streams
            .into_iter()
            .map(|changes| scope.spawn(move || read(changes)))
            .collect();
        let seen = readers.into_iter().map(|reader| reader.join().unwrap());
        seen.collect()
    });
    for events in &seen {
        assert_eq!(*events, seen[0]);
    }
    // The inserts of each writer are in order.
    for writer in 0..4 {
        let ids = event_summaries(&seen[0]).into_iter().map(|(_, id)| id);
        let writer_ids: Vec<_> = ids.filter(|id| id / 100 == writer).collect();
        assert_eq!(
            writer_ids,
            (0..25).map(|n| writer * 100 + n).collect::<Vec<_>>()
        );
    }
}
