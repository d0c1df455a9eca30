//! References with delete rules as elements of overflow arrays: rules hold for resident, spilled and tail elements.

use std::{collections::BTreeSet, sync::Arc};

use odm::{
    ErrorKind,
    backend::{
        Recorder,
        operation::{DeleteOperation, DocumentChange, Operation, UpdateOperation},
    },
    bson::{RawArrayBuf, RawDocumentBuf, rawdoc},
    check::{FindingKind, RepairOutcome},
    prelude::*,
};
use odm_tests::assert_clean;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Fixture;
use crate::crash::{CrashTest, Write};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    /// References to the same model.
    #[reference(on_delete = pull, overflow(after = 2, into = "more_friends"))]
    friends: Overflow<Ref<Person>>,
}

/// A club; a delete of a person pulls the person from the members.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "clubs")]
struct Club {
    #[serde(rename = "_id")]
    id: i64,
    count: i64,
    #[reference(on_delete = pull, overflow(after = 2, into = "more_members", owner = "club"))]
    members: Overflow<Ref<Person>>,
    /// A second reference with a delete rule.
    #[reference(on_delete = nullify)]
    head: Option<Ref<Person>>,
}

/// A loan; the borrowers cannot be deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "loans")]
struct Loan {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(exists, overflow(after = 2, into = "more_borrowers"))]
    borrowers: Overflow<Ref<Person>>,
}

/// A team; a delete of any player deletes the team.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "teams")]
struct Team {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade, overflow(after = 2, into = "more_players"))]
    players: Overflow<Ref<Person>>,
    /// Restricts deletes of persons, so a delete has to be decided before a document is removed.
    #[reference(exists)]
    captain: Option<Ref<Person>>,
    #[reference(on_delete = keep, overflow(after = 2, into = "more_fans", flag = "more_fans"))]
    fans: Overflow<Ref<Person>>,
}

#[derive(Schema)]
#[schema(models(Person, Club, Loan, Team))]
struct Town;
type Db = odm::Database<Town>;

/// A squad that a delete of a rider cascades to, and that a race can restrict.
mod tour {
    use super::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "riders")]
    pub(super) struct Rider {
        #[serde(rename = "_id")]
        pub(super) id: i64,
    }

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "squads")]
    pub(super) struct Squad {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[reference(on_delete = cascade, overflow(after = 2, into = "more_riders"))]
        pub(super) riders: Overflow<Ref<Rider>>,
    }

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "races")]
    pub(super) struct Race {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[reference(exists)]
        pub(super) winner: Ref<Squad>,
    }

    #[derive(Schema)]
    #[schema(models(Rider, Squad, Race))]
    pub(super) struct Tour;
}

fn refs(ids: impl IntoIterator<Item = i64>) -> Vec<Ref<Person>> {
    ids.into_iter().map(Ref::new).collect()
}

fn person(id: i64, friends: impl IntoIterator<Item = i64>) -> Person {
    let friends = refs(friends).into();
    Person { id, friends }
}

fn club(id: i64, members: impl IntoIterator<Item = i64>) -> Club {
    let members = refs(members);
    Club {
        id,
        count: members.len() as i64,
        members: members.into(),
        head: None,
    }
}

fn team(id: i64, players: impl IntoIterator<Item = i64>) -> Team {
    Team {
        id,
        players: refs(players).into(),
        captain: None,
        fans: Overflow::default(),
    }
}

/// Inserts persons 1 to `people`.
async fn insert_people(db: &Db, people: i64) {
    let people = (1..=people).map(|id| person(id, []));
    db.insert_many(people).await.unwrap();
}

async fn open_with_people(fixture: &Fixture, people: i64) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    insert_people(&db, people).await;
    db
}

async fn members(db: &Db, id: i64) -> Vec<i64> {
    let all = db.get::<Club>(id).elements(|c| c.members()).all().await;
    all.unwrap().iter().map(|one| *one.id()).collect()
}

