//! Deletes of several documents: `restrict` rules are checked against the whole delete set.

use std::{sync::Arc, time::Duration};

use odm::{
    ErrorKind, Filter,
    backend::{
        Fault, Faults,
        operation::{CountOperation, DocumentChange, Operation, UpdateOperation},
    },
    bson::{RawDocumentBuf, rawdoc},
    prelude::*,
};

use crate::Fixture;
use crate::crash::{CrashTest, Write};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "teams")]
struct Team {
    #[serde(rename = "_id")]
    id: i64,
}

/// Deleted with the team.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "members")]
struct Member {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    team: Ref<Team>,
}

/// Restricts the delete of the member, and is deleted with the team.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "badges")]
struct Badge {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = restrict)]
    member: Ref<Member>,
    #[reference(on_delete = cascade)]
    team: Ref<Team>,
}

/// Restricts the delete of the badge, and is not deleted by a cascade.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "loans")]
struct Loan {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 3)]
    items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Item {
    #[reference(on_delete = restrict)]
    badge: Ref<Badge>,
}

/// Restricts the delete of the needed step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "steps")]
struct Step {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = restrict)]
    needs: Option<Ref<Step>>,
}

/// A parent with a count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "offices")]
struct Office {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Clerk::office)]
    clerks: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "clerks")]
struct Clerk {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = restrict)]
    office: Ref<Office>,
}

#[derive(Schema)]
#[schema(models(Office, Clerk))]
struct Desks;

#[derive(Schema)]
#[schema(models(Team, Member, Badge, Loan, Step))]
struct Club;
type Db = odm::Database<Club>;

/// The same models in reverse order.
#[derive(Schema)]
#[schema(models(Step, Loan, Badge, Member, Team))]
struct ReversedClub;

fn member(id: i64, team: i64) -> Member {
    Member {
        id,
        team: Ref::new(team),
    }
}

fn badge(id: i64, member: i64, team: i64) -> Badge {
    Badge {
        id,
        member: Ref::new(member),
        team: Ref::new(team),
    }
}

fn loan(id: i64, badge: i64) -> Loan {
    let badge = Ref::new(badge);
    Loan {
        id,
        items: vec![Item { badge }],
    }
}

fn step(id: i64, needs: Option<i64>) -> Step {
    Step {
        id,
        needs: needs.map(Ref::new),
    }
}

async fn insert_club(db: &Db) {
    for team in [1, 2] {
        db.insert(Team { id: team }).await.unwrap();
        for id in [10, 11] {
            db.insert(member(id * team, team)).await.unwrap();
            db.insert(badge(id * team, id * team, team)).await.unwrap();
        }
    }
}

/// Counts teams, members and badges.
async fn count_documents(db: &Db) -> (u64, u64, u64) {
    (
        db.find::<Team>().count().await.unwrap(),
        db.find::<Member>().count().await.unwrap(),
        db.find::<Badge>().count().await.unwrap(),
    )
}

async fn assert_clean_without_pending_work(db: &Db, fixture: &Fixture) {
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
    assert_no_tombstones(fixture).await;
}

async fn assert_no_tombstones(fixture: &Fixture) {
    for collection in ["teams", "members", "badges", "loans"] {
        let tombstones = CountOperation {
            collection: collection.into(),
            filter: rawdoc! { "_odm.pending.references.tombstone": { "$exists": true } },
            limit: None,
            options: Default::default(),
        };
        let count = fixture.backend().count(tombstones).await.unwrap();
        assert_eq!(count, 0, "{collection}");
    }
}

