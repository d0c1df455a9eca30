//! `sync_indexes` with conflicts: every index is tried, the report is complete, and a replacement is built before the drop.

use std::time::Duration;

use odm::{
    Database, ErrorKind,
    backend::{
        Fault, Faults, Recorder,
        operation::{Direction, Index, Operation},
    },
    prelude::*,
};
use odm_tests::assert_clean;

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[index(unique)]
    ssn: String,
    #[index]
    name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "visits")]
struct Visit {
    #[serde(rename = "_id")]
    id: i64,
    #[index(expire_after_seconds = 3600)]
    seen: DateTime,
    #[index]
    left: Option<DateTime>,
}

#[derive(Schema)]
#[schema(models(Person, Visit))]
struct Office;
type Db = Database<Office>;

fn person(id: i64, ssn: &str) -> Person {
    Person {
        id,
        ssn: ssn.to_owned(),
        name: String::new(),
    }
}

fn ascending(path: &str) -> Index {
    Index::new(vec![(path.to_owned(), Direction::Ascending)])
}

fn expiring(path: &str, seconds: u64) -> Index {
    Index {
        expire_after: Some(Duration::from_secs(seconds)),
        ..ascending(path)
    }
}

async fn list_sorted_indexes(fixture: &Fixture, collection: &str) -> Vec<Index> {
    let mut listed = fixture.backend().list_indexes(collection).await.unwrap();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    listed
}

fn names(listed: &[Index]) -> Vec<&str> {
    listed.iter().map(|index| index.name.as_str()).collect()
}

async fn create(fixture: &Fixture, collection: &str, index: Index) {
    let backend = fixture.backend();
    backend
        .create_indexes(collection, vec![index])
        .await
        .unwrap();
}

pub async fn a_failed_index_does_not_stop_the_others(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert_many([person(1, "same"), person(2, "same")])
        .await
        .unwrap();
    let error = db.sync_indexes().await.unwrap_err();
    assert!(error.is_duplicate_key(), "{error}");
    let text = error.to_string();
    for line in [
        "failed     persons: ssn_1 (ssn) unique",
        "created    visits: seen_1",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let report = error.index_report().expect("the report");
    let created: Vec<_> = report
        .created
        .iter()
        .map(|(_, index)| &*index.name)
        .collect();
    assert_eq!(created, ["name_1", "seen_1", "left_1"]);
    let [failed] = report.failed.as_slice() else {
        panic!("{report}");
    };
    assert_eq!(
        (&*failed.collection, &*failed.index.name),
        ("persons", "ssn_1")
    );
    assert!(failed.error.is_duplicate_key());
    assert_eq!(
        names(&list_sorted_indexes(&fixture, "visits").await),
        ["left_1", "seen_1"]
    );

    db.delete::<Person>(2).await.unwrap();
    let report = db.sync_indexes().await.unwrap();
    assert_eq!(report.created.len(), 1, "{report}");
    assert_eq!(db.sync_indexes().await.unwrap(), Default::default());
}

/// The old index is dropped after the build of the new index, and stays after a failed build.
pub async fn a_replaced_index_is_built_first(fixture: Fixture) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(std::sync::Arc::new(recorder.clone()));
    create(&fixture, "persons", ascending("ssn")).await;
    db.sync_indexes().await.unwrap();
    db.insert_many([person(1, "same"), person(2, "same")])
        .await
        .unwrap();
    let error = db.sync_indexes().replace_differing().await.unwrap_err();
    assert!(error.is_duplicate_key(), "{error}");
    let report = error.index_report().unwrap();
    assert_eq!(
        (report.differing.len(), report.dropped.len()),
        (1, 0),
        "{report}"
    );
    assert_eq!(
        names(&list_sorted_indexes(&fixture, "persons").await),
        ["name_1", "ssn_1"]
    );

    db.delete::<Person>(2).await.unwrap();
    recorder.clear();
    let report = db.sync_indexes().replace_differing().await.unwrap();
    assert_eq!(report.dropped.len(), 1, "{report}");
    let changes: Vec<_> = recorder
        .operations()
        .into_iter()
        .filter_map(|operation| match operation {
            Operation::CreateIndexes(_, indexes) => Some(format!("create {}", indexes[0].name)),
            Operation::DropIndex(_, name) => Some(format!("drop {name}")),
            _ => None,
        })
        .collect();
    assert_eq!(changes, ["create ssn_1_2", "drop ssn_1"]);
    let persons = list_sorted_indexes(&fixture, "persons").await;
    assert_eq!(names(&persons), ["name_1", "ssn_1_2"]);
    assert!(persons[1].unique);
    assert_eq!(db.sync_indexes().await.unwrap(), Default::default());
    assert!(
        db.insert(person(3, "same"))
            .await
            .unwrap_err()
            .is_duplicate_key()
    );
}

