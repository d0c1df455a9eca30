//! Deletions of several documents: what keeps them from going is asked of all of them together.

use std::{sync::Arc, time::Duration};

use odm::{
    ErrorKind, Filter,
    backend::{
        Fault, Faults,
        operation::{Change, Count, Operation, Update},
    },
    bson::{RawDocumentBuf, rawdoc},
    prelude::*,
};

use crate::Fixture;
use crate::crash::{Crashes, Write};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "teams")]
struct Team {
    #[serde(rename = "_id")]
    id: i64,
}

/// Goes with its team.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "members")]
struct Member {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    team: Ref<Team>,
}

/// Keeps its member, and goes with the team.
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

/// Keeps its badge, and goes with nothing.
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

/// Keeps what it needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "steps")]
struct Step {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = restrict)]
    needs: Option<Ref<Step>>,
}

#[derive(Schema)]
#[schema(models(Team, Member, Badge, Loan, Step))]
struct Club;
type Db = odm::Database<Club>;

/// The same in another order.
#[derive(Schema)]
#[schema(models(Step, Loan, Badge, Member, Team))]
struct Bulc;

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

async fn club(db: &Db) {
    for team in [1, 2] {
        db.insert(Team { id: team }).await.unwrap();
        for id in [10, 11] {
            db.insert(member(id * team, team)).await.unwrap();
            db.insert(badge(id * team, id * team, team)).await.unwrap();
        }
    }
}

/// How many teams, members and badges there are.
async fn count(db: &Db) -> (u64, u64, u64) {
    (
        db.find::<Team>().count().await.unwrap(),
        db.find::<Member>().count().await.unwrap(),
        db.find::<Badge>().count().await.unwrap(),
    )
}

async fn assert_at_rest(db: &Db, fixture: &Fixture) {
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
    assert_no_tombstones(fixture).await;
}

async fn assert_no_tombstones(fixture: &Fixture) {
    for collection in ["teams", "members", "badges", "loans"] {
        let tombstones = Count {
            collection: collection.into(),
            filter: rawdoc! { "_odm.going": { "$exists": true } },
            limit: None,
            max_time: None,
        };
        let count = fixture.backend().count(tombstones).await.unwrap();
        assert_eq!(count, 0, "{collection}");
    }
}

pub async fn what_goes_with_it_keeps_nothing(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let other = odm::Database::<Bulc>::with_backend(fixture.backend());
    club(&db).await;
    // A badge keeps its member alone.
    let error = db.delete::<Member>(10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restricted);
    // Both go with their team, in whatever order the models are.
    for dry in [
        db.delete::<Team>(1).dry_run().await.unwrap(),
        other.delete::<Team>(1).dry_run().await.unwrap(),
    ] {
        assert!(dry.refused.is_none(), "{dry}");
        assert_eq!(dry.deleted["members"] + dry.deleted["badges"], 4);
    }
    assert_eq!(db.delete::<Team>(1).await.unwrap().deleted, 1);
    assert_eq!(count(&db).await, (1, 2, 2));
    assert_eq!(other.delete::<Team>(2).await.unwrap().deleted, 1);
    assert_eq!(count(&db).await, (0, 0, 0));
    assert_at_rest(&db, &fixture).await;

    // So do documents of one model that are deleted together.
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
    assert!(dry.unwrap().refused.is_some());
    let gone = db.delete_many::<Step>(|_| Filter::all());
    assert_eq!(gone.await.unwrap().deleted, 4);
}

pub async fn what_stays_keeps_all_of_it(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    club(&db).await;
    db.insert(loan(1, 11)).await.unwrap();
    let before = count(&db).await;
    // Two levels down, and by another reference than that by which it would go.
    let dry = db.delete::<Team>(1).dry_run().await.unwrap();
    let error = db.delete::<Team>(1).await.unwrap_err();
    let refused = dry.refused.unwrap();
    for error in [&error, &refused] {
        assert_eq!(
            (error.kind(), error.id()),
            (ErrorKind::Restricted, Some(&11_i64.into()))
        );
        let text = error.to_string();
        assert!(
            text.contains("1 document of loans refer to it by `items.badge`"),
            "{text}"
        );
    }
    assert_eq!(count(&db).await, before, "nothing has gone");
    assert_at_rest(&db, &fixture).await;
    // Everything can be written as before.
    db.insert(badge(12, 10, 1)).await.unwrap();
    db.delete::<Loan>(1).await.unwrap();
    db.delete::<Team>(1).await.unwrap();
    assert_eq!(count(&db).await, (1, 2, 2));
    assert_at_rest(&db, &fixture).await;
}