pub async fn referrers_in_the_delete_set_do_not_restrict(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let other = odm::Database::<ReversedClub>::with_backend(fixture.backend());
    insert_club(&db).await;
    // The badge is not in the delete set of the member, so the badge restricts the delete.
    let error = db.delete::<Member>(10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restricted);
    // A delete of the team includes both, in any order of the models.
    for dry in [
        db.delete::<Team>(1).dry_run().await.unwrap(),
        other.delete::<Team>(1).dry_run().await.unwrap(),
    ] {
        assert!(dry.error.is_none(), "{dry}");
        assert_eq!(dry.deleted["members"] + dry.deleted["badges"], 4);
    }
    assert_eq!(db.delete::<Team>(1).await.unwrap().deleted, 1);
    assert_eq!(count_documents(&db).await, (1, 2, 2));
    assert_eq!(other.delete::<Team>(2).await.unwrap().deleted, 1);
    assert_eq!(count_documents(&db).await, (0, 0, 0));
    assert_clean_without_pending_work(&db, &fixture).await;

    // Documents of the same model can be deleted together, too.
    let steps = [
        step(1, None),
        step(2, Some(1)),
        step(3, Some(2)),
        step(4, Some(3)),
    ];
    for step in steps {
        db.insert(step).await.unwrap();
    }
    let error = db.delete_many::<Step>(|s| s.id().lte(2)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restricted);
    let dry = db.delete_many::<Step>(|s| s.id().lte(2)).dry_run().await;
    assert!(dry.unwrap().error.is_some());
    let delete = db.delete_many::<Step>(|_| Filter::all());
    assert_eq!(delete.await.unwrap().deleted, 4);
}

pub async fn a_restricted_delete_removes_nothing(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_club(&db).await;
    db.insert(loan(1, 11)).await.unwrap();
    let before = count_documents(&db).await;
    // A loan two levels below the team restricts the delete, by a reference that does not cascade.
    let dry = db.delete::<Team>(1).dry_run().await.unwrap();
    let error = db.delete::<Team>(1).await.unwrap_err();
    let refused = dry.error.unwrap();
    for error in [&error, &refused] {
        assert_eq!(
            (error.kind(), error.id()),
            (ErrorKind::Restricted, Some(&11_i64.into()))
        );
        let text = error.to_string();
        assert!(
            text.contains("1 document in `loans` references the document by `items.badge`"),
            "{text}"
        );
    }
    assert_eq!(count_documents(&db).await, before, "no document is deleted");
    assert_clean_without_pending_work(&db, &fixture).await;
    // The refused delete left no tombstone: the application can write as before.
    db.insert(badge(12, 10, 1)).await.unwrap();
    db.delete::<Loan>(1).await.unwrap();
    db.delete::<Team>(1).await.unwrap();
    assert_eq!(count_documents(&db).await, (1, 2, 2));
    assert_clean_without_pending_work(&db, &fixture).await;
}

/// A tree of folders with cascading deletes and an inverse array of files.
mod folder_models {
    use odm::prelude::*;

    #[derive(Debug, Clone, Serialize, Deserialize, Document)]
    #[document(collection = "folders")]
    pub(super) struct Folder {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[reference(on_delete = cascade)]
        pub(super) parent: Option<Ref<Folder>>,
        #[reference(inverse_of = folder, max = 10)]
        pub(super) files: Vec<Ref<File>>,
    }

    #[derive(Debug, Clone, Serialize, Deserialize, Document)]
    #[document(collection = "files")]
    pub(super) struct File {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[reference(inverse = files, on_delete = restrict)]
        pub(super) folder: Ref<Folder>,
    }

    #[derive(Schema)]
    #[schema(models(Folder, File))]
    pub(super) struct Disk;
}

/// A file restricts the delete of all ancestor folders.
pub async fn a_restricted_descendant_keeps_its_ancestors(fixture: Fixture) {
    let db = odm::Database::<folder_models::Disk>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    for (id, parent) in [(1, None), (2, Some(1)), (3, Some(2))] {
        let parent = parent.map(Ref::new);
        db.insert(folder_models::NewFolder { id, parent })
            .await
            .unwrap();
    }
    let folder = Ref::new(3);
    db.insert(folder_models::File { id: 1, folder })
        .await
        .unwrap();
    let error = db.delete::<folder_models::Folder>(1).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.id()),
        (ErrorKind::Restricted, Some(&3_i64.into()))
    );
    assert_eq!(db.find::<folder_models::Folder>().count().await.unwrap(), 3);
    db.run_pending().await.unwrap();
    assert!(db.check().await.unwrap().is_clean());
    db.delete::<folder_models::File>(1).await.unwrap();
    db.delete::<folder_models::Folder>(1).await.unwrap();
    assert_eq!(db.find::<folder_models::Folder>().count().await.unwrap(), 0);
}

