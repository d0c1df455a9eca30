//! Documents that reject follow-up writes: other work goes on, and `owed`, `settled` and `check` name the rejecting documents.

use odm::{
    Database, ErrorKind,
    backend::operation::{Change, Direction, Index, Update},
    bson::{Bson, DateTime as BsonDateTime, RawDocumentBuf, oid::ObjectId, rawdoc},
    check::Fault,
    prelude::*,
};

use super::is_clean;
use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

/// A unique index over the slot and the copy makes rejections.
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

async fn net(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    for collection in ["services", "alerts"] {
        unique(fixture, collection, ["slot", "at"]).await;
    }
    for (id, name) in [(1, "a"), (2, "b")] {
        let name = name.to_owned();
        db.insert(Host { id, name }).await.unwrap();
    }
    db
}

/// A unique index over copies, which the derive refuses.
async fn unique(fixture: &Fixture, collection: &str, paths: [&str; 2]) {
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

async fn at(db: &Db, id: i64) -> String {
    db.get::<Service>(id).await.unwrap().at
}

/// Asserts the reports of `settled`, `owed`, `check`, `repair` and `settle` while one document rejects a write.
async fn is_blocked_by<S: Schema>(db: &Database<S>, owing: (&str, i64), by: (&str, i64)) {
    let error = db.settled().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsettled, "{error}");
    let named = format!("{} {}", by.0, by.1);
    assert!(error.to_string().contains(&named), "{error}");
    let owed = db.owed().await.unwrap();
    assert!(owed.to_string().contains(&named), "{owed}");
    let [of] = owed.models.as_slice() else {
        panic!("{owed}");
    };
    assert_eq!(of.blocked, 1, "{owed}");
    let named = of.rejections.iter();
    let named: Vec<_> = named
        .map(|by| (by.collection.as_str(), by.id.clone()))
        .collect();
    assert_eq!(named, [(by.0, Bson::Int64(by.1))]);
    let report = db.check().await.unwrap();
    let [finding] = report.findings.as_slice() else {
        panic!("{report}");
    };
    assert_eq!(
        (finding.collection, &finding.id),
        (owing.0, &owing.1.into())
    );
    let Fault::Blocked { by: of, id, reason } = &finding.fault else {
        panic!("{report}");
    };
    assert_eq!((of.as_str(), id), (by.0, &by.1.into()));
    assert!(!reason.is_empty());
    // The repair goes on, and says what to do.
    let report = db.repair().apply().await.unwrap();
    assert!(report.to_string().contains("db.settle()"), "{report}");
    // Another attempt is an error, not a loop.
    let error = db.settle().await.unwrap_err();
    assert!(error.to_string().contains(by.0), "{error}");
}

pub async fn a_rejected_copy_stops_no_other(fixture: Fixture) {
    let db = net(&fixture).await;
    for id in 1..=5 {
        db.insert(service(id, id, 1)).await.unwrap();
    }
    db.insert(service(6, 3, 2)).await.unwrap();
    db.settled().await.unwrap();

    // The write itself succeeds.
    let renamed = db.update::<Host>(1).set(|h| h.name(), "b");
    renamed.await.unwrap();
    for id in [1, 2, 4, 5] {
        assert_eq!(at(&db, id).await, "b");
    }
    assert_eq!(at(&db, 3).await, "a");
    is_blocked_by(&db, ("hosts", 1), ("services", 3)).await;

    // The next change of the source is tried at once.
    let renamed = db.update::<Host>(1).set(|h| h.name(), "c");
    renamed.await.unwrap();
    is_clean(&db).await;
    for id in 1..=5 {
        assert_eq!(at(&db, id).await, "c");
    }

    // The document accepts the write later.
    let renamed = db.update::<Host>(1).set(|h| h.name(), "b");
    renamed.await.unwrap();
    is_blocked_by(&db, ("hosts", 1), ("services", 3)).await;
    db.delete::<Service>(6).await.unwrap();
    db.settled().await.unwrap();
    is_clean(&db).await;
    assert_eq!(at(&db, 3).await, "b");
}

/// Many dependents follow after the write, in batches or separate transactions.
pub async fn a_rejected_copy_stops_no_batch(fixture: Fixture) {
    let db = net(&fixture).await;
    let many = (1..=1_100).map(|id| service(id, id, 1));
    db.insert_many(many).await.unwrap();
    db.insert(service(2_000, 700, 2)).await.unwrap();
    db.settled().await.unwrap();
    let renamed = db.update_many::<Host>(|h| h.id().lte(2));
    renamed.set(|h| h.name(), "b").await.unwrap();
    is_blocked_by(&db, ("hosts", 1), ("services", 700)).await;
    let followed = db.find::<Service>().filter(|s| s.at().eq("b"));
    assert_eq!(followed.count().await.unwrap(), 1_100);
    db.delete::<Service>(2_000).await.unwrap();
    db.settled().await.unwrap();
    is_clean(&db).await;
}