/// Inserts a club with resident, spilled and tail members.
async fn insert_long_club(db: &Db, id: i64) {
    db.insert(club(id, 1..=12)).await.unwrap();
    for member in 13..=15 {
        let push = db
            .update::<Club>(id)
            .push(|c| c.members(), Ref::new(member))
            .inc(|c| c.count(), 1);
        push.await.unwrap();
    }
}

pub async fn targets_must_exist(fixture: Fixture) {
    let db = open_with_people(&fixture, 40).await;
    insert_long_club(&db, 1).await;
    db.insert(club(2, [1])).await.unwrap();
    let missing = |done: odm::Result<()>| {
        let error = done.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Dangling, "{error}");
    };
    for members in [vec![99], (1..=20).chain([99]).collect()] {
        missing(db.insert(club(3, members.clone())).await.map(drop));
        missing(
            db.insert_many([club(3, [1]), club(4, members.clone())])
                .await
                .map(drop),
        );
        db.delete_many::<Club>(|c| c.id().gt(2)).await.unwrap();
        for id in [1, 2] {
            let update = || db.update::<Club>(id).inc(|c| c.count(), 1_000);
            let (some, added) = (members.clone(), members.clone());
            missing(
                update()
                    .push_each(|c| c.members(), refs(some))
                    .await
                    .map(drop),
            );
            missing(
                update()
                    .add_each_to_set(|c| c.members(), refs(added))
                    .await
                    .map(drop),
            );
            missing(
                update()
                    .set(|c| c.members(), refs(members.clone()))
                    .await
                    .map(drop),
            );
        }
    }
    missing(
        db.insert(Loan {
            id: 1,
            borrowers: refs([1, 2, 3, 99]).into(),
        })
        .await
        .map(drop),
    );
    // No club matches, so no reference is checked.
    let nobody = db.update_many::<Club>(|c| c.id().eq(9));
    let nobody = nobody.push(|c| c.members(), Ref::new(99));
    assert_eq!(nobody.await.unwrap().matched, 0);
    assert_eq!(members(&db, 1).await, (1..=15).collect::<Vec<_>>());
    assert_eq!(members(&db, 2).await, [1]);
    for (id, count) in [(1, 15), (2, 1)] {
        assert_eq!(db.get::<Club>(id).await.unwrap().count, count);
    }
    assert_clean(&db).await;

    // Existing persons are pushed, also together with a change of a second reference.
    let both = db
        .update::<Club>(1)
        .push_each(|c| c.members(), refs(16..=30))
        .set(|c| c.head(), Ref::new(5));
    assert_eq!(both.await.unwrap().matched, 1);
    let one = db.update::<Club>(2).push(|c| c.members(), Ref::new(7));
    let one = one.set(|c| c.head(), Ref::new(99));
    missing(one.await.map(drop));
    let added = db
        .update::<Club>(2)
        .add_each_to_set(|c| c.members(), refs(1..=9));
    added.await.unwrap();
    db.update_many::<Club>(|c| c.id().lt(3))
        .push(|c| c.members(), Ref::new(40))
        .await
        .unwrap();
    assert_eq!(
        members(&db, 1).await,
        (1..=30).chain([40]).collect::<Vec<_>>()
    );
    assert_eq!(
        members(&db, 2).await,
        (1..=9).chain([40]).collect::<Vec<_>>()
    );
    // References in an overflow array cannot be changed in place.
    let all = db
        .update::<Club>(1)
        .set(|c| c.members().all(), Ref::new(99))
        .await;
    assert_eq!(all.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_clean(&db).await;
}