/// A delete with a provisional tombstone may still be rolled back. A writer that adds a reference to the document waits for the
/// decision.
pub async fn writers_wait_for_provisional_tombstones(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_club(&db).await;
    // The lease has expired, so the writer recovers the delete. A badge restricts the member, so the member stays.
    write_provisional_tombstone(&fixture, "members", 10, -1).await;
    db.insert(badge(50, 10, 1)).await.unwrap();
    assert_clean_without_pending_work(&db, &fixture).await;
    // The lease has not expired, so the writer waits.
    write_provisional_tombstone(&fixture, "members", 10, 60_000).await;
    let writer = {
        let db = db.clone();
        tokio::spawn(async move {
            db.update::<Badge>(11)
                .set(|b| b.member(), Ref::new(10))
                .await
        })
    };
    tokio::time::sleep(Duration::from_millis(30)).await;
    write_provisional_tombstone(&fixture, "members", 10, -1).await;
    writer.await.unwrap().unwrap();
    assert_clean_without_pending_work(&db, &fixture).await;
}

/// An update of a document with a provisional tombstone waits for the decision, too.
pub async fn updates_wait_for_provisional_tombstones(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_club(&db).await;
    write_provisional_tombstone(&fixture, "members", 10, -1).await;
    let moved = db.update::<Member>(10).set(|m| m.team(), Ref::new(2));
    moved.await.unwrap();
    assert_eq!(db.get::<Member>(10).await.unwrap().team.id(), &2);
    assert_clean_without_pending_work(&db, &fixture).await;
}

/// The reference stage runs in the transaction of the rollups, and recovery must run outside.
pub async fn a_child_moves_to_a_parent_with_an_abandoned_tombstone(fixture: Fixture) {
    let db = odm::Database::<Desks>::with_backend(fixture.backend());
    let office = |id| NewOffice { id };
    db.insert_many([office(1), office(2)]).await.unwrap();
    // The clerk of office 2 restricts the delete, so recovery undoes the delete.
    let clerk = |id, office| Clerk {
        id,
        office: Ref::new(office),
    };
    db.insert_many([clerk(10, 1), clerk(20, 2)]).await.unwrap();
    write_provisional_tombstone(&fixture, "offices", 2, -1).await;
    let moved = db.update::<Clerk>(10).set(|c| c.office(), Ref::new(2));
    moved.await.unwrap();
    db.wait_for_pending().await.unwrap();
    let clerks = async |id: i64| db.get::<Office>(id).await.unwrap().clerks;
    assert_eq!((clerks(1).await, clerks(2).await), (0, 2));
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

/// Writes a provisional tombstone into a document, with a lease that ends after a number of milliseconds.
async fn write_provisional_tombstone(
    fixture: &Fixture,
    collection: &'static str,
    id: i64,
    lease_millis: i64,
) {
    let lease = DateTime::from_millis(DateTime::now().timestamp_millis() + lease_millis);
    let tombstone = rawdoc! { "$set": {
        "_odm.pending.references.tombstone.token": ObjectId::new(),
        "_odm.pending.references.tombstone.provisional": true,
        "_odm.pending.references.lease": lease,
    } };
    let update = UpdateOperation {
        collection: collection.into(),
        filter: rawdoc! { "_id": id },
        change: DocumentChange::operators(tombstone),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    assert_eq!(fixture.backend().update(update).await.unwrap().matched, 1);
}

/// A delete that cannot be completed does not stop recovery of a second delete.
pub async fn a_blocked_delete_does_not_stop_recovery(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_club(&db).await;
    let write_tombstone = async |id: i64, tombstone: RawDocumentBuf| {
        let update = UpdateOperation {
            collection: "teams".into(),
            filter: rawdoc! { "_id": id },
            change: DocumentChange::operators(rawdoc! { "$set": tombstone }),
            multi: false,
            upsert: false,
            origin: Default::default(),
        };
        fixture.backend().update(update).await.unwrap();
    };
    // As if the tombstone of team 1 had become final although badges restrict the members.
    db.insert(Team { id: 3 }).await.unwrap();
    db.insert(member(30, 3)).await.unwrap();
    let final_tombstone = |lease: i64| {
        rawdoc! {
            "_odm.pending.references.tombstone.token": ObjectId::new(),
            "_odm.pending.references.lease": DateTime::from_millis(lease),
        }
    };
    write_tombstone(1, final_tombstone(0)).await;
    write_tombstone(3, final_tombstone(1)).await;
    let error = db.run_pending().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restricted, "{error}");
    assert_eq!(count_documents(&db).await, (2, 4, 4), "team 3 is deleted");
    db.delete_many::<Badge>(|b| b.team().eq(Ref::new(1)))
        .await
        .unwrap();
    assert_eq!(db.run_pending().await.unwrap(), 1);
    assert_eq!(count_documents(&db).await, (1, 2, 2));
    assert_clean_without_pending_work(&db, &fixture).await;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "shapes")]
