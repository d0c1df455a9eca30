//! Copies of whole databases: the fixture is the source, and each kind of database is a target.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bson::{
    Binary, Bson, DateTime, Decimal128, Document, RawDocumentBuf, Regex, Timestamp, doc,
    oid::ObjectId, rawdoc, spec::BinarySubtype,
};
use odm::{
    ErrorKind, Result,
    backend::{
        Backend, Fault, Faults,
        operation::{
            CollectionDefinition, DeleteOperation, Direction, DocumentChange, FindOperation, Index,
            InsertOperation, Operation, UpdateOperation,
        },
        read_to_end,
    },
    transfer::{CopyDatabase, CopyProgress, CopyStage, insert_verbatim},
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::sync::{Notify, oneshot};

use crate::Fixture;

type Database = Arc<dyn Backend>;

/// Opens an empty database of each kind.
async fn targets() -> Vec<Fixture> {
    vec![
        Fixture::engine_memory().await,
        Fixture::engine_disk().await,
        #[cfg(feature = "mongodb")]
        Fixture::mongodb_standalone().await,
        #[cfg(feature = "mongodb")]
        Fixture::mongodb_replica_set().await,
    ]
}

/// Begins a copy of a source that nobody writes. A change stream is part of the copy if the source has change streams.
fn copy<'a>(from: &'a Database, to: &'a Database) -> CopyDatabase<'a> {
    match from.capabilities().change_streams {
        true => odm::copy(from, to),
        false => odm::copy(from, to).quiescent(),
    }
}

fn raw(document: Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(&document).unwrap()
}

async fn insert(db: &Database, collection: &str, documents: Vec<RawDocumentBuf>) -> Result<()> {
    db.insert(InsertOperation {
        collection: collection.to_owned().into(),
        documents,
        ordered: true,
        origin: Default::default(),
    })
    .await
}

/// Returns the stored bytes of all documents, in the order of the ids.
async fn content(db: &Database, collection: &str) -> Vec<RawDocumentBuf> {
    let find = FindOperation {
        collection: collection.to_owned().into(),
        filter: RawDocumentBuf::new(),
        projection: None,
        sort: Some(rawdoc! { "_id": 1 }),
        limit: None,
        options: Default::default(),
    };
    read_to_end(db.find(find).await.unwrap()).await.unwrap()
}

/// Asserts that both databases have the same collections, documents and indexes, and no records of a copy.
async fn assert_equal(from: &Database, to: &Database) {
    let (expected, actual) = (definitions(from).await, definitions(to).await);
    assert_eq!(expected, actual);
    for definition in expected {
        let name = &definition.name;
        let (expected, actual) = (content(from, name).await, content(to, name).await);
        assert_eq!(expected.len(), actual.len(), "{name}");
        for (expected, actual) in expected.iter().zip(&actual) {
            assert!(expected == actual, "{name}: {expected:?} is not {actual:?}");
        }
    }
}

/// Returns the definitions without the version, which the engine does not list.
async fn definitions(db: &Database) -> Vec<CollectionDefinition> {
    let mut definitions = db.list_definitions().await.unwrap();
    for definition in &mut definitions {
        for index in &mut definition.indexes {
            let mut fields = Document::try_from(&**index).unwrap();
            fields.remove("v");
            // The order of the options has no meaning.
            let mut fields: Vec<_> = fields.into_iter().collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            *index = raw(fields.into_iter().collect());
        }
        definition
            .indexes
            .sort_by_key(|index| index.get_str("name").unwrap().to_owned());
    }
    definitions
}

/// Returns a value of each type of BSON.
fn values() -> Vec<Bson> {
    let binary = |subtype, bytes| Bson::Binary(Binary { subtype, bytes });
    vec![
        Bson::Double(-0.0),
        Bson::Double(f64::NAN),
        Bson::Double(f64::NEG_INFINITY),
        "text with \0 and ü".into(),
        Bson::Document(doc! { "b": 1, "a": { "$set": 1, "x.y": 2 } }),
        Bson::Array(vec![1.into(), Bson::Array(Vec::new()), Bson::Null]),
        binary(BinarySubtype::Generic, vec![0, 255]),
        binary(BinarySubtype::Uuid, vec![7; 16]),
        binary(BinarySubtype::UuidOld, vec![8; 16]),
        binary(BinarySubtype::UserDefined(200), Vec::new()),
        Bson::Undefined,
        Bson::ObjectId(ObjectId::from_bytes([9; 12])),
        Bson::Boolean(false),
        Bson::DateTime(DateTime::from_millis(-1)),
        Bson::DateTime(DateTime::from_millis(i64::MAX)),
        Bson::Null,
        Bson::RegularExpression(Regex {
            pattern: "^a".try_into().unwrap(),
            options: "im".try_into().unwrap(),
        }),
        Bson::JavaScriptCode("function() {}".into()),
        Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope {
            code: "f()".into(),
            scope: doc! { "f": 1 },
        }),
        Bson::Symbol("symbol".into()),
        Bson::Int32(i32::MIN),
        Bson::Timestamp(Timestamp {
            time: 0,
            increment: 0,
        }),
        Bson::Timestamp(Timestamp {
            time: u32::MAX,
            increment: 5,
        }),
        Bson::Int64(i64::MAX),
        Bson::Decimal128("1.00".parse::<Decimal128>().unwrap()),
        Bson::Decimal128("NaN".parse::<Decimal128>().unwrap()),
        Bson::MinKey,
        Bson::MaxKey,
    ]
}