/// A process that dies between build and drop leaves two indexes. The next call drops the old index.
pub async fn an_interrupted_replacement_is_completed(fixture: Fixture) {
    let faults = Faults::new(fixture.backend());
    let db = Db::with_backend(std::sync::Arc::new(faults.clone()));
    create(&fixture, "persons", ascending("ssn")).await;
    db.sync_indexes().await.unwrap();
    let is_drop = |operation: &Operation| matches!(operation, Operation::DropIndex(..));
    let lost = odm::Error::new(ErrorKind::Connection, "lost");
    faults.inject(1, is_drop, Fault::FailBefore(lost));
    let error = db.sync_indexes().replace_differing().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection);
    assert_eq!(error.index_report().unwrap().created.len(), 1);
    assert_eq!(
        names(&list_sorted_indexes(&fixture, "persons").await),
        ["name_1", "ssn_1", "ssn_1_2"]
    );
    let report = db.sync_indexes().await.unwrap();
    assert_eq!(
        (report.differing.len(), report.dropped.len()),
        (1, 0),
        "{report}"
    );
    let report = db.sync_indexes().replace_differing().await.unwrap();
    assert_eq!(
        (report.created.len(), report.dropped.len()),
        (0, 1),
        "{report}"
    );
    assert_eq!(db.sync_indexes().await.unwrap(), Default::default());
}

/// `replace_differing` changes the expiry of an index in place.
pub async fn a_changed_expiry_builds_no_index(fixture: Fixture) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(std::sync::Arc::new(recorder.clone()));
    create(&fixture, "visits", expiring("seen", 60)).await;
    let report = db.sync_indexes().await.unwrap();
    assert_eq!(
        (report.differing.len(), report.changed.len()),
        (1, 0),
        "{report}"
    );
    recorder.clear();
    let report = db.sync_indexes().replace_differing().await.unwrap();
    assert_eq!(report.changed.len(), 1, "{report}");
    assert!(
        report.to_string().contains("changed    visits: seen_1"),
        "{report}"
    );
    let rebuilt = |operation: &Operation| {
        matches!(
            operation,
            Operation::CreateIndexes(..) | Operation::DropIndex(..)
        )
    };
    assert!(!recorder.operations().iter().any(rebuilt));
    let visits = list_sorted_indexes(&fixture, "visits").await;
    assert_eq!(visits, [ascending("left"), expiring("seen", 3600)]);
    assert_eq!(db.sync_indexes().await.unwrap(), Default::default());

    // A plain index gets expiry in place.
    let backend = fixture.backend();
    backend.drop_index("visits", "seen_1").await.unwrap();
    create(&fixture, "visits", ascending("seen")).await;
    let report = db.sync_indexes().replace_differing().await.unwrap();
    assert_eq!(report.changed.len(), 1, "{report}");
    assert_eq!(list_sorted_indexes(&fixture, "visits").await, visits);
}

/// `replace_differing` removes an undeclared expiry. The server rejects two indexes that differ only in the expiry.
pub async fn an_undeclared_expiry_is_removed(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    create(&fixture, "visits", expiring("left", 3600)).await;
    let report = db.sync_indexes().replace_differing().await.unwrap();
    assert_eq!(report.differing.len(), 1, "{report}");
    let visits = list_sorted_indexes(&fixture, "visits").await;
    assert_eq!(visits, [ascending("left"), expiring("seen", 3600)]);
    assert_eq!(db.sync_indexes().await.unwrap(), Default::default());
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(
    collection = "desks",
    index(room; partial = |d| d.room().gte(10)),
    index(room; partial = |d| d.room().lt(10))
)]
struct Desk {
    #[serde(rename = "_id")]
    id: i64,
    room: i64,
    #[reference(on_delete = nullify)]
    #[index(unique, sparse)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<Ref<Worker>>,
    #[reference(on_delete = nullify)]
    #[index(unique, partial = |d| d.reserve().exists())]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reserve: Option<Ref<Worker>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "workers")]
struct Worker {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Schema)]
#[schema(models(Desk, Worker))]
struct Rooms;

/// The target of a reference has an index that finds unfinished deletes, even if the target has no references of its own.
pub async fn a_target_has_an_index_of_unfinished_deletes(fixture: Fixture) {
    let db = Database::<Rooms>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let workers = list_sorted_indexes(&fixture, "workers").await;
    assert_eq!(names(&workers), ["_odm.pending.references.lease_1"]);
    assert!(workers[0].sparse);
}