#[serde(tag = "kind")]
enum Shape {
    Circle(Circle),
    Square(Square),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
struct Circle {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
struct Square {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "wheels")]
struct Wheel {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    rim: Rim,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Rim {
    #[reference(exists)]
    circle: Ref<Circle>,
    #[reference(exists)]
    hub: Option<Ref<Shape>>,
}

#[derive(Schema)]
#[schema(models(Shape, Wheel))]
struct Drawing;

/// A document that is referenced as a variant cannot change to a different variant.
pub async fn a_referenced_variant_cannot_change(fixture: Fixture) {
    let db = odm::Database::<Drawing>::with_backend(fixture.backend());
    let wheel = |id, circle: i64, hub: i64| Wheel {
        id,
        rim: Rim {
            circle: Ref::new(circle),
            hub: Some(Ref::new(hub)),
        },
    };
    db.insert(Circle { id: 1 }).await.unwrap();
    db.insert(Square { id: 2 }).await.unwrap();
    db.insert(wheel(1, 1, 2)).await.unwrap();
    let error = db.insert(wheel(2, 2, 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Dangling, "no circle");
    let becomes = async |id: i64, shape: Shape| {
        let mut edited = db.edit::<Shape>(id).await.unwrap();
        *edited = shape;
        db.save(&mut edited).await.map(drop)
    };
    let square = Shape::Square(Square { id: 1 });
    let error = becomes(1, square).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.id()),
        (ErrorKind::Unsupported, Some(&1_i64.into())),
        "{error}"
    );
    let text = error.to_string();
    assert!(text.contains("`rim.circle` of Wheel"), "{text}");
    db.get::<Circle>(1).await.unwrap();
    // No reference requires document 2 to be a square.
    becomes(2, Shape::Circle(Circle { id: 2 })).await.unwrap();
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "visits")]
struct Visit {
    #[serde(rename = "_id")]
    id: i64,
    #[index(expire_after_seconds = 60)]
    until: DateTime,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "carts")]
struct Cart {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    of: OfVisit,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct OfVisit {
    #[reference(on_delete = cascade)]
    visit: Ref<Visit>,
}

#[derive(Schema)]
#[schema(models(Cart, Visit))]
struct Visits;

/// A TTL index would delete documents and leave dangling references.
pub async fn a_ttl_index_on_targets_is_refused(fixture: Fixture) {
    let db = odm::Database::<Visits>::with_backend(fixture.backend());
    let error = db.sync_indexes().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(
        text.contains("`of.visit` of Cart") && text.contains("on_delete = keep"),
        "{text}"
    );
    let created = fixture.backend().list_indexes("carts").await.unwrap();
    assert_eq!(created, [], "nothing was created before");
}

/// A parent with a count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "places")]
struct Spot {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Look::spot)]
    looks: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "looks")]
struct Look {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    spot: Ref<Spot>,
    #[index(expire_after_seconds = 60)]
    until: DateTime,
}