/// The pending work of a rejected copy of a copy is in the document between.
pub async fn a_rejected_copy_of_a_copy_is_owed_by_that(fixture: Fixture) {
    let db = net(&fixture).await;
    for (id, host) in [(1, 1), (2, 2)] {
        db.insert(service(id, id, host)).await.unwrap();
        let service = Ref::new(id);
        let slot = 1;
        db.insert(NewAlert { id, slot, service }).await.unwrap();
    }
    db.settled().await.unwrap();
    let renamed = db.update::<Host>(1).set(|h| h.name(), "b");
    renamed.await.unwrap();
    assert_eq!(at(&db, 1).await, "b");
    is_blocked_by(&db, ("services", 1), ("alerts", 1)).await;
    db.delete::<Alert>(2).await.unwrap();
    db.settled().await.unwrap();
    is_clean(&db).await;
    assert_eq!(db.get::<Alert>(1).await.unwrap().at, "b");
}

/// A document near 16 MiB rejects a longer copy.
pub async fn a_document_without_room_is_named(fixture: Fixture) {
    let db = net(&fixture).await;
    let padding = Some("x".repeat(16 * 1024 * 1024 - 500));
    let large = NewService {
        padding,
        ..service(1, 1, 1)
    };
    db.insert(large).await.unwrap();
    db.insert(service(2, 2, 1)).await.unwrap();
    db.settled().await.unwrap();
    let name = "a longer name ".repeat(60);
    let renamed = db.update::<Host>(1).set(|h| h.name(), &*name);
    renamed.await.unwrap();
    assert_eq!(at(&db, 2).await, name);
    is_blocked_by(&db, ("hosts", 1), ("services", 1)).await;
    let made_smaller = db.update::<Service>(1).unset(|s| s.padding());
    made_smaller.await.unwrap();
    db.settled().await.unwrap();
    is_clean(&db).await;
}

/// Changes a stored document around the framework.
async fn raw(fixture: &Fixture, collection: &'static str, id: i64, change: RawDocumentBuf) {
    let update = Update {
        collection: collection.into(),
        filter: rawdoc! { "_id": id },
        change: Change::operators(change),
        multi: false,
        upsert: false,
    };
    assert_eq!(fixture.backend().update(update).await.unwrap().matched, 1);
}

fn overdue() -> RawDocumentBuf {
    let due = BsonDateTime::from_millis(BsonDateTime::now().timestamp_millis() - 1_000);
    rawdoc! { "token": ObjectId::new(), "due": due }
}

