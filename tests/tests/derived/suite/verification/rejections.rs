//! Documents that reject follow-up writes. Pending work of different documents continues, and the reports of `pending`,
//! `wait_for_pending` and `check` name the rejecting documents.

use std::time::{Duration, SystemTime};

use odm::{
    Database, ErrorKind,
    backend::operation::{Direction, DocumentChange, Index, UpdateOperation},
    bson::{Bson, DateTime as BsonDateTime, RawDocumentBuf, oid::ObjectId, rawdoc},
    check::FindingKind,
    prelude::*,
};
use odm_tests::assert_clean;

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

/// A service; a unique index over the slot and the copy makes rejections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "services")]
struct Service {
    #[serde(rename = "_id")]
    id: i64,
    slot: i64,
    #[reference]
    host: Ref<Host>,
    #[denormalize(from = host.name)]
    at: String,
    padding: Option<String>,
}

/// A copy of the copy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "alerts")]
struct Alert {
    #[serde(rename = "_id")]
    id: i64,
    slot: i64,
    #[reference]
    service: Ref<Service>,
    #[denormalize(from = service.at)]
    at: String,
}

#[derive(Schema)]
#[schema(models(Host, Service, Alert))]
struct Net;
type Db = Database<Net>;

async fn insert_hosts_and_services(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    for collection in ["services", "alerts"] {
        create_unique_index(fixture, collection, ["slot", "at"]).await;
    }
    for (id, name) in [(1, "a"), (2, "b")] {
        let name = name.to_owned();
        db.insert(Host { id, name }).await.unwrap();
    }
    db
}

/// Creates a unique index over copies, which the derive refuses.
async fn create_unique_index(fixture: &Fixture, collection: &str, paths: [&str; 2]) {
    let keys = paths.map(|path| (path.to_owned(), Direction::Ascending));
    let mut index = Index::new(keys.to_vec());
    index.unique = true;
    let backend = fixture.backend();
    backend
        .create_indexes(collection, vec![index])
        .await
        .unwrap();
}

fn service(id: i64, slot: i64, host: i64) -> NewService {
    NewService {
        id,
        slot,
        host: Ref::new(host),
        padding: None,
    }
}

async fn copied_host_name(db: &Db, id: i64) -> String {
    db.get::<Service>(id).await.unwrap().at
}

/// A write that a dependent rejects undoes its transaction, and commits without the copy. `explain` cannot undo the first attempt
/// alone.
pub async fn a_rejected_write_is_not_explained(fixture: Fixture) {
    let db = insert_hosts_and_services(&fixture).await;
    db.insert(service(1, 1, 1)).await.unwrap();
    db.insert(service(2, 1, 2)).await.unwrap();
    db.wait_for_pending().await.unwrap();
    let rename = || db.update::<Host>(2).set(|h| h.name(), "a");
    let error = rename().explain().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(db.get::<Host>(2).await.unwrap().name, "b");
    assert!(db.pending().await.unwrap().is_empty());
    assert_clean(&db).await;
}

/// Asserts the reports of `wait_for_pending`, `pending`, `check`, `repair` and `run_pending` while one document rejects a write.
async fn assert_blocked_by<S: Schema>(db: &Database<S>, blocked: (&str, i64), by: (&str, i64)) {
    let error = db.wait_for_pending().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StillPending, "{error}");
    let named = format!("{} {}", by.0, by.1);
    assert!(error.to_string().contains(&named), "{error}");
    let pending = db.pending().await.unwrap();
    assert!(pending.to_string().contains(&named), "{pending}");
    let [model] = pending.models.as_slice() else {
        panic!("{pending}");
    };
    assert_eq!(model.blocked, 1, "{pending}");
    let rejections = model.rejections.iter();
    let rejections: Vec<_> = rejections
        .map(|rejection| (rejection.collection.as_str(), rejection.id.clone()))
        .collect();
    assert_eq!(rejections, [(by.0, Bson::Int64(by.1))]);
    let report = db.check().await.unwrap();
    let [finding] = report.findings.as_slice() else {
        panic!("{report}");
    };
    assert_eq!(
        (finding.collection, &finding.id),
        (blocked.0, &blocked.1.into())
    );
    let FindingKind::Blocked {
        by: collection,
        id,
        reason,
    } = &finding.kind
    else {
        panic!("{report}");
    };
    assert_eq!((collection.as_str(), id), (by.0, &by.1.into()));
    assert!(!reason.is_empty());
    // The repair continues, and the report says how to proceed.
    let report = db.repair().apply().await.unwrap();
    assert!(report.to_string().contains("db.run_pending()"), "{report}");
    // A repeated attempt is an error, not a loop.
    let error = db.run_pending().await.unwrap_err();
    assert!(error.to_string().contains(by.0), "{error}");
}