#[derive(Schema)]
#[schema(models(Spot, Look))]
struct Counted;

/// A source with a copy that a delete clears.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "offers")]
struct Offer {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[index(expire_after_seconds = 60)]
    until: DateTime,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "pages")]
struct Sheet {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = keep)]
    offer: Ref<Offer>,
    #[denormalize(from = offer.name, on_delete = clear)]
    offered: Option<String>,
}

#[derive(Schema)]
#[schema(models(Offer, Sheet))]
struct Copied;

/// A TTL index would leave counts too high and copies that should be cleared.
pub async fn a_ttl_index_on_sources_is_refused(fixture: Fixture) {
    async fn refused<S: Schema>(fixture: &Fixture, derived: &str) {
        let db = odm::Database::<S>::with_backend(fixture.backend());
        let error = db.sync_indexes().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(
            text.contains(derived) && text.contains("`expire_after_seconds`"),
            "{text}"
        );
    }
    refused::<Counted>(&fixture, "`looks` of Spot").await;
    refused::<Copied>(&fixture, "`offered` of Sheet").await;
    let created = fixture.backend().list_collections().await.unwrap();
    assert_eq!(created, Vec::<String>::new(), "nothing was created before");
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "members")]
struct PlainMember {
    #[serde(rename = "_id")]
    id: i64,
    team: i64,
}

#[derive(Schema)]
#[schema(models(PlainMember))]
struct Plain;

/// A model without references does not need the intent records of an earlier schema. Recovery removes the records.
pub async fn recovery_removes_obsolete_intent_records(fixture: Fixture) {
    let before = Db::with_backend(fixture.backend());
    before.sync_indexes().await.unwrap();
    before.insert(Team { id: 1 }).await.unwrap();
    let intents = [
        rawdoc! { "token": ObjectId::new(), "committed": true },
        rawdoc! { "token": ObjectId::new(), "old": { "team": 1_i64 }, "new": {} },
    ];
    for (id, intent) in (1_i64..).zip(intents) {
        before.insert(member(id, 1)).await.unwrap();
        let update = UpdateOperation {
            collection: "members".into(),
            filter: rawdoc! { "_id": id },
            change: DocumentChange::operators(rawdoc! { "$set": {
                "_odm.pending.references.intent": intent,
                "_odm.pending.references.lease": DateTime::from_millis(0),
            } }),
            multi: false,
            upsert: false,
            origin: Default::default(),
        };
        fixture.backend().update(update).await.unwrap();
    }
    let db = odm::Database::<Plain>::with_backend(fixture.backend());
    assert_eq!(db.run_pending().await.unwrap(), 2);
    let remaining = CountOperation {
        collection: "members".into(),
        filter: rawdoc! { "$or": [
            { "_odm.pending.references.intent": { "$exists": true } },
            { "_odm.pending.references.lease": { "$exists": true } },
        ] },
        limit: None,
        options: Default::default(),
    };
    assert_eq!(fixture.backend().count(remaining).await.unwrap(), 0);
}