/// Returns ids of all types that sort and can be compared, in no particular order. Numbers of different types are neighbours.
fn ids() -> Vec<Bson> {
    let mut ids: Vec<Bson> = vec![
        Bson::MaxKey,
        Bson::MinKey,
        Bson::Null,
        Bson::Double(f64::NAN),
        Bson::Double(f64::INFINITY),
        Bson::Double(f64::NEG_INFINITY),
        Bson::Int32(3),
        Bson::Double(3.5),
        Bson::Int64(4),
        Bson::Decimal128("4.25".parse().unwrap()),
        Bson::Int64(i64::MAX),
        Bson::Double(9.3e18),
        "".into(),
        "a".into(),
        "ä".into(),
        Bson::Symbol("b".into()),
        Bson::Document(doc! {}),
        Bson::Document(doc! { "a": 1, "b": 2 }),
        Bson::Document(doc! { "b": 2, "a": 1 }),
        Bson::Boolean(true),
        Bson::Boolean(false),
        Bson::ObjectId(ObjectId::from_bytes([0; 12])),
        Bson::ObjectId(ObjectId::from_bytes([255; 12])),
        Bson::DateTime(DateTime::from_millis(i64::MIN)),
        Bson::DateTime(DateTime::from_millis(5)),
        Bson::Timestamp(Timestamp {
            time: 0,
            increment: 1,
        }),
    ];
    let subtypes = [BinarySubtype::Generic, BinarySubtype::Uuid];
    for (subtype, length) in subtypes.into_iter().flat_map(|t| [(t, 16), (t, 0)]) {
        let bytes = vec![1; length];
        ids.push(Bson::Binary(Binary { subtype, bytes }));
    }
    ids
}

