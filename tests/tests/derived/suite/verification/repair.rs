//! Repair of documents that were changed around the framework.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use odm::{
    backend::operation::{DeleteOperation, DocumentChange, UpdateOperation},
    bson::{RawBson, RawDocumentBuf, rawdoc},
    check::{Remedy, RepairOutcome},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: String,
    #[reference(inverse_of = owner, max = 3)]
    tasks: Vec<Ref<Task>>,
    #[reference(inverse_of = helpers, max = 100)]
    helps: Vec<Ref<Task>>,
    #[reference(inverse_of = of)]
    badge: Option<Ref<Badge>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "tasks", version)]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = tasks, on_delete = restrict)]
    owner: Ref<Person>,
    #[serde(rename = "with")]
    #[reference(inverse = helps, on_delete = pull, max = 10)]
    helpers: Vec<Ref<Person>>,
    #[reference]
    like: Option<Ref<Task>>,
    #[reference(on_delete = nullify)]
    place: Option<Ref<Place>>,
    version: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "badges")]
struct Badge {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = badge, on_delete = nullify)]
    of: Option<Ref<Person>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "places")]
struct Place {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    inside: Option<Ref<Place>>,
}

#[derive(Schema)]
#[schema(models(Person, Task, Badge, Place))]
struct Office;
type Db = odm::Database<Office>;

async fn insert_office(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    for id in ["alice", "bob", "carol"] {
        db.insert(NewPerson { id: id.into() }).await.unwrap();
    }
    let place = |id, inside: Option<i64>| Place {
        id,
        inside: inside.map(Ref::new),
    };
    db.insert_many([place(1, None), place(2, None)])
        .await
        .unwrap();
    db.insert_many([place(3, Some(1)), place(4, Some(2))])
        .await
        .unwrap();
    let task = |id, owner: &str, helpers: &[&str], place: i64| NewTask {
        id,
        owner: Ref::new(owner),
        helpers: helpers.iter().map(|name| Ref::new(*name)).collect(),
        like: None,
        place: Some(Ref::new(place)),
    };
    db.insert_many([
        task(1, "alice", &["bob"], 1),
        task(2, "alice", &["bob", "carol"], 2),
        task(3, "bob", &["carol"], 3),
    ])
    .await
    .unwrap();
    for (id, of) in [(1, "alice"), (2, "bob")] {
        let of = Some(Ref::new(of));
        db.insert(Badge { id, of }).await.unwrap();
    }
    db
}

