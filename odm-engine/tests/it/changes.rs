use std::thread;
use std::time::{Duration, Instant};

use bson::{RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, Timestamp, rawdoc};
use odm_engine::{
    ChangeLog, ChangeStream, Database, Delete, Direction, FullDocument, Index, Update, Watch,
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
    report.all().unwrap();
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

/// The operations and the ids of events.
fn told(events: &[RawDocumentBuf]) -> Vec<(&str, i32)> {
    let told = events.iter().map(|event| {
        let key = event.get_document("documentKey").unwrap();
        let operation = event.get_str("operationType").unwrap();
        (operation, key.get_i32("_id").unwrap())
    });
    told.collect()
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
        let wall = event.get_datetime("wallTime").unwrap();
        add("wallTime", wall.into());
        if let Some(full) = full {
            add("fullDocument", full.clone().into());
        }
        add("ns", rawdoc! { "coll": "c" }.into());
        add("documentKey", rawdoc! { "_id": 1 }.into());
        if let Some(description) = description {
            add("updateDescription", description.clone().into());
        }
        assert_eq!(*event, shape);
        let age = bson::DateTime::now().timestamp_millis() - wall.timestamp_millis();
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

/// A document, an update of it with its array filters, and what is to be told: `updatedFields`, `removedFields`.
type Case = (
    RawDocumentBuf,
    RawDocumentBuf,
    Vec<RawDocumentBuf>,
    RawDocumentBuf,
    Vec<&'static str>,
);

/// Each line is what a MongoDB 6.0 tells.
#[test]
fn updates_are_described_as_on_mongodb() {
    let two = || rawdoc! { "a": [{ "b": 1 }, { "b": 2 }] };
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
            two(),
            rawdoc! { "$set": { "a.$[].b": 5 } },
            vec![],
            rawdoc! { "a": [{ "b": 5 }, { "b": 5 }] },
            vec![],
        ),
        (
            two(),
            rawdoc! { "$set": { "a.$[].b": 2 } },
            vec![],
            rawdoc! { "a.0": { "b": 2 } },
            vec![],
        ),
        (
            two(),
            rawdoc! { "$inc": { "a.$[x].b": 5 } },
            vec![rawdoc! { "x.b": 2 }],
            rawdoc! { "a.1.b": 7 },
            vec![],
        ),
        (
            two(),
            rawdoc! { "$set": { "a.$[x].c": 5, "a.$[y].c": 6 } },
            vec![rawdoc! { "x.b": 1 }, rawdoc! { "y.b": 2 }],
            rawdoc! { "a": [{ "b": 1, "c": 5 }, { "b": 2, "c": 6 }] },
            vec![],
        ),
        (
            two(),
            rawdoc! { "$set": { "a.$[x].c": 5, "a.$[y].d": 6 } },
            vec![rawdoc! { "x.b": 1 }, rawdoc! { "y.b": 1 }],
            rawdoc! { "a.0.c": 5, "a.0.d": 6 },
            vec![],
        ),
        (
            two(),
            rawdoc! { "$unset": { "a.$[x].b": 1 } },
            vec![rawdoc! { "x.b": 2 }],
            rawdoc! {},
            vec!["a.1.b"],
        ),
        (
            two(),
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
        database.insert("c", vec![stored]).unwrap().all().unwrap();
        let command = Update {
            array_filters,
            ..update(rawdoc! { "_id": id }, operators.clone())
        };
        assert_eq!(database.update("c", &command).unwrap().modified, 1);
        let events = rest(&mut changes);
        assert_eq!(told(&events), [("insert", id), ("update", id)]);
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
    let long_ago = bson::DateTime::from_millis(0);
    let upsert = Update {
        upsert: true,
        ..update(rawdoc! { "_id": 1 }, rawdoc! { "$set": { "at": long_ago } })
    };
    assert!(database.update("c", &upsert).unwrap().upserted_id.is_some());
    assert_eq!(database.delete_expired().unwrap(), 1);
    let events = rest(&mut changes);
    assert_eq!(told(&events), [("insert", 1), ("delete", 1)]);
    let full = events[0].get_document("fullDocument").unwrap();
    assert_eq!(full, &*rawdoc! { "_id": 1, "at": long_ago });
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
    // There is nothing to wait for.
    assert_eq!(changes.next(Duration::MAX).unwrap(), None);
    let watch = Watch {
        from: WatchFrom::After(changes.resume_token()),
        ..watching("c")
    };
    assert_eq!(
        told(&rest(&mut database.watch(&watch).unwrap())),
        [("insert", 2)]
    );
}

#[test]
fn what_changes_nothing_is_no_event_and_what_counts_as_modified_is() {
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
    // Without the `_id` it only becomes the same.
    let same = update(rawdoc! { "_id": 1 }, rawdoc! {});
    assert_eq!(database.update("c", &same).unwrap().modified, 1);
    assert_eq!(told(&rest(&mut changes)), [("insert", 1), ("replace", 1)]);
}

#[test]
fn a_pipeline_is_told_by_what_it_changes() {
    let database = Database::memory();
    database
        .insert(
            "c",
            vec![rawdoc! { "_id": 1, "a": 1, "b": { "c": [1, 2] }, "text": "x".repeat(50) }],
        )
        .unwrap()
        .all()
        .unwrap();
    let mut changes = database.watch(&Watch::default()).unwrap();
    let by = |stage: RawDocumentBuf| {
        let update = Update {
            pipeline: Some(vec![stage]),
            ..update(rawdoc! {}, rawdoc! {})
        };
        assert_eq!(database.update("c", &update).unwrap().modified, 1);
    };
    by(rawdoc! { "$set": { "a": 2, "b.c": [1, 3, 4] } });
    by(rawdoc! { "$unset": "b" });
    by(rawdoc! { "$replaceWith": { "_id": "$_id", "other": 1 } });
    let events = rest(&mut changes);
    assert_eq!(
        told(&events),
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
fn a_transaction_is_told_as_a_whole_when_it_commits() {
    let database = Database::memory();
    let mut changes = database.watch(&Watch::default()).unwrap();
    let (kept, dropped) = (database.begin().unwrap(), database.begin().unwrap());
    let documents = vec![rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }];
    kept.insert("a", documents).unwrap().all().unwrap();
    let all = Update {
        multi: true,
        ..update(rawdoc! {}, rawdoc! { "$set": { "a": 1 } })
    };
    assert_eq!(kept.update("a", &all).unwrap().modified, 2);
    dropped
        .insert("b", vec![rawdoc! { "_id": 9 }])
        .unwrap()
        .all()
        .unwrap();
    insert(&database, [3]);
    kept.delete("a", &Delete::default()).unwrap();
    assert_eq!(told(&rest(&mut changes)), [("insert", 3)]);
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
    assert_eq!(told(&events), expected);
    assert!(events.iter().all(|event| time(event) == time(&events[0])));
}

#[test]
fn failed_writes_are_not_told_and_half_done_ones_by_half() {
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
    assert_eq!(told(&rest(&mut changes)), [("insert", 1)]);
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
    assert_eq!(told(&rest(&mut deletes)), [("delete", 1)]);
    assert_eq!(told(&rest(&mut of_two)), [("insert", 2), ("update", 2)]);
    assert_eq!(told(&rest(&mut looked_up)), [("update", 2)]);
    assert_eq!(told(&rest(&mut elsewhere)), []);
    // What it has passed over is behind it.
    assert_eq!(elsewhere.resume_token(), deletes.resume_token());

    let wrong = Watch {
        filter: rawdoc! { "a": { "$foo": 1 } },
        ..Watch::default()
    };
    assert!(database.watch(&wrong).unwrap_err().is_unknown_operator());
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
    let (now, gone) = (RawBson::from(rawdoc! { "_id": 1, "a": 2 }), RawBson::Null);
    let expected = [
        Some(now.clone()),
        Some(gone.clone()),
        Some(now),
        Some(gone),
        None,
    ];
    assert_eq!(full, expected);
}

#[test]
fn a_token_leads_on_exactly_behind_its_event_in_another_process_too() {
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
    let resumed = |token: &RawDocumentBuf| {
        let watch = Watch {
            from: WatchFrom::After(token.clone()),
            ..watching("c")
        };
        let events = rest(&mut database.watch(&watch).unwrap());
        told(&events).iter().map(|(_, id)| *id).collect::<Vec<_>>()
    };
    assert_eq!(resumed(&start), [1, 2, 3, 4]);
    assert_eq!(resumed(&second), [3, 4]);
    assert_eq!(resumed(&end), [4]);
    let mut now = database.watch(&Watch::default()).unwrap();
    assert_eq!(resumed(&now.resume_token()), Vec::<i32>::new());
    insert(&database, [5]);
    assert_eq!(told(&rest(&mut now)), [("insert", 5)]);
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
    let later = Timestamp {
        time: u32::MAX,
        increment: 1,
    };
    assert_eq!(from(later).unwrap(), []);
    let error = from(Timestamp {
        time: 1,
        increment: 1,
    })
    .unwrap_err();
    assert_eq!((error.is_history_lost(), error.code()), (true, Some(286)));
}

#[test]
fn places_that_are_none_of_this_log_are_refused() {
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
    // Refused tokens switch no log on.
    assert_eq!(database.change_log(), None);

    let token = database.watch(&Watch::default()).unwrap().resume_token();
    let error = from(&other, token.clone()).unwrap_err();
    assert_eq!((error.is_history_lost(), error.code()), (true, Some(280)));
    assert!(from(&database, token).is_ok());
}

#[test]
fn what_a_restored_backup_has_not_seen_is_refused() {
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
    let ahead = {
        let database = Database::open(&path).unwrap();
        let mut changes = database.watch(&Watch::default()).unwrap();
        insert(&database, [2]);
        rest(&mut changes).remove(0)
    };
    // The times of events have no smaller difference within a second than their order.
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
    assert_eq!(from(&ahead).unwrap_err().code(), Some(280));
    insert(&database, [3]);
    assert_eq!(from(&ahead).unwrap_err().code(), Some(280));
    assert_eq!(told(&from(&kept).unwrap()), [("insert", 3)]);
}

#[test]
fn the_log_is_switched_on_by_the_first_watcher_and_stays_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    let database = Database::open(&path).unwrap();
    insert(&database, [1]);
    assert_eq!(database.change_log(), None);
    let mut changes = database.watch(&Watch::default()).unwrap();
    assert_eq!(database.change_log(), Some(ChangeLog::default()));
    assert_eq!(rest(&mut changes), []);
    let start = changes.resume_token();
    drop((changes, database));

    let database = Database::open(&path).unwrap();
    assert_eq!(database.change_log(), Some(ChangeLog::default()));
    let small = ChangeLog {
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
        told(&rest(&mut database.watch(&watch).unwrap())),
        [("insert", 2)]
    );
}

#[test]
fn switching_off_ends_what_watches_and_forgets() {
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
    let mut later = database.watch(&Watch::default()).unwrap();
    insert(&database, [2]);
    assert_eq!(told(&rest(&mut later)), [("insert", 2)]);
    // What happened in between is not known, though the numbers would fit.
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
        report.all().unwrap();
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
    assert_eq!(told(&rest(&mut changes)), [("insert", 1)]);
}

#[test]
fn the_log_keeps_what_it_is_told_and_says_what_it_has_lost() {
    let database = Database::memory();
    let small = ChangeLog {
        max_bytes: 10_000,
        max_age: None,
    };
    database.set_change_log(Some(small)).unwrap();
    let mut slow = database.watch(&Watch::default()).unwrap();
    let mut quick = database.watch(&Watch::default()).unwrap();
    for id in 0..1_000 {
        insert(&database, [id]);
        assert_eq!(told(&rest(&mut quick)), [("insert", id)]);
    }
    let error = slow.try_next().unwrap_err();
    assert_eq!((error.is_history_lost(), error.code()), (true, Some(286)));
    assert!(error.message().contains("set_change_log"), "{error}");

    // The oldest place that can be resumed at is about as far back as there is room.
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
fn the_log_forgets_what_is_too_old_but_for_the_last() {
    let database = Database::memory();
    let short = ChangeLog {
        max_age: Some(Duration::from_millis(30)),
        ..ChangeLog::default()
    };
    database.set_change_log(Some(short)).unwrap();
    let mut changes = database.watch(&Watch::default()).unwrap();
    insert(&database, [1, 2, 3]);
    thread::sleep(Duration::from_millis(60));
    let mut still = database.watch(&Watch::default()).unwrap();
    insert(&database, [4]);
    assert!(changes.try_next().unwrap_err().is_history_lost());
    assert_eq!(told(&rest(&mut still)), [("insert", 4)]);
    let token = still.resume_token();
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
    let began = Instant::now();
    assert_eq!(changes.next(Duration::from_millis(50)).unwrap(), None);
    assert!(began.elapsed() >= Duration::from_millis(50));
    assert_eq!(changes.next(Duration::ZERO).unwrap(), None);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(50));
            let other = vec![rawdoc! { "_id": 0 }];
            database.insert("other", other).unwrap().all().unwrap();
            insert(&database, [1]);
        });
        let event = changes.next(Duration::MAX).unwrap().unwrap();
        assert_eq!(told(&[event]), [("insert", 1)]);
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
    // Each writer's inserts come in their order.
    for writer in 0..4 {
        let ids = told(&seen[0]).into_iter().map(|(_, id)| id);
        let own: Vec<_> = ids.filter(|id| id / 100 == writer).collect();
        assert_eq!(own, (0..25).map(|n| writer * 100 + n).collect::<Vec<_>>());
    }
}