pub async fn every_type_is_copied_byte_for_byte(db: Fixture) {
    let from = db.backend();
    let documents = values().into_iter().enumerate().map(|(position, value)| {
        let nested = Bson::Document(doc! { "v": [value.clone(), { "v": value.clone() }] });
        let fields = [
            ("_id", Bson::from(position as i32)),
            ("v", value),
            ("nested", nested),
        ];
        raw(fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect())
    });
    let mut documents: Vec<_> = documents.collect();
    // The application may have stored fields that look like operators.
    documents.push(raw(doc! { "_id": -1, "$set": 1, "a.b": { "$gt": 1 } }));
    documents.push(raw(
        doc! { "_id": -2, "at": Timestamp { time: 0, increment: 0 }, "$set": "$a" },
    ));
    insert(&from, "things", documents).await.unwrap();
    let counter = raw(doc! { "_id": { "collection": "things", "prefix": "" }, "last": 5_i64 });
    insert(&from, "_odm.sequences", vec![counter])
        .await
        .unwrap();
    from.create_collection("empty").await.unwrap();
    let ascending = |path: &str| Index::new(vec![(path.to_owned(), Direction::Ascending)]);
    let mut unique = ascending("a");
    unique.unique = true;
    unique.partial = Some(rawdoc! { "a": { "$exists": true } });
    let mut expiring = ascending("b");
    expiring.expire_after = Some(Duration::from_secs(60));
    let mut sparse = Index::new(vec![
        ("c".into(), Direction::Descending),
        ("d".into(), Direction::Ascending),
    ]);
    sparse.sparse = true;
    let indexes = vec![unique, expiring, sparse, ascending("e").hashed("e")];
    from.create_indexes("things", indexes).await.unwrap();
    for target in targets().await {
        let to = target.backend();
        let report = copy(&from, &to).await.unwrap();
        assert_eq!(report.collections.len(), 3);
        assert_eq!(report.collections[2].name, "things");
        assert_eq!(report.collections[2].documents, values().len() as u64 + 2);
        assert_eq!(report.collections[2].indexes, 4);
        assert_equal(&from, &to).await;
        // The way back.
        let back = Fixture::engine_memory().await.backend();
        copy(&to, &back).await.unwrap();
        assert_equal(&from, &back).await;
        target.cleanup().await;
    }
}

/// Each id is the position of a copy that was killed.
pub async fn ids_of_all_types_continue_after_each_id(db: Fixture) {
    let from = db.backend();
    let documents = ids().into_iter().map(|id| raw(doc! { "_id": id, "a": 1 }));
    insert(&from, "things", documents.collect()).await.unwrap();
    let sorted = content(&from, "things").await;
    for target in targets().await {
        let to = target.backend();
        for document in &sorted {
            // Die with the record of this position.
            let (position, sequence) = (document.get("_id").unwrap().unwrap(), ids().len());
            let state = raw(doc! {
                "_id": "copy", "copy": ObjectId::new(), "owner": ObjectId::new(), "pass": "copy",
                "position": { "collection": "things", "document": { "_id": Bson::try_from(position).unwrap() } }, "token": null,
            });
            insert(&to, "_odm.transfers", vec![state]).await.unwrap();
            let before = sorted
                .iter()
                .take_while(|before| *before != document)
                .count();
            insert(&to, "things", sorted[..=before].to_vec())
                .await
                .unwrap();
            let mut copied = Vec::new();
            let copy = odm::copy(&from, &to).quiescent().on_progress(|progress| {
                if progress.stage == CopyStage::Copy {
                    copied.push(progress.documents);
                }
            });
            copy.await.unwrap();
            assert_equal(&from, &to).await;
            // The copy has read the later documents only.
            let rest = (sequence - before - 1) as u64;
            assert_eq!(copied.last(), Some(&rest), "after {position:?}");
            to.drop_collection("things").await.unwrap();
        }
        target.cleanup().await;
    }
}

pub async fn documents_of_16_mb_are_copied(db: Fixture) {
    let from = db.backend();
    let mut document = rawdoc! { "_id": 0, "text": "" };
    let room = 16 * 1024 * 1024 - document.as_bytes().len();
    for id in 0..3 {
        document = rawdoc! { "_id": id, "text": "x".repeat(room) };
        insert(&from, "large", vec![document]).await.unwrap();
    }
    for target in targets().await {
        let to = target.backend();
        copy(&from, &to).await.unwrap();
        assert_equal(&from, &to).await;
        target.cleanup().await;
    }
}