async fn update_raw(
    fixture: &Fixture,
    collection: &'static str,
    id: impl Into<RawBson>,
    update: RawDocumentBuf,
) {
    let write = UpdateOperation {
        collection: collection.into(),
        filter: rawdoc! { "_id": id.into() },
        change: DocumentChange::operators(update),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    let done = fixture.backend().update(write).await.unwrap();
    assert_eq!(done.modified, 1);
}

async fn delete_raw(fixture: &Fixture, collection: &'static str, id: impl Into<RawBson>) {
    let write = DeleteOperation {
        collection: collection.into(),
        filter: rawdoc! { "_id": id.into() },
        multi: false,
        origin: Default::default(),
    };
    assert_eq!(fixture.backend().delete(write).await.unwrap().deleted, 1);
}

/// Plants a fault of each kind that can be repaired.
async fn plant_faults(fixture: &Fixture) {
    update_raw(
        fixture,
        "persons",
        "alice",
        rawdoc! { "$pull": { "tasks": 1_i64 } },
    )
    .await;
    update_raw(
        fixture,
        "persons",
        "bob",
        rawdoc! { "$push": { "tasks": 2_i64, "helps": 1_i64 } },
    )
    .await;
    update_raw(
        fixture,
        "persons",
        "carol",
        rawdoc! { "$push": { "helps": 77_i64 } },
    )
    .await;
    update_raw(
        fixture,
        "persons",
        "carol",
        rawdoc! { "$set": { "badge": 2_i64 } },
    )
    .await;
    update_raw(
        fixture,
        "persons",
        "alice",
        rawdoc! { "$set": { "badge": null } },
    )
    .await;
    update_raw(
        fixture,
        "tasks",
        3_i64,
        rawdoc! { "$push": { "with": "nobody" } },
    )
    .await;
    delete_raw(fixture, "places", 1_i64).await;
}

pub async fn a_repair_fixes_exactly_the_planted_faults(fixture: Fixture) {
    let db = insert_office(&fixture).await;
    let report = db.repair().apply().await.unwrap();
    assert_eq!((report.documents, report.steps.len()), (12, 0), "{report}");
    plant_faults(&fixture).await;
    let report = db.repair().apply().await.unwrap();
    let done: Vec<_> = report.steps.iter().map(ToString::to_string).collect();
    let expected = [
        (
            r#"persons "bob", `tasks`: refers to 2 in tasks, which does not refer back"#,
            "remove the document from the inverse",
        ),
        (
            r#"persons "bob", `helps`: lists 1 of tasks more than once"#,
            "remove the duplicate from the inverse",
        ),
        (
            r#"persons "carol", `helps.2`: refers to 77 in tasks, which does not exist"#,
            "remove the document from the inverse",
        ),
        (
            r#"persons "carol", `badge`: refers to 2 in badges, which does not refer back"#,
            "remove the document from the inverse",
        ),
        (
            r#"tasks 1, `place`: refers to 1 in places, which does not exist"#,
            "set the reference to null",
        ),
        (
            r#"tasks 1, `owner`: refers to "alice" in persons, which does not refer back"#,
            "add the document to the inverse",
        ),
        (
            r#"tasks 3, `with.1`: refers to "nobody" in persons, which does not exist"#,
            "remove the reference from the array",
        ),
        (
            r#"badges 1, `of`: refers to "alice" in persons, which does not refer back"#,
            "add the document to the inverse",
        ),
        (
            r#"places 3, `inside`: refers to 1 in places, which does not exist"#,
            "delete the document",
        ),
    ];
    let mut expected: Vec<_> = expected
        .iter()
        .map(|(finding, remedy)| format!("{finding}\n  done: {remedy}"))
        .collect();
    let mut sorted = done.clone();
    sorted.sort();
    expected.sort();
    assert_eq!(sorted, expected);
    assert!(report.is_clean());

    let report = db.check().await.unwrap();
    // The repair deleted the place of task 3, and detached task 3 from the deleted place.
    assert!(report.is_clean(), "{report}");
    let three = db.get::<Task>(3).await.unwrap();
    assert_eq!(
        (three.place, three.helpers),
        (None, vec![Ref::new("carol")])
    );
    let listed = async |id: &str| {
        let person = db.get::<Person>(id).await.unwrap();
        let ids = |tasks: &[Ref<Task>]| tasks.iter().map(|task| *task.id()).collect::<Vec<_>>();
        (
            ids(&person.tasks),
            ids(&person.helps),
            person.badge.map(|badge| *badge.id()),
        )
    };
    assert_eq!(listed("alice").await, (vec![2, 1], vec![], Some(1)));
    assert_eq!(listed("bob").await, (vec![3], vec![1, 2], Some(2)));
    assert_eq!(listed("carol").await, (vec![], vec![2, 3], None));
    assert_eq!(db.repair().apply().await.unwrap().steps, []);
}

pub async fn a_planned_repair_writes_nothing(fixture: Fixture) {
    let db = insert_office(&fixture).await;
    plant_faults(&fixture).await;
    // Faults that only the application can repair.
    update_raw(
        &fixture,
        "tasks",
        1_i64,
        rawdoc! { "$set": { "like": 9_i64 } },
    )
    .await;
    update_raw(
        &fixture,
        "tasks",
        2_i64,
        rawdoc! { "$set": { "owner": "nobody" } },
    )
    .await;
    let before = db.check().await.unwrap();
    let plan = db.repair().await.unwrap();
    assert_eq!(db.check().await.unwrap().findings, before.findings);
    let found = plan.steps.iter().map(|step| step.finding.clone());
    assert_eq!(found.collect::<Vec<_>>(), before.findings);
    let outcome = |id: i64, path: &str| {
        let mut steps = plan.steps.iter();
        let step = steps.find(|step| step.finding.id == id.into() && step.finding.path == path);
        step.map(|step| (step.remedy, step.outcome.clone()))
            .unwrap()
    };
    assert_eq!(
        outcome(3, "with.1"),
        (Some(Remedy::Pull), RepairOutcome::Planned)
    );
    for (id, path) in [(1, "like"), (2, "owner")] {
        let (remedy, outcome) = outcome(id, path);
        assert!(
            matches!((remedy, outcome), (None, RepairOutcome::Impossible { .. })),
            "{path}"
        );
    }
    assert!(!plan.is_clean());

    // A repair resumes after a token, and leaves the faults that cannot be repaired.
    let mut repairs = db.repair().apply().stream();
    let (mut done, mut token) = (0, None);
    while let Some(step) = repairs.next().await {
        done += u8::from(step.unwrap().outcome == RepairOutcome::Done);
        token = repairs.token().cloned().or(token);
        if done == 2 {
            break;
        }
    }
    assert!(token.is_some());
    let rest = db.repair().apply().after(token).await.unwrap();
    assert!(
        rest.steps
            .iter()
            .any(|step| step.outcome == RepairOutcome::Done)
    );
    db.repair().apply().only::<Person>().await.unwrap();
    let remaining = db.check().await.unwrap().findings;
    let remaining: Vec<_> = remaining
        .iter()
        .map(|finding| finding.path.as_str())
        .collect();
    assert_eq!(remaining, ["like", "owner"]);
}

/// A repair does not extend a full inverse, and keeps concurrent changes of the application.
pub async fn a_repair_keeps_concurrent_changes(fixture: Fixture) {
    let db = insert_office(&fixture).await;
    update_raw(
        &fixture,
        "persons",
        "alice",
        rawdoc! { "$set": { "tasks": [] } },
    )
    .await;
    for id in 4..7 {
        let task = NewTask {
            id,
            owner: Ref::new("alice"),
            helpers: vec![],
            like: None,
            place: None,
        };
        db.insert(task).await.unwrap();
    }
    let report = db.repair().apply().await.unwrap();
    let outcomes = report.steps.iter().map(|step| &step.outcome);
    assert_eq!(report.steps.len(), 2);
    for outcome in outcomes {
        assert!(
            matches!(outcome, RepairOutcome::Impossible { why } if why.contains("max 3")),
            "{report}"
        );
    }
    for id in 4..7 {
        db.delete::<Task>(id).await.unwrap();
    }

    let is_over = Arc::new(AtomicBool::new(false));
    let writer = |owner: &'static str, id: i64| {
        let (db, is_over) = (db.clone(), is_over.clone());
        tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                for owner in [owner, "carol"] {
                    let moved = db.update::<Task>(id).set(|t| t.owner(), Ref::new(owner));
                    let moved = moved.set(|t| t.helpers(), vec![Ref::new(owner)]);
                    // Every retry lost against a concurrent write.
                    if let Err(error) = moved.await {
                        assert!(error.is_conflict(), "{error}");
                    }
                }
            }
        })
    };
    let writers = [writer("alice", 1), writer("bob", 3)];
    for _ in 0..10 {
        // Break the inverse again and again.
        for name in ["alice", "bob", "carol"] {
            let broken = UpdateOperation {
                collection: "persons".into(),
                filter: rawdoc! { "_id": name },
                change: DocumentChange::operators(rawdoc! { "$set": { "helps": [2_i64, 2_i64] } }),
                multi: false,
                upsert: false,
                origin: Default::default(),
            };
            // This write leaves the version guard unchanged, as a write of a different client does.
            let _ = fixture.backend().update(broken).await;
        }
        db.repair().apply().await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    db.repair().apply().await.unwrap();
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}