pub async fn a_rejected_copy_does_not_stop_others(fixture: Fixture) {
    let db = insert_hosts_and_services(&fixture).await;
    for id in 1..=5 {
        db.insert(service(id, id, 1)).await.unwrap();
    }
    db.insert(service(6, 3, 2)).await.unwrap();
    db.wait_for_pending().await.unwrap();

    // The write itself succeeds.
    let renamed = db.update::<Host>(1).set(|h| h.name(), "b");
    renamed.await.unwrap();
    for id in [1, 2, 4, 5] {
        assert_eq!(copied_host_name(&db, id).await, "b");
    }
    assert_eq!(copied_host_name(&db, 3).await, "a");
    assert_blocked_by(&db, ("hosts", 1), ("services", 3)).await;

    // The next change of the source is tried at once.
    let renamed = db.update::<Host>(1).set(|h| h.name(), "c");
    renamed.await.unwrap();
    assert_clean(&db).await;
    for id in 1..=5 {
        assert_eq!(copied_host_name(&db, id).await, "c");
    }

    // The document accepts the write later.
    let renamed = db.update::<Host>(1).set(|h| h.name(), "b");
    renamed.await.unwrap();
    assert_blocked_by(&db, ("hosts", 1), ("services", 3)).await;
    db.delete::<Service>(6).await.unwrap();
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
    assert_eq!(copied_host_name(&db, 3).await, "b");
}

/// Many dependents are written after the source, in batches or separate transactions.
pub async fn a_rejected_copy_does_not_stop_batches(fixture: Fixture) {
    let db = insert_hosts_and_services(&fixture).await;
    let many = (1..=1_100).map(|id| service(id, id, 1));
    db.insert_many(many).await.unwrap();
    db.insert(service(2_000, 700, 2)).await.unwrap();
    db.wait_for_pending().await.unwrap();
    let renamed = db.update_many::<Host>(|h| h.id().lte(2));
    renamed.set(|h| h.name(), "b").await.unwrap();
    assert_blocked_by(&db, ("hosts", 1), ("services", 700)).await;
    let followed = db.find::<Service>().filter(|s| s.at().eq("b"));
    assert_eq!(followed.count().await.unwrap(), 1_100);
    db.delete::<Service>(2_000).await.unwrap();
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
}

/// The pending work of a rejected copy of a copy is stored in the intermediate document.
pub async fn a_rejected_second_copy_stays_pending(fixture: Fixture) {
    let db = insert_hosts_and_services(&fixture).await;
    for (id, host) in [(1, 1), (2, 2)] {
        db.insert(service(id, id, host)).await.unwrap();
        let service = Ref::new(id);
        let slot = 1;
        db.insert(NewAlert { id, slot, service }).await.unwrap();
    }
    db.wait_for_pending().await.unwrap();
    let renamed = db.update::<Host>(1).set(|h| h.name(), "b");
    renamed.await.unwrap();
    assert_eq!(copied_host_name(&db, 1).await, "b");
    assert_blocked_by(&db, ("services", 1), ("alerts", 1)).await;
    db.delete::<Alert>(2).await.unwrap();
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
    assert_eq!(db.get::<Alert>(1).await.unwrap().at, "b");
}

/// A document near 16 MiB rejects a longer copy.
pub async fn the_error_names_a_full_document(fixture: Fixture) {
    let db = insert_hosts_and_services(&fixture).await;
    let padding = Some("x".repeat(16 * 1024 * 1024 - 500));
    let large = NewService {
        padding,
        ..service(1, 1, 1)
    };
    db.insert(large).await.unwrap();
    db.insert(service(2, 2, 1)).await.unwrap();
    db.wait_for_pending().await.unwrap();
    let name = "a longer name ".repeat(60);
    let renamed = db.update::<Host>(1).set(|h| h.name(), &*name);
    renamed.await.unwrap();
    assert_eq!(copied_host_name(&db, 2).await, name);
    assert_blocked_by(&db, ("hosts", 1), ("services", 1)).await;
    let made_smaller = db.update::<Service>(1).unset(|s| s.padding());
    made_smaller.await.unwrap();
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
}