pub async fn a_delete_pulls_resident_and_spilled_references(fixture: Fixture) {
    let db = open_with_people(&fixture, 40).await;
    insert_long_club(&db, 1).await;
    db.insert_many([club(2, [1, 7]), club(3, [40])])
        .await
        .unwrap();
    let mut remaining: Vec<i64> = (1..=15).collect();
    for gone in [1, 7, 12, 15] {
        let preview = db.delete::<Person>(gone).dry_run().await.unwrap();
        let clubs = if gone == 1 || gone == 7 { 2 } else { 1 };
        assert_eq!(preview.changed.get("clubs"), Some(&clubs), "{preview}");
        assert_eq!(db.delete::<Person>(gone).await.unwrap().deleted, 1);
        remaining.retain(|id| *id != gone);
        assert_eq!(members(&db, 1).await, remaining);
        let club = db.get::<Club>(1).await.unwrap();
        assert_eq!(club.members.len(), remaining.len() as u64);
        assert_clean(&db).await;
    }
    assert!(members(&db, 2).await.is_empty());
    // A single delete of many persons, from several clubs.
    insert_long_club_of_remaining_people(&db).await;
    let done = db.delete_many::<Person>(|p| p.id().gt(3)).await.unwrap();
    assert_eq!(done.deleted, 34);
    assert_eq!(members(&db, 1).await, [2, 3]);
    assert!(members(&db, 3).await.is_empty());
    assert_eq!(members(&db, 4).await, [2]);
    assert_clean(&db).await;
}

async fn insert_long_club_of_remaining_people(db: &Db) {
    db.insert(club(4, (16..=30).chain([2]))).await.unwrap();
}

pub async fn resident_and_spilled_references_restrict_deletes(fixture: Fixture) {
    let db = open_with_people(&fixture, 40).await;
    db.insert(Loan {
        id: 1,
        borrowers: refs(1..=12).into(),
    })
    .await
    .unwrap();
    let push = db.update::<Loan>(1).push(|l| l.borrowers(), Ref::new(13));
    push.await.unwrap();
    for kept in [1, 7, 13] {
        let error = db.delete::<Person>(kept).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Restricted, "{error}");
        let preview = db.delete::<Person>(kept).dry_run().await.unwrap();
        assert_eq!(preview.error.unwrap().kind(), ErrorKind::Restricted);
    }
    let error = db
        .delete_many::<Person>(|p| p.id().gt(12))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restricted, "{error}");
    assert!(
        db.find::<Person>()
            .filter(|p| p.id().eq(13))
            .count()
            .await
            .unwrap()
            == 1
    );
    let pull = db.update::<Loan>(1).pull(|l| l.borrowers(), Ref::new(7));
    pull.await.unwrap();
    assert_eq!(db.delete::<Person>(7).await.unwrap().deleted, 1);
    db.delete::<Loan>(1).await.unwrap();
    assert_eq!(db.delete::<Person>(13).await.unwrap().deleted, 1);
    assert_clean(&db).await;
}

pub async fn spilled_references_cascade_deletes(fixture: Fixture) {
    let db = open_with_people(&fixture, 40).await;
    let teams = [
        team(1, 1..=12),
        team(2, [1]),
        team(3, 20..=40),
        team(4, [13]),
    ];
    db.insert_many(teams).await.unwrap();
    // `fans` keeps references to deleted persons.
    let fans = db.update::<Team>(4).push_each(|t| t.fans(), refs(1..=20));
    fans.await.unwrap();
    let preview = db.delete::<Person>(1).dry_run().await.unwrap();
    assert_eq!(preview.deleted.get("teams"), Some(&2), "{preview}");
    db.delete::<Person>(1).await.unwrap();
    db.delete::<Person>(30).await.unwrap();
    let remaining = db.find::<Team>().all().await.unwrap();
    assert_eq!(
        remaining.iter().map(|team| team.id).collect::<Vec<_>>(),
        [4]
    );
    let fans = db
        .get::<Team>(4)
        .elements(|t| t.fans())
        .all()
        .await
        .unwrap();
    assert_eq!(fans.len(), 20);
    // No spilled elements of deleted teams are left.
    assert_clean(&db).await;
}