/// A tree of documents that go together, each of which lists what it has.
mod tree {
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

/// What is in one of a model keeps others of it that it goes with.
pub async fn what_is_below_keeps_what_is_above(fixture: Fixture) {
    let db = odm::Database::<tree::Disk>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    for (id, parent) in [(1, None), (2, Some(1)), (3, Some(2))] {
        let parent = parent.map(Ref::new);
        db.insert(tree::NewFolder { id, parent }).await.unwrap();
    }
    let folder = Ref::new(3);
    db.insert(tree::File { id: 1, folder }).await.unwrap();
    let error = db.delete::<tree::Folder>(1).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.id()),
        (ErrorKind::Restricted, Some(&3_i64.into()))
    );
    assert_eq!(db.find::<tree::Folder>().count().await.unwrap(), 3);
    db.settle().await.unwrap();
    assert!(db.check().await.unwrap().is_clean());
    db.delete::<tree::File>(1).await.unwrap();
    db.delete::<tree::Folder>(1).await.unwrap();
    assert_eq!(db.find::<tree::Folder>().count().await.unwrap(), 0);
}

/// A deletion that is not decided may be refused: whoever refers to its document meanwhile waits.
pub async fn what_may_stay_can_be_referred_to(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    club(&db).await;
    let mark = async |due: i64| {
        let due = DateTime::from_millis(DateTime::now().timestamp_millis() + due);
        let mark = rawdoc! { "$set": {
            "_odm.going": ObjectId::new(),
            "_odm.closing": true,
            "_odm.due": due,
        } };
        let update = Update {
            collection: "members".into(),
            filter: rawdoc! { "_id": 10_i64 },
            change: Change::operators(mark),
            multi: false,
            upsert: false,
        };
        fixture.backend().update(update).await.unwrap();
    };
    // Nobody is at it any more: a badge keeps the member, so it stays.
    mark(-1).await;
    db.insert(badge(50, 10, 1)).await.unwrap();
    assert_at_rest(&db, &fixture).await;
    // Somebody may be: it is waited for.
    mark(60_000).await;
    let writer = {
        let db = db.clone();
        tokio::spawn(async move {
            db.update::<Badge>(11)
                .set(|b| b.member(), Ref::new(10))
                .await
        })
    };
    tokio::time::sleep(Duration::from_millis(30)).await;
    mark(-1).await;
    writer.await.unwrap().unwrap();
    assert_at_rest(&db, &fixture).await;
}

/// One that cannot be finished keeps none of the others.
pub async fn all_that_can_be_is_settled(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    club(&db).await;
    let mark = async |id: i64, mark: RawDocumentBuf| {
        let update = Update {
            collection: "teams".into(),
            filter: rawdoc! { "_id": id },
            change: Change::operators(rawdoc! { "$set": mark }),
            multi: false,
            upsert: false,
        };
        fixture.backend().update(update).await.unwrap();
    };
    // As if the one had become final though badges keep its members.
    db.insert(Team { id: 3 }).await.unwrap();
    db.insert(member(30, 3)).await.unwrap();
    let final_ = |due: i64| rawdoc! { "_odm.going": ObjectId::new(), "_odm.due": DateTime::from_millis(due) };
    mark(1, final_(0)).await;
    mark(3, final_(1)).await;
    let error = db.settle().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restricted, "{error}");
    assert_eq!(count(&db).await, (2, 4, 4), "the other one has gone");
    db.delete_many::<Badge>(|b| b.team().eq(Ref::new(1)))
        .await
        .unwrap();
    assert_eq!(db.settle().await.unwrap(), 1);
    assert_eq!(count(&db).await, (1, 2, 2));
    assert_at_rest(&db, &fixture).await;
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