pub async fn a_target_with_collections_is_refused(db: Fixture) {
    let from = db.backend();
    insert(&from, "things", vec![rawdoc! { "_id": 1 }])
        .await
        .unwrap();
    for target in targets().await {
        let to = target.backend();
        insert(&to, "others", vec![rawdoc! { "_id": 2 }])
            .await
            .unwrap();
        for copy in [copy(&from, &to), copy(&from, &to).restart()] {
            let error = copy.await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TargetNotEmpty);
            assert_eq!(error.collection(), Some("others"));
        }
        assert_eq!(to.list_collections().await.unwrap(), ["others"]);
        assert_eq!(from.list_collections().await.unwrap(), ["things"]);
        target.cleanup().await;
    }
}

pub async fn the_plan_writes_nothing(db: Fixture) {
    let from = db.backend();
    insert(&from, "things", vec![rawdoc! { "_id": 1 }])
        .await
        .unwrap();
    let to = Fixture::engine_memory().await.backend();
    let plan = copy(&from, &to).plan().await.unwrap();
    assert_eq!(plan.to_string(), "things: 1 documents, 0 indexes");
    assert!(to.list_collections().await.unwrap().is_empty());
    assert_eq!(from.list_collections().await.unwrap(), ["things"]);
    insert(&to, "things", vec![rawdoc! { "_id": 1 }])
        .await
        .unwrap();
    let error = copy(&from, &to).plan().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TargetNotEmpty);
}

/// Runs a copy until the first report of a stage. The next operation of the target hangs, and the copy is dropped.
async fn copy_until(from: &Database, to: &Database, stage: CopyStage) {
    copy_while(from, to, |progress| progress.stage != stage).await;
}

/// Runs a copy while the reports fulfil a condition. The next operation of the target hangs, and the copy is dropped.
async fn copy_while(
    from: &Database,
    to: &Database,
    condition: impl Fn(&CopyProgress) -> bool + Send + Sync,
) {
    let faults = Faults::new(to.clone());
    let hanging: Database = Arc::new(faults.clone());
    let (is_reached, reached) = (AtomicBool::new(false), faults.clone());
    let copy = copy(from, &hanging).on_progress(|progress| {
        if !condition(progress) && !is_reached.swap(true, Ordering::Relaxed) {
            faults.inject(1, |_| true, Fault::HangBefore);
        }
    });
    let hangs = async {
        while !is_reached.load(Ordering::Relaxed) || reached.pending() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        () = hangs => {}
        done = copy.into_future() => panic!("the copy ended: {done:?}"),
    }
}

pub async fn unfinished_copies_know_their_source(db: Fixture) {
    let from = db.backend();
    insert(&from, "things", vec![rawdoc! { "_id": 1 }])
        .await
        .unwrap();
    let to = Fixture::engine_memory().await.backend();
    copy_until(&from, &to, CopyStage::Verify).await;
    let other = Fixture::engine_memory().await.backend();
    insert(&other, "things", vec![rawdoc! { "_id": 2 }])
        .await
        .unwrap();
    if from.capabilities().change_streams {
        let error = odm::copy(&other, &to).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TargetNotEmpty);
        assert!(error.to_string().contains("restart"), "{error}");
    }
    // Without a mark in the source, the comparison of the documents finds the difference.
    let error = odm::copy(&other, &to).quiescent().await;
    if !from.capabilities().change_streams {
        assert_eq!(error.unwrap_err().kind(), ErrorKind::CopyDiffers);
        odm::copy(&other, &to).restart().await.unwrap();
        assert_equal(&other, &to).await;
    }
}