/// A delete rule uses a declared sparse index. Beside a partial index, the rule has a separate index with a different name.
pub async fn a_rule_and_an_index_on_one_field(fixture: Fixture) {
    let db = Database::<Rooms>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let desks = list_sorted_indexes(&fixture, "desks").await;
    assert_eq!(
        names(&desks),
        [
            "_odm.pending.references.lease_1",
            "owner_1",
            "reserve_1",
            "reserve_1_2",
            "room_1",
            "room_1_2"
        ]
    );
    let named = |name: &str| desks.iter().find(|index| index.name == name).unwrap();
    assert!(named("owner_1").unique && named("owner_1").sparse);
    assert!(named("reserve_1").partial.is_some() && named("reserve_1_2").partial.is_none());
    assert_eq!(db.sync_indexes().await.unwrap(), Default::default());

    db.insert_many([Worker { id: 1 }, Worker { id: 2 }])
        .await
        .unwrap();
    let desk = |id| Desk {
        id,
        room: id,
        owner: None,
        reserve: None,
    };
    let owned = Desk {
        owner: Some(Ref::new(1)),
        reserve: Some(Ref::new(2)),
        ..desk(1)
    };
    db.insert_many([owned, desk(2), desk(3)]).await.unwrap();
    for by in [
        db.find::<Desk>().filter(|d| d.owner().eq(Ref::new(1))),
        db.find::<Desk>().filter(|d| d.reserve().eq(Ref::new(2))),
    ] {
        let explain = by.explain().await.unwrap();
        assert_eq!(
            (explain.is_collection_scan, explain.documents_examined),
            (false, 1)
        );
    }
    db.delete::<Worker>(1).await.unwrap();
    db.delete::<Worker>(2).await.unwrap();
    assert_clean(&db).await;
    assert_eq!(db.get::<Desk>(1).await.unwrap(), desk(1));
}

/// An index on a different field has the name of a declared index.
pub async fn a_different_index_has_the_declared_name(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let other = Index {
        name: "ssn_1".to_owned(),
        ..ascending("email")
    };
    create(&fixture, "persons", other.clone()).await;
    let report = db.sync_indexes().await.unwrap();
    assert_eq!(report.differing[0].2, other, "{report}");
    let report = db.sync_indexes().replace_differing().await.unwrap();
    assert_eq!(report.dropped, [("persons".to_owned(), other)]);
    assert_eq!(
        names(&list_sorted_indexes(&fixture, "persons").await),
        ["name_1", "ssn_1_2"]
    );
    assert_eq!(db.sync_indexes().await.unwrap(), Default::default());
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Card {
    number: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(
    collection = "holders",
    index(bank, partner; unique, partial = |h| h.partner().gte(i64::MIN)),
    index(cards.number; unique, partial = |h| h.cards().at(0).number().exists())
)]
struct Holder {
    #[serde(rename = "_id")]
    id: i64,
    bank: i64,
    partner: Option<i64>,
    #[index(unique, partial = |h| h.names().at(0).exists())]
    #[embed(max = 3)]
    names: Vec<String>,
    #[embed(max = 3)]
    cards: Vec<Card>,
}

#[derive(Schema)]
#[schema(models(Holder))]
struct Bank;

/// Unique indexes with the partial filters that the derive suggests: missing values may repeat, present values may not.
pub async fn unique_index_ignores_missing_values(fixture: Fixture) {
    let db = Database::<Bank>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    assert_eq!(db.sync_indexes().await.unwrap(), Default::default());
    let none = |id| Holder {
        id,
        bank: 1,
        partner: None,
        names: Vec::new(),
        cards: Vec::new(),
    };
    let card = || Card {
        number: "1".to_owned(),
    };
    let one = |id| Holder {
        partner: Some(7),
        names: vec!["ann".to_owned()],
        cards: vec![card()],
        ..none(id)
    };
    db.insert_many([none(1), none(2), one(3)]).await.unwrap();
    for (index, twice) in [
        (
            "bank_1_partner_1",
            Holder {
                partner: Some(7),
                ..none(4)
            },
        ),
        (
            "names_1",
            Holder {
                names: vec!["bob".to_owned(), "ann".to_owned()],
                ..none(4)
            },
        ),
        (
            "cards.number_1",
            Holder {
                cards: vec![card()],
                ..none(4)
            },
        ),
    ] {
        let error = db.insert(twice).await.unwrap_err();
        assert_eq!(error.index(), Some(index), "{error}");
    }
    // An array that becomes empty is no duplicate.
    let emptied = db
        .update::<Holder>(3)
        .set(|h| h.names(), Vec::<String>::new());
    emptied.await.unwrap();
}