/// Documents of one insert may reference documents of the same insert, the referrer included. Resident and spilled elements may
/// do so.
pub async fn documents_of_one_insert_can_reference_each_other(fixture: Fixture) {
    let db = open_with_people(&fixture, 0).await;
    db.insert(person(1, [1, 1, 1, 1])).await.unwrap();
    let has_transactions = fixture.backend().capabilities().transactions;
    if has_transactions {
        // Without transactions, documents are inserted in sequence, so a cycle is not possible.
        let circle = (2..=6).map(|id| person(id, (2..=6).filter(move |other| *other != id)));
        db.insert_many(circle).await.unwrap();
        assert_clean(&db).await;
        db.delete::<Person>(4).await.unwrap();
        let friends = db.get::<Person>(2).elements(|p| p.friends()).all().await;
        assert_eq!(friends.unwrap(), refs([3, 5, 6]));
    }
    let error = db.insert(person(7, [1, 1, 1, 8])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Dangling, "{error}");
    assert_clean(&db).await;
    db.delete_many::<Person>(|p| p.id().gt(0)).await.unwrap();
    assert_clean(&db).await;
}

/// Pushes more references than one query checks.
pub async fn many_targets_are_checked_in_batches(fixture: Fixture) {
    let db = open_with_people(&fixture, 2_500).await;
    db.insert(club(1, [])).await.unwrap();
    let push = db
        .update::<Club>(1)
        .push_each(|c| c.members(), refs(1..=2_501));
    assert_eq!(push.await.unwrap_err().kind(), ErrorKind::Dangling);
    let push = db
        .update::<Club>(1)
        .push_each(|c| c.members(), refs(1..=2_500));
    push.await.unwrap();
    assert_eq!(members(&db, 1).await, (1..=2_500).collect::<Vec<_>>());
    assert_clean(&db).await;
}

pub async fn indexes_of_overflow_references_are_declared_once(fixture: Fixture) {
    let db = open_with_people(&fixture, 1).await;
    let second = db.sync_indexes().drop_undeclared().await.unwrap();
    assert!(
        second.created.is_empty() && second.undeclared.is_empty(),
        "{second}"
    );
    assert!(
        second.dropped.is_empty() && second.differing.is_empty(),
        "{second}"
    );
}