/// The first attempt copies `first`, and the source drops `first` before the second attempt.
pub async fn a_collection_dropped_between_two_attempts_is_dropped_in_the_copy(db: Fixture) {
    let from = db.backend();
    for target in targets().await {
        let to = target.backend();
        for collection in ["first", "second"] {
            insert(&from, collection, vec![rawdoc! { "_id": 1 }])
                .await
                .unwrap();
        }
        copy_while(&from, &to, |progress| progress.collection != "second").await;
        assert_eq!(content(&to, "first").await.len(), 1);
        from.drop_collection("first").await.unwrap();
        copy(&from, &to).await.unwrap();
        assert_equal(&from, &to).await;
        from.drop_collection("second").await.unwrap();
        target.cleanup().await;
    }
}

/// The first attempt creates an index, and the source then has an index with the same name and a different key.
pub async fn an_index_changed_between_two_attempts_is_created_again(db: Fixture) {
    let from = db.backend();
    if !from.capabilities().change_streams {
        // The second attempt of a quiescent copy expects an unchanged source.
        return;
    }
    let index = |path: &str| {
        let mut index = Index::new(vec![(path.to_owned(), Direction::Ascending)]);
        index.name = "by".into();
        vec![index]
    };
    insert(&from, "things", vec![rawdoc! { "_id": 1, "a": 1, "b": 2 }])
        .await
        .unwrap();
    for target in targets().await {
        let to = target.backend();
        from.create_indexes("things", index("a")).await.unwrap();
        copy_until(&from, &to, CopyStage::Finish).await;
        assert_eq!(definitions(&to).await[1].indexes.len(), 1);
        from.drop_index("things", "by").await.unwrap();
        from.create_indexes("things", index("b")).await.unwrap();
        copy(&from, &to).await.unwrap();
        assert_equal(&from, &to).await;
        from.drop_index("things", "by").await.unwrap();
        target.cleanup().await;
    }
}

pub async fn a_restart_discards_a_state_that_cannot_be_read(db: Fixture) {
    let from = db.backend();
    insert(&from, "things", vec![rawdoc! { "_id": 1 }])
        .await
        .unwrap();
    let to = Fixture::engine_memory().await.backend();
    let state = rawdoc! { "_id": "copy", "copy": ObjectId::new(), "pass": "of a later version" };
    insert(&to, "_odm.transfers", vec![state]).await.unwrap();
    let error = copy(&from, &to).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    assert!(error.to_string().contains("`restart`"), "{error}");
    copy(&from, &to).restart().await.unwrap();
    assert_equal(&from, &to).await;
}

/// MongoDB would replace the timestamp 0 in a plain insert.
pub async fn a_verbatim_insert_keeps_an_existing_document(db: Fixture) {
    let db = db.backend();
    let empty = Timestamp {
        time: 0,
        increment: 0,
    };
    let document = |n: i32| raw(doc! { "_id": 1, "at": empty, "n": n });
    insert_verbatim(&db, "things", vec![document(1)])
        .await
        .unwrap();
    let documents = vec![document(2), rawdoc! { "_id": 2 }];
    let error = insert_verbatim(&db, "things", documents).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateKey);
    assert_eq!(error.id(), Some(&Bson::Int32(1)));
    assert_eq!(
        content(&db, "things").await,
        [document(1), rawdoc! { "_id": 2 }]
    );
}

pub async fn a_wrong_target_is_found(db: Fixture) {
    let from = db.backend();
    let documents = (0..2_500).map(|id| rawdoc! { "_id": id, "n": 1 });
    insert(&from, "things", documents.collect()).await.unwrap();
    for target in targets().await {
        for id in [700, 9_999, 1_234] {
            let to = target.backend();
            copy_until(&from, &to, CopyStage::Verify).await;
            match id {
                1_234 => drop(to.delete(delete("things", id)).await.unwrap()),
                _ => {
                    let change = update("things", id, rawdoc! { "$set": { "n": 1_i64 } });
                    to.update(change).await.unwrap();
                }
            }
            let error = copy(&from, &to).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CopyDiffers, "{error}");
            assert_eq!(error.id(), Some(&Bson::Int32(id)));
            copy(&from, &to).restart().await.unwrap();
            assert_equal(&from, &to).await;
            to.drop_collection("things").await.unwrap();
        }
        target.cleanup().await;
    }
}