/// What a reference leads to by its variant does not become another one.
pub async fn a_variant_that_is_referred_to_stays_one(fixture: Fixture) {
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
    // No rule leads to squares alone.
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

/// An index that deletes documents would leave what refers to them.
pub async fn what_is_referred_to_does_not_expire(fixture: Fixture) {
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

/// A source with a copy that a deletion clears.
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

/// Counts would stay too high, and cleared copies would stay.
pub async fn what_others_are_derived_from_does_not_expire(fixture: Fixture) {
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

/// Without its links, a model has nothing to keep of what was begun with them.
pub async fn what_was_begun_with_links_of_before_is_cleared(fixture: Fixture) {
    let before = Db::with_backend(fixture.backend());
    before.sync_indexes().await.unwrap();
    before.insert(Team { id: 1 }).await.unwrap();
    let promises = [
        rawdoc! { "token": ObjectId::new(), "applied": true },
        rawdoc! { "token": ObjectId::new(), "before": { "team": 1_i64 }, "wanted": {} },
    ];
    for (id, promise) in (1_i64..).zip(promises) {
        before.insert(member(id, 1)).await.unwrap();
        let update = Update {
            collection: "members".into(),
            filter: rawdoc! { "_id": id },
            change: Change::operators(rawdoc! { "$set": {
                "_odm.link": promise,
                "_odm.due": DateTime::from_millis(0),
            } }),
            multi: false,
            upsert: false,
        };
        fixture.backend().update(update).await.unwrap();
    }
    let db = odm::Database::<Plain>::with_backend(fixture.backend());
    assert_eq!(db.settle().await.unwrap(), 2);
    let left = Count {
        collection: "members".into(),
        filter: rawdoc! { "$or": [
            { "_odm.link": { "$exists": true } },
            { "_odm.due": { "$exists": true } },
        ] },
        limit: None,
        max_time: None,
    };
    assert_eq!(fixture.backend().count(left).await.unwrap(), 0);
}

/// On a standalone server, a delete that meets another write removes all tombstones before the next attempt.
pub async fn a_delete_that_tries_again_leaves_no_tombstone(fixture: Fixture) {
    if fixture.backend().capabilities().transactions {
        return;
    }
    let db = Db::with_backend(fixture.backend());
    club(&db).await;
    // Another process writes to one of the two badges of the team.
    let in_one_hour = DateTime::now().timestamp_millis() + 3_600_000;
    let intent = rawdoc! { "token": ObjectId::new(), "before": {}, "wanted": {} };
    let update = Update {
        collection: "badges".into(),
        filter: rawdoc! { "_id": 10_i64 },
        change: Change::operators(rawdoc! { "$set": {
            "_odm.link": intent,
            "_odm.due": DateTime::from_millis(in_one_hour),
        } }),
        multi: false,
        upsert: false,
    };
    assert_eq!(fixture.backend().update(update).await.unwrap().matched, 1);

    let faults = Arc::new(Faults::new(fixture.backend()));
    faults.inject(2, marks_a_team, Fault::HangBefore);
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
fn marks_a_team(operation: &Operation) -> bool {
    let Operation::Update(update) = operation else {
        return false;
    };
    let Change::Operators {
        update: operators, ..
    } = &update.change
    else {
        return false;
    };
    let set = operators.get_document("$set");
    update.collection == "teams"
        && set.is_ok_and(|set| set.get("_odm.going").is_ok_and(|mark| mark.is_some()))
}

/// Teams are deleted while badges and loans are given: whatever comes first, nothing dangles.
pub async fn many_at_once_leave_nothing_dangling(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    club(&db).await;
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
    assert_at_rest(&db, &fixture).await;
    assert_eq!(db.settle().await.unwrap(), 0);
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

pub async fn wherever_a_deletion_dies_nothing_dangles(fixture: Fixture) {
    let crashes = Crashes {
        writes: WRITES,
        begin: |db| {
            Box::pin(async move {
                club(db).await;
                db.insert(loan(1, 22)).await.unwrap();
                db.insert_many([step(1, None)]).await.unwrap();
                db.insert(step(2, Some(1))).await.unwrap();
            })
        },
        may_find: |_| false,
        agrees: |db, when| {
            Box::pin(async move {
                assert_eq!(db.settle().await.unwrap(), 0, "{when}");
                let (teams, members, badges) = count(db).await;
                assert_eq!((members, badges), (teams * 2, teams * 2), "{when}");
                // Everything can be written again.
                db.delete_many::<Loan>(|_| Filter::all()).await.unwrap();
                db.delete_many::<Team>(|_| Filter::all()).await.unwrap();
                assert_eq!(count(db).await, (0, 0, 0), "{when}");
                db.delete_many::<Step>(|_| Filter::all()).await.unwrap();
            })
        },
    };
    crashes.run(&fixture).await;
}