/// Deletes more referrers than one batch holds, with the reference in the tail. A single restricted squad stops the whole delete.
pub async fn large_cascades_are_atomic(fixture: Fixture) {
    use tour::{Race, Rider, Squad};
    const SQUADS: i64 = 1_050;
    let db = odm::Database::<tour::Tour>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db.insert_many((1..=3).map(|id| Rider { id }))
        .await
        .unwrap();
    let squad = |id: i64| {
        rawdoc! {
            "_id": id, "riders": [1_i64, 2_i64], "has_extras": true,
            "_odm": { "overflow": { "riders": { "tail": [3_i64] } } },
        }
    };
    let insert = odm::backend::operation::InsertOperation {
        collection: "squads".into(),
        documents: (1..=SQUADS).map(squad).collect(),
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    assert_clean(&db).await;
    let race = Race {
        id: 1,
        winner: Ref::new(SQUADS - 10),
    };
    db.insert(race).await.unwrap();
    let error = db.delete::<Rider>(3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restricted, "{error}");
    db.run_pending().await.unwrap();
    let counts = (
        db.find::<Squad>().count().await.unwrap(),
        db.find::<Rider>().count().await.unwrap(),
    );
    assert_eq!(counts, (SQUADS as u64, 3));
    assert_clean(&db).await;

    db.delete::<Race>(1).await.unwrap();
    db.delete::<Rider>(3).await.unwrap();
    assert_eq!(db.find::<Squad>().count().await.unwrap(), 0);
    assert_clean(&db).await;
}

pub async fn delete_rules_apply_in_transactions(fixture: Fixture) {
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let db = open_with_people(&fixture, 40).await;
    insert_long_club(&db, 1).await;
    let done = db
        .transaction(async |tx| {
            tx.insert(person(50, [])).await?;
            let push = tx
                .update::<Club>(1)
                .push_each(|c| c.members(), refs([50, 20]));
            push.await?;
            tx.delete::<Person>(7).await?;
            tx.delete::<Person>(50).await
        })
        .await;
    done.unwrap();
    let expected: Vec<_> = (1..=15).filter(|id| *id != 7).chain([20]).collect();
    assert_eq!(members(&db, 1).await, expected);
    assert_clean(&db).await;
}

/// Concurrent deletes and pushes leave no reference to a deleted person.
pub async fn concurrent_writes_leave_no_dangling_references(fixture: Fixture) {
    let db = open_with_people(&fixture, 300).await;
    db.insert_many([club(1, []), club(2, 1..=20)])
        .await
        .unwrap();
    db.insert(Loan {
        id: 1,
        borrowers: Overflow::default(),
    })
    .await
    .unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8_i64 {
        let db = db.clone();
        tasks.spawn(async move {
            let mut random = ChaCha8Rng::seed_from_u64(task.unsigned_abs());
            for _ in 0..12 {
                let from = random.random_range(1..=280);
                let id = random.random_range(1..=2);
                let update = || db.update::<Club>(id);
                let done = match random.random_range(0..6) {
                    0 => db.delete::<Person>(from).await.map(drop),
                    1 => update()
                        .push_each(|c| c.members(), refs(from..from + 12))
                        .await
                        .map(drop),
                    2 => update()
                        .add_each_to_set(|c| c.members(), refs(from..from + 3))
                        .await
                        .map(drop),
                    3 => update()
                        .pull(|c| c.members(), Ref::new(from))
                        .await
                        .map(drop),
                    4 => db
                        .update::<Loan>(1)
                        .push(|l| l.borrowers(), Ref::new(from))
                        .await
                        .map(drop),
                    _ => update()
                        .push(|c| c.members(), Ref::new(from))
                        .await
                        .map(drop),
                };
                if let Err(error) = done {
                    let kinds = [
                        ErrorKind::Conflict,
                        ErrorKind::Dangling,
                        ErrorKind::Restricted,
                    ];
                    assert!(kinds.contains(&error.kind()), "{error}");
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
    assert!(db.get::<Club>(1).await.unwrap().members.has_more());
}

/// A push costs the same number of operations for 20 and for 500 elements. The delete rule adds a read of both documents, and a
/// transaction or an intent record.
pub async fn operations_of_a_push_with_a_delete_rule(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.sync_indexes().await.unwrap();
    insert_people(&db, 600).await;
    db.insert_many([club(1, [1]), club(2, 1..=20), club(3, 1..=500)])
        .await
        .unwrap();
    // With transactions: read the club, read the person, push, commit. Without transactions: read the club twice, write the
    // intent record, read the club and the person, push, read the club, clear the pending work.
    let base = match fixture.backend().capabilities().transactions {
        true => 4,
        false => 8,
    };
    for (id, cost) in [(1, base), (2, base + 1), (3, base + 1)] {
        recorder.clear();
        let push = db.update::<Club>(id).push(|c| c.members(), Ref::new(600));
        push.await.unwrap();
        let operations = recorder.operations();
        // `Begin` is sent with the first operation of the transaction.
        let sent = operations
            .iter()
            .filter(|one| !matches!(one, Operation::Begin));
        assert_eq!(sent.count(), cost, "{id}");
    }
}

const WRITES: &[Write<Town>] = &[
    ("an insert", |db| {
        Box::pin(async move { db.insert(club(2, 1..=9)).await.map(drop) })
    }),
    ("a push", |db| {
        Box::pin(async move {
            let push = db.update::<Club>(1).push(|c| c.members(), Ref::new(20));
            push.inc(|c| c.count(), 1).await.map(drop)
        })
    }),
    ("a push of many", |db| {
        Box::pin(async move {
            let push = db
                .update::<Club>(1)
                .push_each(|c| c.members(), refs(16..=30));
            push.inc(|c| c.count(), 15).await.map(drop)
        })
    }),
    // Without transactions, the delete has well over 100 steps, and the test crashes at each step.
    ("a deletion of who is outside", |db| {
        Box::pin(async move { db.delete::<Person>(35).await.map(drop) })
    }),
];

pub async fn crashed_writes_leave_no_dangling_references(fixture: Fixture) {
    let crashes = CrashTest {
        writes: WRITES,
        begin: |db| {
            Box::pin(async move {
                db.sync_indexes().await.unwrap();
                insert_people(db, 40).await;
                insert_long_club(db, 1).await;
                // Documents that the delete rules change and delete.
                db.insert(club(3, 30..=40)).await.unwrap();
                db.insert(team(1, 25..=38)).await.unwrap();
            })
        },
        may_find: |_| false,
        agrees: |db, when| {
            Box::pin(async move {
                let club = db.get::<Club>(1).await.unwrap();
                assert_eq!(club.count, club.members.len() as i64, "{when}");
                let existing = db.find::<Person>().all().await.unwrap();
                let existing: BTreeSet<_> = existing.iter().map(|person| person.id).collect();
                let gone = members(db, 3)
                    .await
                    .into_iter()
                    .find(|id| !existing.contains(id));
                assert_eq!(gone, None, "{when}");
                let teams = db.find::<Team>().count().await.unwrap();
                let players = (25..=38).all(|id| existing.contains(&id));
                assert_eq!(teams == 1, players, "{when}");
                let second = db
                    .update::<Club>(1)
                    .push_each(|c| c.members(), refs(1..=12));
                second
                    .await
                    .unwrap_or_else(|error| panic!("{when}: {error}"));
            })
        },
    };
    crashes.run(&fixture).await;
}

pub async fn the_check_finds_dangling_spilled_references(fixture: Fixture) {
    let db = open_with_people(&fixture, 40).await;
    insert_long_club(&db, 1).await;
    db.insert(team(1, 20..=40)).await.unwrap();
    for gone in [1_i64, 7, 15, 30] {
        let delete = DeleteOperation {
            collection: "people".into(),
            filter: rawdoc! { "_id": gone },
            multi: false,
            origin: Default::default(),
        };
        fixture.backend().delete(delete).await.unwrap();
    }
    let report = db.check().await.unwrap();
    let found: BTreeSet<_> = report.findings.iter().map(ToString::to_string).collect();
    let expected = [
        "clubs 1, `members.0`: refers to 1 in people, which does not exist",
        "clubs 1, `members.6`: refers to 7 in people, which does not exist",
        "clubs 1, `members.14`: refers to 15 in people, which does not exist",
        "teams 1, `players.10`: refers to 30 in people, which does not exist",
    ];
    assert_eq!(found, expected.map(str::to_owned).into());
    assert!(matches!(
        report.findings[0].kind,
        FindingKind::Dangling { to: "people", .. }
    ));
    let repaired = db.repair().apply().await.unwrap();
    for step in &repaired.steps {
        assert!(matches!(step.outcome, RepairOutcome::Done), "{step}");
    }
    let expected: Vec<_> = (2..=14).filter(|id| *id != 7).collect();
    assert_eq!(members(&db, 1).await, expected);
    assert_eq!(db.find::<Team>().count().await.unwrap(), 0);
    assert_clean(&db).await;
}

/// A long array that was stored by hand becomes an overflow array, and the delete rule holds.
pub async fn delete_rules_apply_to_existing_arrays(fixture: Fixture) {
    let db = open_with_people(&fixture, 40).await;
    db.insert(club(1, [])).await.unwrap();
    let long: RawDocumentBuf =
        rawdoc! { "$set": { "members": (1..=20_i64).collect::<RawArrayBuf>() } };
    let write = UpdateOperation {
        collection: "clubs".into(),
        filter: rawdoc! { "_id": 1_i64 },
        change: DocumentChange::operators(long),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    fixture.backend().update(write).await.unwrap();
    assert_eq!(db.arrays::<Club>().spill().await.unwrap(), 1);
    db.delete_many::<Person>(|p| p.id().lt(19)).await.unwrap();
    assert_eq!(members(&db, 1).await, [19, 20]);
    db.arrays::<Club>().fold().await.unwrap();
    assert_eq!(members(&db, 1).await, [19, 20]);
    assert_clean(&db).await;
}