pub async fn a_second_process_ends_the_first(db: Fixture) {
    let from = db.backend();
    insert_many(&from, "things", 2_500).await;
    let to = Fixture::engine_memory().await.backend();
    let faults = Faults::new(to.clone());
    let state = |operation: &Operation| matches!(operation, Operation::Update(update) if update.collection == "_odm.transfers");
    // Longer than the second copy.
    faults.inject(2, state, Fault::Delay(Duration::from_secs(20)));
    let slow: Database = Arc::new(faults.clone());
    let (first, second) = tokio::join!(copy(&from, &slow).into_future(), async {
        while faults.pending() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        copy(&from, &to).await
    });
    second.unwrap();
    assert_eq!(first.unwrap_err().kind(), ErrorKind::Conflict);
    assert_equal(&from, &to).await;
}

/// Writes random documents until the flag is set. Returns the number of writes.
async fn write_randomly(db: Database, ends: Arc<AtomicBool>, seed: u64) -> usize {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut writes = 0;
    while !ends.load(Ordering::Relaxed) {
        let id: i32 = random.random_range(0..4_000);
        // The number type of an id can change by a delete and an insert.
        let id = match random.random_range(0..3) {
            0 => Bson::Int32(id),
            1 => Bson::Int64(id.into()),
            _ => Bson::Double(id.into()),
        };
        let collection = ["things", "others"][random.random_range(0..2)];
        match random.random_range(0..3) {
            0 => drop(db.delete(delete(collection, id)).await.unwrap()),
            1 => {
                let change = rawdoc! { "$inc": { "n": 1 } };
                db.update(update(collection, id, change)).await.unwrap();
            }
            _ => {
                db.delete(delete(collection, id.clone())).await.unwrap();
                let text = "x".repeat(random.random_range(0..2_000));
                let document = raw(doc! { "_id": id, "text": text, "n": 0 });
                match insert(&db, collection, vec![document]).await {
                    Err(error) if error.is_duplicate_key() => {}
                    inserted => inserted.unwrap(),
                }
            }
        }
        writes += 1;
        // A copy is slower than endless writes into memory.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    writes
}

/// Returns an upsert of one document.
fn update(
    collection: &'static str,
    id: impl Into<Bson>,
    change: RawDocumentBuf,
) -> UpdateOperation {
    UpdateOperation {
        collection: collection.into(),
        filter: raw(doc! { "_id": id.into() }),
        change: DocumentChange::operators(change),
        multi: false,
        upsert: true,
        origin: Default::default(),
    }
}

fn delete(collection: &'static str, id: impl Into<Bson>) -> DeleteOperation {
    DeleteOperation {
        collection: collection.into(),
        filter: raw(doc! { "_id": id.into() }),
        multi: false,
        origin: Default::default(),
    }
}

async fn insert_many(db: &Database, collection: &str, count: i32) {
    let documents = (0..count).map(|id| rawdoc! { "_id": id, "n": id, "text": "abc" });
    insert(db, collection, documents.collect()).await.unwrap();
}

pub async fn the_copy_follows_a_writer(db: Fixture) {
    let from = db.backend();
    insert_many(&from, "things", 4_000).await;
    insert_many(&from, "others", 1_000).await;
    let mut unique = Index::new(vec![("u".into(), Direction::Ascending)]);
    unique.unique = true;
    unique.sparse = true;
    from.create_indexes("things", vec![unique]).await.unwrap();
    for target in targets().await {
        let to = target.backend();
        if !from.capabilities().change_streams {
            let error = odm::copy(&from, &to).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("`quiescent`"), "{error}");
            continue;
        }
        let ends = Arc::new(AtomicBool::new(false));
        let writers =
            [1, 2].map(|seed| tokio::spawn(write_randomly(from.clone(), ends.clone(), seed)));
        let (stopped, end) = oneshot::channel::<()>();
        let follows = Notify::new();
        let copy = odm::copy(&from, &to);
        let copy = copy
            .follow_until(async { drop(end.await) })
            .on_progress(|progress| {
                if progress.stage == CopyStage::Follow && progress.changes > 100 {
                    follows.notify_one();
                }
            });
        let stop = async {
            follows.notified().await;
            ends.store(true, Ordering::Relaxed);
            let mut writes = 0;
            for writer in writers {
                writes += writer.await.unwrap();
            }
            stopped.send(()).unwrap();
            writes
        };
        let (report, writes) = tokio::join!(copy.into_future(), stop);
        assert!(writes > 100 && report.unwrap().changes > 100);
        assert_equal(&from, &to).await;
        target.cleanup().await;
    }
}