/// On a standalone server, a delete that meets another write removes all tombstones before the next attempt.
pub async fn a_retried_delete_leaves_no_tombstone(fixture: Fixture) {
    if fixture.backend().capabilities().transactions {
        return;
    }
    let db = Db::with_backend(fixture.backend());
    insert_club(&db).await;
    // Another process writes to one of the two badges of the team.
    let in_one_hour = DateTime::now().timestamp_millis() + 3_600_000;
    let intent = rawdoc! { "token": ObjectId::new(), "old": {}, "new": {} };
    let update = UpdateOperation {
        collection: "badges".into(),
        filter: rawdoc! { "_id": 10_i64 },
        change: DocumentChange::operators(rawdoc! { "$set": {
            "_odm.pending.references.intent": intent,
            "_odm.pending.references.lease": DateTime::from_millis(in_one_hour),
        } }),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    assert_eq!(fixture.backend().update(update).await.unwrap().matched, 1);

    let faults = Arc::new(Faults::new(fixture.backend()));
    faults.inject(2, writes_team_tombstone, Fault::HangBefore);
    let deleting = Db::with_backend(faults.clone());
    let delete = tokio::spawn(async move { deleting.delete::<Team>(1).await.map(drop) });
    while faults.pending() > 0 {
        assert!(
            !delete.is_finished(),
            "the delete ended in its first attempt"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_no_tombstones(&fixture).await;
    delete.abort();
}

/// Whether an operation writes a tombstone to a team.
fn writes_team_tombstone(operation: &Operation) -> bool {
    let Operation::Update(update) = operation else {
        return false;
    };
    let DocumentChange::Operators {
        update: operators, ..
    } = &update.change
    else {
        return false;
    };
    let set = operators.get_document("$set");
    update.collection == "teams"
        && set.is_ok_and(|set| {
            set.get("_odm.pending.references.tombstone.token")
                .is_ok_and(|token| token.is_some())
        })
}

/// Deletes teams while badges and loans are inserted: no order of the writes leaves a dangling reference.
pub async fn concurrent_writes_leave_no_dangling_references(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_club(&db).await;
    let workers = (0..6_i64).map(|worker| {
        let db = db.clone();
        tokio::spawn(async move {
            let mut random = worker.unsigned_abs() + 1;
            for n in 0..25 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let number = (random >> 33).cast_signed();
                let (team, id) = (1 + number % 2, 10 + number / 2 % 4);
                let done = match number / 8 % 8 {
                    0 => db.insert(Team { id: team }).await.map(drop),
                    1 => db.delete::<Team>(team).await.map(drop),
                    2 => db.insert(member(id, team)).await.map(drop),
                    3 | 4 => db
                        .insert(badge(id, 10 + number / 3 % 4, team))
                        .await
                        .map(drop),
                    5 => db.insert(loan(worker * 100 + n, id)).await.map(drop),
                    6 => db.delete_many::<Loan>(|_| Filter::all()).await.map(drop),
                    _ => db.delete::<Member>(id).await.map(drop),
                };
                if let Err(error) = done {
                    assert!(
                        matches!(
                            error.kind(),
                            ErrorKind::NotFound
                                | ErrorKind::DuplicateKey
                                | ErrorKind::Dangling
                                | ErrorKind::Restricted
                                | ErrorKind::Conflict
                        ),
                        "{error}"
                    );
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    assert_clean_without_pending_work(&db, &fixture).await;
    assert_eq!(db.run_pending().await.unwrap(), 0);
}

const WRITES: &[Write<Club>] = &[
    ("delete a team", |db| {
        Box::pin(async move { db.delete::<Team>(1).await.map(drop) })
    }),
    ("delete a team that is kept", |db| {
        Box::pin(async move { db.delete::<Team>(2).await.map(drop) })
    }),
    ("delete all steps", |db| {
        Box::pin(async move { db.delete_many::<Step>(|_| Filter::all()).await.map(drop) })
    }),
];

pub async fn crashed_deletes_leave_no_dangling_references(fixture: Fixture) {
    let crashes = CrashTest {
        writes: WRITES,
        begin: |db| {
            Box::pin(async move {
                insert_club(db).await;
                db.insert(loan(1, 22)).await.unwrap();
                db.insert_many([step(1, None)]).await.unwrap();
                db.insert(step(2, Some(1))).await.unwrap();
            })
        },
        may_find: |_| false,
        agrees: |db, when| {
            Box::pin(async move {
                assert_eq!(db.run_pending().await.unwrap(), 0, "{when}");
                let (teams, members, badges) = count_documents(db).await;
                assert_eq!((members, badges), (teams * 2, teams * 2), "{when}");
                // The crash left no tombstone: the application can write again.
                db.delete_many::<Loan>(|_| Filter::all()).await.unwrap();
                db.delete_many::<Team>(|_| Filter::all()).await.unwrap();
                assert_eq!(count_documents(db).await, (0, 0, 0), "{when}");
                db.delete_many::<Step>(|_| Filter::all()).await.unwrap();
            })
        },
    };
    crashes.run(&fixture).await;
}