/// Changes a stored document around the framework.
async fn update_raw(fixture: &Fixture, collection: &'static str, id: i64, change: RawDocumentBuf) {
    let update = UpdateOperation {
        collection: collection.into(),
        filter: rawdoc! { "_id": id },
        change: DocumentChange::operators(change),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    assert_eq!(fixture.backend().update(update).await.unwrap().matched, 1);
}

fn expired_lease() -> RawDocumentBuf {
    let lease = BsonDateTime::from_millis(BsonDateTime::now().timestamp_millis() - 1_000);
    rawdoc! { "token": ObjectId::new(), "lease": lease }
}

/// Revalidation after a process died between insert and revalidation.
pub async fn a_rejected_copy_does_not_stop_revalidation(fixture: Fixture) {
    let db = insert_hosts_and_services(&fixture).await;
    for id in 1..=3 {
        db.insert(service(id, id, 1)).await.unwrap();
    }
    db.insert(service(6, 2, 2)).await.unwrap();
    db.wait_for_pending().await.unwrap();
    for id in 1..=3 {
        let stale = rawdoc! {
            "$set": { "at": "old", "_odm.pending.revalidate": expired_lease() },
            "$unset": { "_odm.copied_from": "" },
        };
        update_raw(&fixture, "services", id, stale).await;
    }
    update_raw(&fixture, "services", 6, rawdoc! { "$set": { "at": "a" } }).await;
    let error = db.run_pending().await.unwrap_err();
    assert!(error.to_string().contains("services 2"), "{error}");
    assert_eq!(
        (
            &*copied_host_name(&db, 1).await,
            &*copied_host_name(&db, 3).await
        ),
        ("a", "a")
    );
    assert_eq!(copied_host_name(&db, 2).await, "old");
    let pending = db.pending().await.unwrap();
    assert_eq!(
        (pending.models[0].revalidations, pending.models[0].blocked),
        (1, 1)
    );
    // The age counts from the first rejection. The lease of blocked work is the next attempt.
    let one_hour = Duration::from_secs(3_600);
    let since = BsonDateTime::from_system_time(SystemTime::now() - one_hour);
    let rejected = rawdoc! { "$set": { "_odm.pending.revalidate.blocked.since": since } };
    update_raw(&fixture, "services", 2, rejected).await;
    let age = db.pending().await.unwrap().models[0].age;
    assert!(age >= one_hour && age < 2 * one_hour, "{age:?}");
    update_raw(&fixture, "services", 6, rawdoc! { "$set": { "at": "b" } }).await;
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
    assert_eq!(copied_host_name(&db, 2).await, "a");
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "boards")]
struct Board {
    #[serde(rename = "_id")]
    id: i64,
    padding: String,
    #[count(of = Like::board)]
    likes: i64,
    #[latest(3, of = Like::board, by = at)]
    last: Vec<LastLike>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "likes")]