/// Revalidation after a process died between insert and revalidation.
pub async fn a_rejected_copy_stops_no_revalidation(fixture: Fixture) {
    let db = net(&fixture).await;
    for id in 1..=3 {
        db.insert(service(id, id, 1)).await.unwrap();
    }
    db.insert(service(6, 2, 2)).await.unwrap();
    db.settled().await.unwrap();
    for id in 1..=3 {
        let stale = rawdoc! {
            "$set": { "at": "old", "_odm.verify": overdue() },
            "$unset": { "_odm.from": "" },
        };
        raw(&fixture, "services", id, stale).await;
    }
    raw(&fixture, "services", 6, rawdoc! { "$set": { "at": "a" } }).await;
    let error = db.settle().await.unwrap_err();
    assert!(error.to_string().contains("services 2"), "{error}");
    assert_eq!((&*at(&db, 1).await, &*at(&db, 3).await), ("a", "a"));
    assert_eq!(at(&db, 2).await, "old");
    let owed = db.owed().await.unwrap();
    assert_eq!((owed.models[0].dependents, owed.models[0].blocked), (1, 1));
    raw(&fixture, "services", 6, rawdoc! { "$set": { "at": "b" } }).await;
    db.settled().await.unwrap();
    is_clean(&db).await;
    assert_eq!(at(&db, 2).await, "a");
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

const NO_ROOM: usize = 16 * 1024 * 1024 - 600;

/// A parent without room for a longer list of children. With transactions the insert of the child is an error that names the parent;
/// without, the count is pending and the counts of other parents are written.
pub async fn a_parent_without_room_is_named(fixture: Fixture) {
    let db = Database::<Boards>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    for (id, size) in [(1, NO_ROOM), (2, 0)] {
        let padding = "x".repeat(size);
        db.insert(NewBoard { id, padding }).await.unwrap();
    }
    db.settled().await.unwrap();
    let liked = db.insert(like(1, 1)).await;
    if fixture.backend().capabilities().transactions {
        let error = liked.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(
            (error.collection(), error.id()),
            (Some("boards"), Some(&1_i64.into())),
            "{error}"
        );
        is_clean(&db).await;
        return;
    }
    liked.unwrap();
    db.insert_many([like(2, 2), like(3, 2)]).await.unwrap();
    is_blocked_by(&db, ("likes", 1), ("boards", 1)).await;
    assert_eq!(db.get::<Board>(2).await.unwrap().likes, 2);
    let made_smaller = db.update::<Board>(1).set(|b| b.padding(), "");
    made_smaller.await.unwrap();
    db.settled().await.unwrap();
    is_clean(&db).await;
    assert_eq!(db.get::<Board>(1).await.unwrap().likes, 1);
}

/// Children of several parents are counted in one batch: only children of the rejecting parent stay pending.
pub async fn a_parent_without_room_stops_no_other(fixture: Fixture) {
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
    db.settled().await.unwrap();
    let grown = db
        .update::<Board>(2)
        .set(|b| b.padding(), "x".repeat(NO_ROOM));
    grown.await.unwrap();
    // As after a process that died between the change of each child and the count.
    for id in 1..=3 {
        let changed = rawdoc! { "$set": { "text": like(id, id).text, "_odm.count": overdue() } };
        raw(&fixture, "likes", id, changed).await;
    }
    is_blocked_by(&db, ("likes", 2), ("boards", 2)).await;
    for id in [1, 3] {
        let board = db.get::<Board>(id).await.unwrap();
        assert_eq!((board.likes, board.last[0].text.len()), (1, 1_120));
    }
    let made_smaller = db.update::<Board>(2).set(|b| b.padding(), "");
    made_smaller.await.unwrap();
    db.settled().await.unwrap();
    is_clean(&db).await;
    assert_eq!(db.get::<Board>(2).await.unwrap().last[0].text.len(), 1_120);
}

/// A parent without room does not stop the recount of other parents.
pub async fn a_parent_without_room_stops_no_recount(fixture: Fixture) {
    let db = Database::<Boards>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    for id in 1..=3 {
        let padding = String::new();
        db.insert(NewBoard { id, padding }).await.unwrap();
        db.insert(like(id, id)).await.unwrap();
    }
    db.settled().await.unwrap();
    for id in 1..=3 {
        let size = if id == 1 { NO_ROOM } else { 0 };
        let lost = rawdoc! { "$set": { "padding": "x".repeat(size), "last": [], "likes": 0_i64, "_odm.recount": overdue() } };
        raw(&fixture, "boards", id, lost).await;
    }
    db.settle().await.unwrap_err();
    for id in [2, 3] {
        assert_eq!(db.get::<Board>(id).await.unwrap().likes, 1);
    }
    let owed = db.owed().await.unwrap();
    assert_eq!((owed.models[0].owners, owed.models[0].blocked), (1, 1));
    assert_eq!(owed.models[0].rejections[0].id, Bson::Int64(1));
    let smaller = rawdoc! { "$set": { "padding": "" } };
    raw(&fixture, "boards", 1, smaller).await;
    db.settled().await.unwrap();
    is_clean(&db).await;
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

/// A referrer that rejects the change does not stop the change of other referrers.
pub async fn a_referrer_that_keeps_its_reference_is_named(fixture: Fixture) {
    let db = Database::<Owners>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    unique(&fixture, "things", ["slot", "owner"]).await;
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
        is_clean(&db).await;
        assert_eq!(db.find::<Owner>().count().await.unwrap(), 1);
        return;
    }
    let held = db.find::<Thing>().filter(|t| t.owner().is_some());
    let held = held.all().await.unwrap();
    assert_eq!(held.iter().map(|thing| thing.id).collect::<Vec<_>>(), [2]);
    // As after a process that died after the first attempt.
    let due = overdue().get_datetime("due").unwrap();
    raw(
        &fixture,
        "owners",
        1,
        rawdoc! { "$set": { "_odm.due": due } },
    )
    .await;
    let error = db.settle().await.unwrap_err();
    assert!(error.to_string().contains("things"), "{error}");
    let owed = db.owed().await.unwrap();
    assert_eq!(
        (owed.models[0].links, owed.models[0].blocked),
        (1, 1),
        "{owed}"
    );
    assert_eq!(owed.models[0].rejections[0].id, Bson::Int64(2));
    let report = db.check().await.unwrap();
    let blocked = report.findings.iter();
    let mut blocked = blocked.filter(|finding| matches!(finding.fault, Fault::Blocked { .. }));
    assert!(blocked.next().is_some(), "{report}");
    let moved = db.update::<Thing>(4).set(|t| t.slot(), 4);
    moved.await.unwrap();
    db.settled().await.unwrap();
    is_clean(&db).await;
    assert_eq!(db.find::<Owner>().count().await.unwrap(), 0);
}