/// Money moves between accounts in transactions. A copy while the money moves has the sum of one moment.
pub async fn a_copy_in_the_middle_of_transfers_is_consistent(db: Fixture) {
    const ACCOUNTS: i32 = 3_000;
    let from = db.backend();
    if !from.capabilities().change_streams {
        return;
    }
    let accounts = (0..ACCOUNTS).map(|id| rawdoc! { "_id": id, "money": 100 });
    insert(&from, "accounts", accounts.collect()).await.unwrap();
    for target in targets().await {
        let to = target.backend();
        let (ends, moved) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let writer = tokio::spawn({
            let (from, ends, moved) = (from.clone(), ends.clone(), moved.clone());
            async move {
                let mut random = ChaCha8Rng::seed_from_u64(7);
                while !ends.load(Ordering::Relaxed) {
                    let transaction = from.begin().await.unwrap();
                    for money in [-1, 1] {
                        let id = random.random_range(0..ACCOUNTS);
                        let payment =
                            update("accounts", id, rawdoc! { "$inc": { "money": money } });
                        transaction.update(payment).await.unwrap();
                    }
                    match transaction.commit().await {
                        // The start of the change stream.
                        Err(error) if error.is_conflict() => {}
                        committed => committed.unwrap(),
                    }
                    moved.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        });
        let many_transfers = async {
            while moved.load(Ordering::Relaxed) < 100 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let copy = odm::copy(&from, &to).follow_until(many_transfers);
        copy.await.unwrap();
        ends.store(true, Ordering::Relaxed);
        writer.await.unwrap();
        let copied = content(&to, "accounts").await;
        let money = copied
            .iter()
            .map(|account| account.get_i32("money").unwrap());
        assert_eq!(copied.len(), ACCOUNTS as usize);
        assert_eq!(money.sum::<i32>(), ACCOUNTS * 100);
        target.cleanup().await;
    }
}

pub async fn a_dropped_collection_is_dropped_in_the_copy(db: Fixture) {
    let from = db.backend();
    if !from.capabilities().change_streams {
        return;
    }
    for target in targets().await {
        let to = target.backend();
        for name in ["dropped", "recreated", "things"] {
            insert_many(&from, name, 100).await;
        }
        let (dropped, end) = oneshot::channel::<()>();
        let follows = Notify::new();
        let copy = odm::copy(&from, &to).follow_until(async { drop(end.await) });
        let copy = copy.on_progress(|progress| {
            if progress.stage == CopyStage::Follow {
                follows.notify_one();
            }
        });
        let change = async {
            follows.notified().await;
            from.drop_collection("dropped").await.unwrap();
            from.drop_collection("recreated").await.unwrap();
            insert_many(&from, "recreated", 10).await;
            insert_many(&from, "new", 10).await;
            let index = Index::new(vec![("n".into(), Direction::Ascending)]);
            from.create_indexes("new", vec![index]).await.unwrap();
            dropped.send(()).unwrap();
        };
        let (report, ()) = tokio::join!(copy.into_future(), change);
        report.unwrap();
        assert_eq!(
            to.list_collections().await.unwrap(),
            ["new", "recreated", "things"]
        );
        assert_equal(&from, &to).await;
        for name in ["new", "recreated", "things"] {
            from.drop_collection(name).await.unwrap();
        }
        target.cleanup().await;
    }
}

/// Kills the copy at an operation of the target or of the source, changes the source, and copies again.
pub async fn a_killed_copy_continues(db: Fixture) {
    let from = db.backend();
    insert_many(&from, "others", 1_100).await;
    insert_many(&from, "things", 1_100).await;
    let mut unique = Index::new(vec![("n".into(), Direction::Ascending)]);
    unique.unique = true;
    from.create_indexes("things", vec![unique]).await.unwrap();
    for target in targets().await {
        // Each operation in memory, and a part of the operations elsewhere.
        let is_fast = target.url() == "memory:" && db.url() == "memory:";
        let step = if is_fast { 1 } else { 9 };
        let mut kills = 0;
        for side in ["from", "to"] {
            for nth in (1..).step_by(step) {
                let to = target.backend();
                let faults = Faults::new(if side == "from" {
                    from.clone()
                } else {
                    to.clone()
                });
                let fault = if nth % 2 == 0 {
                    Fault::HangBefore
                } else {
                    Fault::HangAfter
                };
                faults.inject(nth, |_| true, fault);
                let faulty: Database = Arc::new(faults.clone());
                let killed = match side {
                    "from" => run_until_fault(copy(&faulty, &to), &faults).await,
                    _ => run_until_fault(copy(&from, &faulty), &faults).await,
                };
                // The copy is complete when its record is gone.
                let names = to.list_collections().await.unwrap();
                let has_record = names.iter().any(|name| name == "_odm.transfers");
                if killed && (has_record || names.is_empty()) {
                    kills += 1;
                    if from.capabilities().change_streams {
                        change_documents(&from, nth as i32).await;
                    }
                    let copied = copy(&from, &to).await;
                    copied.unwrap_or_else(|error| panic!("{side} {nth}: {error}"));
                }
                assert_equal(&from, &to).await;
                for name in to.list_collections().await.unwrap() {
                    to.drop_collection(&name).await.unwrap();
                }
                if !killed {
                    break;
                }
            }
        }
        assert!(kills > if is_fast { 50 } else { 5 }, "{kills}");
        target.cleanup().await;
    }
}

/// Runs a copy until the planned fault, and drops the copy then. Returns whether the fault happened before the end of the copy.
async fn run_until_fault(copy: CopyDatabase<'_>, faults: &Faults) -> bool {
    let fault = async {
        while faults.pending() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // An operation that hangs after its effect needs some time for the effect. The effect may also come during the next copy.
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    tokio::select! {
        done = copy.into_future() => {
            done.unwrap();
            false
        }
        () = fault => true,
    }
}

/// Changes, deletes and inserts documents. Two documents exchange a unique value.
async fn change_documents(db: &Database, round: i32) {
    let stored = content(db, "things").await;
    let value = |id: i32| {
        let mut stored = stored.iter();
        let found =
            stored.find(|document| document.get_i32("_id").is_ok_and(|stored| stored == id));
        found.map_or(id, |document| document.get_i32("n").unwrap())
    };
    let (a, b, new) = (round % 50, 1_000 + round % 50, 10_000 + round);
    for (id, n) in [(a, -1), (b, value(a)), (a, value(b)), (new, new)] {
        let change = update("things", id, rawdoc! { "$set": { "n": n } });
        db.update(change).await.unwrap();
    }
    for id in [round, 1_099 - round] {
        db.delete(delete("others", id)).await.unwrap();
    }
}