struct Like {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    board: Ref<Board>,
    at: i64,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[embedded(of = Like)]
struct LastLike {
    at: i64,
    text: String,
}

#[derive(Schema)]
#[schema(models(Board, Like))]
struct Boards;

fn like(id: i64, board: i64) -> Like {
    Like {
        id,
        board: Ref::new(board),
        at: id,
        text: "so much that it has no room ".repeat(40),
    }
}

const NEARLY_MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024 - 600;

/// A parent without room for a longer list of children. With transactions, the insert of the child is an error that names the
/// parent. Without transactions, the rollup is pending, and the rollups of different parents are written.
pub async fn the_error_names_a_full_parent(fixture: Fixture) {
    let db = Database::<Boards>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    for (id, size) in [(1, NEARLY_MAX_DOCUMENT_BYTES), (2, 0)] {
        let padding = "x".repeat(size);
        db.insert(NewBoard { id, padding }).await.unwrap();
    }
    db.wait_for_pending().await.unwrap();
    let liked = db.insert(like(1, 1)).await;
    if fixture.backend().capabilities().transactions {
        let error = liked.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(
            (error.collection(), error.id()),
            (Some("boards"), Some(&1_i64.into())),
            "{error}"
        );
        assert_clean(&db).await;
        return;
    }
    liked.unwrap();
    db.insert_many([like(2, 2), like(3, 2)]).await.unwrap();
    assert_blocked_by(&db, ("likes", 1), ("boards", 1)).await;
    assert_eq!(db.get::<Board>(2).await.unwrap().likes, 2);
    let made_smaller = db.update::<Board>(1).set(|b| b.padding(), "");
    made_smaller.await.unwrap();
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
    assert_eq!(db.get::<Board>(1).await.unwrap().likes, 1);
}

/// Children of several parents are counted in one batch: only children of the rejecting parent stay pending.
pub async fn a_full_parent_does_not_stop_other_parents(fixture: Fixture) {
    let db = Database::<Boards>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    for id in 1..=3 {
        let padding = String::new();
        db.insert(NewBoard { id, padding }).await.unwrap();
        let short = Like {
            text: String::new(),
            ..like(id, id)
        };
        db.insert(short).await.unwrap();
    }
    db.wait_for_pending().await.unwrap();
    let grown = db
        .update::<Board>(2)
        .set(|b| b.padding(), "x".repeat(NEARLY_MAX_DOCUMENT_BYTES));
    grown.await.unwrap();
    // As after a process that died between the change of each child and the count.
    for id in 1..=3 {
        let changed = rawdoc! {
            "$set": { "text": like(id, id).text, "_odm.pending.rollup": expired_lease() },
        };
        update_raw(&fixture, "likes", id, changed).await;
    }
    assert_blocked_by(&db, ("likes", 2), ("boards", 2)).await;
    for id in [1, 3] {
        let board = db.get::<Board>(id).await.unwrap();
        assert_eq!((board.likes, board.last[0].text.len()), (1, 1_120));
    }
    let made_smaller = db.update::<Board>(2).set(|b| b.padding(), "");
    made_smaller.await.unwrap();
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
    assert_eq!(db.get::<Board>(2).await.unwrap().last[0].text.len(), 1_120);
}

/// A parent without room does not stop the recompute of different parents.
pub async fn a_full_parent_does_not_stop_recomputes(fixture: Fixture) {
    let db = Database::<Boards>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    for id in 1..=3 {
        let padding = String::new();
        db.insert(NewBoard { id, padding }).await.unwrap();
        db.insert(like(id, id)).await.unwrap();
    }
    db.wait_for_pending().await.unwrap();
    for id in 1..=3 {
        let size = if id == 1 {
            NEARLY_MAX_DOCUMENT_BYTES
        } else {
            0
        };
        let lost = rawdoc! { "$set": {
            "padding": "x".repeat(size),
            "last": [],
            "likes": 0_i64,
            "_odm.pending.recompute": expired_lease(),
        } };
        update_raw(&fixture, "boards", id, lost).await;
    }
    db.run_pending().await.unwrap_err();
    for id in [2, 3] {
        assert_eq!(db.get::<Board>(id).await.unwrap().likes, 1);
    }
    let pending = db.pending().await.unwrap();
    assert_eq!(
        (pending.models[0].recomputes, pending.models[0].blocked),
        (1, 1)
    );
    assert_eq!(pending.models[0].rejections[0].id, Bson::Int64(1));
    let smaller = rawdoc! { "$set": { "padding": "" } };
    update_raw(&fixture, "boards", 1, smaller).await;
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
    assert_eq!(db.get::<Board>(1).await.unwrap().likes, 1);
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "owners")]
struct Owner {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "things")]
struct Thing {
    #[serde(rename = "_id")]
    id: i64,
    slot: i64,
    #[reference(on_delete = nullify)]
    owner: Option<Ref<Owner>>,
}

#[derive(Schema)]
#[schema(models(Owner, Thing))]
struct Owners;

/// A referrer that rejects the change does not stop the change of further referrers.
pub async fn a_rejecting_referrer_is_reported(fixture: Fixture) {
    let db = Database::<Owners>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    create_unique_index(&fixture, "things", ["slot", "owner"]).await;
    db.insert(Owner { id: 1 }).await.unwrap();
    for (id, slot, owner) in [
        (1, 1, Some(1)),
        (2, 2, Some(1)),
        (3, 3, Some(1)),
        (4, 2, None),
    ] {
        let owner = owner.map(Ref::new);
        db.insert(Thing { id, slot, owner }).await.unwrap();
    }
    let error = db.delete::<Owner>(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
    if fixture.backend().capabilities().transactions {
        // The transaction was rolled back.
        assert_clean(&db).await;
        assert_eq!(db.find::<Owner>().count().await.unwrap(), 1);
        return;
    }
    let owned = db.find::<Thing>().filter(|t| t.owner().is_some());
    let owned = owned.all().await.unwrap();
    assert_eq!(owned.iter().map(|thing| thing.id).collect::<Vec<_>>(), [2]);
    // As after a process that died after the first attempt.
    let lease = expired_lease().get_datetime("lease").unwrap();
    update_raw(
        &fixture,
        "owners",
        1,
        rawdoc! { "$set": { "_odm.pending.references.lease": lease } },
    )
    .await;
    let error = db.run_pending().await.unwrap_err();
    assert!(error.to_string().contains("things"), "{error}");
    let pending = db.pending().await.unwrap();
    assert_eq!(
        (pending.models[0].references, pending.models[0].blocked),
        (1, 1),
        "{pending}"
    );
    assert_eq!(pending.models[0].rejections[0].id, Bson::Int64(2));
    let report = db.check().await.unwrap();
    let blocked = report.findings.iter();
    let mut blocked = blocked.filter(|finding| matches!(finding.kind, FindingKind::Blocked { .. }));
    assert!(blocked.next().is_some(), "{report}");
    let moved = db.update::<Thing>(4).set(|t| t.slot(), 4);
    moved.await.unwrap();
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
    assert_eq!(db.find::<Owner>().count().await.unwrap(), 0);
}
