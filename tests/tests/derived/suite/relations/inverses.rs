//! References with an inverse: after every write, reference and inverse agree.

use odm::{
    ErrorKind, Filter,
    action::BulkResult,
    backend::operation::{DocumentChange, UpdateOperation},
    bson::rawdoc,
    check,
    prelude::*,
};

use crate::Fixture;
use crate::crash::{CrashTest, Write};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: String,
    karma: i64,
    #[serde(rename = "todo")]
    #[reference(inverse_of = owner, max = 4)]
    tasks: Vec<Ref<Task>>,
    #[reference(inverse_of = helpers, max = 100)]
    helps: Vec<Ref<Task>>,
    #[reference(inverse_of = of)]
    badge: Option<Ref<Badge>>,
}

/// A task with one owner and many helpers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "tasks", version)]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    text: String,
    #[serde(rename = "for")]
    #[reference(inverse = tasks, on_delete = restrict)]
    owner: Ref<Person>,
    #[reference(inverse = helps, on_delete = pull, max = 10)]
    helpers: Vec<Ref<Person>>,
    version: i64,
}

/// A badge of at most one person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "badges")]
struct Badge {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = badge, on_delete = nullify)]
    of: Option<Ref<Person>>,
}

/// A tree within one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "folders")]
struct Folder {
    #[serde(rename = "_id")]
    id: String,
    #[reference(inverse = children, on_delete = cascade)]
    parent: Option<Ref<Folder>>,
    #[reference(inverse_of = parent, max = 50)]
    children: Vec<Ref<Folder>>,
}

#[derive(Schema)]
#[schema(models(Person, Task, Badge, Folder))]
struct Office;
type Db = odm::Database<Office>;

async fn open_with_people(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    insert_people(&db).await;
    db
}

async fn insert_people(db: &Db) {
    for name in ["alice", "bob", "carol"] {
        db.insert(NewPerson {
            id: name.into(),
            karma: 0,
        })
        .await
        .unwrap();
    }
}

fn task(id: i64, owner: &str, helpers: &[&str]) -> NewTask {
    NewTask {
        id,
        text: format!("task {id}"),
        owner: Ref::new(owner),
        helpers: helpers.iter().map(|name| Ref::new(*name)).collect(),
    }
}

fn folder(id: &str, parent: Option<&str>) -> NewFolder {
    NewFolder {
        id: id.into(),
        parent: parent.map(Ref::new),
    }
}

async fn person(db: &Db, name: &str) -> Person {
    db.get::<Person>(name).await.unwrap()
}

async fn tasks_of(db: &Db, name: &str) -> Vec<i64> {
    let tasks = person(db, name).await.tasks;
    tasks.iter().map(|task| *task.id()).collect()
}

async fn helped_tasks(db: &Db, name: &str) -> Vec<i64> {
    let tasks = person(db, name).await.helps;
    tasks.iter().map(|task| *task.id()).collect()
}

/// Computes every inverse from the references and compares the result with the stored inverse.
async fn assert_inverses_agree(db: &Db) {
    let tasks = db
        .find::<Task>()
        .sort(|t| t.id().asc())
        .all()
        .await
        .unwrap();
    for person in db.find::<Person>().all().await.unwrap() {
        let me = person.to_ref();
        let owned = tasks.iter().filter(|task| task.owner == me);
        let mut listed: Vec<_> = person.tasks.iter().map(|task| *task.id()).collect();
        listed.sort_unstable();
        assert_eq!(
            listed,
            owned.map(|task| task.id).collect::<Vec<_>>(),
            "{}",
            person.id
        );
        let helped = tasks.iter().filter(|task| task.helpers.contains(&me));
        let mut listed: Vec<_> = person.helps.iter().map(|task| *task.id()).collect();
        listed.sort_unstable();
        assert_eq!(
            listed,
            helped.map(|task| task.id).collect::<Vec<_>>(),
            "{}",
            person.id
        );
        let badges = db
            .find::<Badge>()
            .filter(|b| b.of().eq(&me))
            .all()
            .await
            .unwrap();
        let badge = badges.iter().map(|badge| badge.id).next();
        assert_eq!(
            person.badge.map(|badge| *badge.id()),
            badge,
            "{}",
            person.id
        );
        assert!(badges.len() <= 1);
    }
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

pub async fn an_insert_adds_to_inverses(fixture: Fixture) {
    let db = open_with_people(&fixture).await;
    let alice = person(&db, "alice").await;
    assert_eq!((alice.tasks, alice.badge), (Vec::new(), None));
    db.insert(task(1, "alice", &["bob", "carol", "bob"]))
        .await
        .unwrap();
    db.insert_many([task(2, "alice", &[]), task(3, "bob", &["bob"])])
        .await
        .unwrap();
    assert_eq!(tasks_of(&db, "alice").await, [1, 2]);
    assert_eq!(tasks_of(&db, "bob").await, [3]);
    // A helper that is named twice is added to the inverse once.
    assert_eq!(helped_tasks(&db, "bob").await, [1, 3]);
    assert_eq!(helped_tasks(&db, "carol").await, [1]);
    db.insert(Badge {
        id: 7,
        of: Some(Ref::new("alice")),
    })
    .await
    .unwrap();
    db.insert(Badge { id: 8, of: None }).await.unwrap();
    assert_eq!(person(&db, "alice").await.badge, Some(Ref::new(7)));
    assert_inverses_agree(&db).await;

    // An inverse is joined in the same way as a reference.
    let (_, tasks) = db
        .find::<Person>()
        .filter(|p| p.id().eq("alice"))
        .with(|p| p.tasks())
        .one()
        .await
        .unwrap();
    let texts = tasks.loaded().map(|task| task.text.clone());
    assert_eq!(texts.collect::<Vec<_>>(), ["task 1", "task 2"]);
}

pub async fn an_update_moves_and_removes_inverse_entries(fixture: Fixture) {
    let db = open_with_people(&fixture).await;
    db.insert_many([
        task(1, "alice", &["bob"]),
        task(2, "alice", &["bob", "carol"]),
    ])
    .await
    .unwrap();
    db.update::<Task>(1)
        .set(|t| t.owner(), Ref::new("bob"))
        .await
        .unwrap();
    assert_eq!(
        (tasks_of(&db, "alice").await, tasks_of(&db, "bob").await),
        (vec![2], vec![1])
    );
    db.update::<Task>(1)
        .push(|t| t.helpers(), Ref::new("carol"))
        .await
        .unwrap();
    assert_eq!(helped_tasks(&db, "carol").await, [2, 1]);
    db.update::<Task>(2)
        .pull(|t| t.helpers(), Ref::new("bob"))
        .await
        .unwrap();
    assert_eq!(helped_tasks(&db, "bob").await, [1]);
    // An update that is not applied moves no task.
    let outcome = db
        .update::<Task>(1)
        .when(|t| t.text().eq("other"))
        .set(|t| t.owner(), Ref::new("carol"))
        .await
        .unwrap();
    assert!(!outcome.is_applied());
    assert_eq!(tasks_of(&db, "bob").await, [1]);
    let moved = db
        .update_many::<Task>(|_| Filter::all())
        .set(|t| t.owner(), Ref::new("carol"))
        .await
        .unwrap();
    assert_eq!(moved.matched, 2);
    assert_eq!(tasks_of(&db, "carol").await, [1, 2]);
    let first = db
        .update_first::<Task>(|_| Filter::all())
        .sort(|t| t.id().desc())
        .set(|t| t.owner(), Ref::new("alice"))
        .returning_after()
        .await
        .unwrap();
    assert_eq!(first.applied().map(|task| task.id), Some(2));
    assert_inverses_agree(&db).await;
}

pub async fn saves_and_bulks_maintain_inverses(fixture: Fixture) {
    let db = open_with_people(&fixture).await;
    db.insert_many([task(1, "alice", &["bob"]), task(2, "alice", &[])])
        .await
        .unwrap();
    let mut one = db.edit::<Task>(1).await.unwrap();
    one.owner = Ref::new("bob");
    one.helpers = vec![Ref::new("carol"), Ref::new("alice")];
    db.save(&mut one).await.unwrap();
    assert_eq!(
        (tasks_of(&db, "bob").await, helped_tasks(&db, "bob").await),
        (vec![1], vec![])
    );
    db.modify::<Task>(1, |task| task.helpers.clear())
        .await
        .unwrap();
    assert!(helped_tasks(&db, "alice").await.is_empty());
    // An inverse is a managed field, so a save cannot change the inverse.
    let mut alice = db.edit::<Person>("alice").await.unwrap();
    alice.tasks.clear();
    let error = db.save(&mut alice).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("todo"))
    );

    let report = db
        .bulk()
        .add(db.insert(task(3, "carol", &["carol"])))
        .add(db.update::<Person>("bob").inc(|p| p.karma(), 1))
        .add(db.update::<Task>(2).set(|t| t.owner(), Ref::new("carol")))
        .add(db.delete::<Task>(1))
        .add(
            db.update::<Task>(9)
                .when(|t| t.version().eq(1))
                .set(|t| t.owner(), Ref::new("carol")),
        )
        .await
        .unwrap();
    assert_eq!((report.inserted, report.matched, report.deleted), (1, 2, 1));
    assert!(matches!(report.results[4], BulkResult::NotApplied));
    assert_eq!(
        (tasks_of(&db, "carol").await, tasks_of(&db, "bob").await),
        (vec![3, 2], vec![])
    );
    assert_inverses_agree(&db).await;
}

pub async fn dangling_references_and_full_inverses_are_rejected(fixture: Fixture) {
    let db = open_with_people(&fixture).await;
    let error = db.insert(task(1, "nobody", &[])).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.id()),
        (ErrorKind::Dangling, Some(&"nobody".into()))
    );
    assert_eq!(db.find::<Task>().count().await.unwrap(), 0);
    db.insert_many((1..=4).map(|id| task(id, "alice", &[])))
        .await
        .unwrap();
    let error = db.insert(task(5, "alice", &[])).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::TooManyElements, Some("todo"))
    );
    db.insert(task(5, "bob", &[])).await.unwrap();
    let error = db
        .update::<Task>(5)
        .set(|t| t.owner(), Ref::new("alice"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyElements);
    assert_eq!(db.get::<Task>(5).await.unwrap().owner, Ref::new("bob"));
    // Task 1 leaves the full inverse, so task 5 fits.
    for (id, owner) in [(1, "carol"), (5, "alice")] {
        let moved = db.update::<Task>(id).set(|t| t.owner(), Ref::new(owner));
        moved.await.unwrap();
    }
    assert_eq!(tasks_of(&db, "alice").await, [2, 3, 4, 5]);

    db.insert(Badge {
        id: 1,
        of: Some(Ref::new("bob")),
    })
    .await
    .unwrap();
    let error = db
        .insert(Badge {
            id: 2,
            of: Some(Ref::new("bob")),
        })
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::AlreadyLinked, Some("badge"))
    );
    db.update::<Badge>(1).set(|b| b.of(), None).await.unwrap();
    db.insert(Badge {
        id: 2,
        of: Some(Ref::new("bob")),
    })
    .await
    .unwrap();
    assert_inverses_agree(&db).await;
}

pub async fn deletes_apply_the_delete_rules(fixture: Fixture) {
    let db = open_with_people(&fixture).await;
    db.insert_many([
        task(1, "alice", &["bob", "carol"]),
        task(2, "alice", &["bob"]),
    ])
    .await
    .unwrap();
    db.insert(Badge {
        id: 1,
        of: Some(Ref::new("bob")),
    })
    .await
    .unwrap();
    let error = db.delete::<Person>("alice").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.id()),
        (ErrorKind::Restricted, Some(&"alice".into()))
    );
    assert!(
        error
            .to_string()
            .contains("2 documents in `tasks` reference the document by `owner`"),
        "{error}"
    );

    // Bob owns no task. The delete detaches Bob from the tasks he helps with, and from the badge.
    let version = db.get::<Task>(1).await.unwrap().version;
    assert_eq!(db.delete::<Person>("bob").await.unwrap().deleted, 1);
    let one = db.get::<Task>(1).await.unwrap();
    assert_eq!(
        (one.helpers, one.version),
        (vec![Ref::new("carol")], version + 1)
    );
    assert_eq!(db.get::<Badge>(1).await.unwrap().of, None);

    db.delete_many::<Task>(|_| Filter::all()).await.unwrap();
    assert_eq!(
        (
            tasks_of(&db, "alice").await,
            helped_tasks(&db, "carol").await
        ),
        (vec![], vec![])
    );
    let deleted = db.delete::<Person>("alice").returning().await.unwrap();
    assert_eq!(deleted.applied().unwrap().id, "alice");
    assert_inverses_agree(&db).await;
}

pub async fn a_cascade_deletes_the_whole_tree(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert(folder("/", None)).await.unwrap();
    for (id, parent) in [
        ("/a", "/"),
        ("/a/b", "/a"),
        ("/a/b/c", "/a/b"),
        ("/d", "/"),
        ("/d/e", "/d"),
    ] {
        db.insert(folder(id, Some(parent))).await.unwrap();
    }
    db.delete::<Folder>("/a").await.unwrap();
    let ids = async || -> Vec<String> {
        let all = db
            .find::<Folder>()
            .sort(|f| f.id().asc())
            .all()
            .await
            .unwrap();
        all.into_iter().map(|folder| folder.id).collect()
    };
    assert_eq!(ids().await, ["/", "/d", "/d/e"]);
    assert_eq!(
        db.get::<Folder>("/").await.unwrap().children,
        [Ref::new("/d")]
    );
    // A cascade through a cycle of folders ends.
    db.update::<Folder>("/")
        .set(|f| f.parent(), Some(Ref::new("/d/e")))
        .await
        .unwrap();
    db.delete::<Folder>("/d").await.unwrap();
    assert_eq!(ids().await, Vec::<String>::new());
}

pub async fn a_failed_update_makes_a_transaction_rollback_only(fixture: Fixture) {
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let db = open_with_people(&fixture).await;
    db.insert(task(1, "alice", &[])).await.unwrap();
    let done = db
        .transaction(|tx| async move {
            // The failed update has changed part of a relation, so the transaction is rollback-only even if the caller continues.
            let refused = tx
                .update::<Task>(1)
                .set(|t| t.owner(), Ref::new("nobody"))
                .await;
            assert!(refused.is_err());
            tx.update::<Person>("bob").inc(|p| p.karma(), 1).await
        })
        .await;
    assert_eq!(done.unwrap_err().kind(), ErrorKind::Dangling);
    assert_eq!(person(&db, "bob").await.karma, 0);
    // A refused delete has changed no document, so the transaction continues.
    db.transaction(|tx| async move {
        let refused = tx.delete::<Person>("alice").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Restricted);
        tx.update::<Person>("bob").inc(|p| p.karma(), 1).await
    })
    .await
    .unwrap();
    assert_eq!(person(&db, "bob").await.karma, 1);
    assert_inverses_agree(&db).await;
}

/// A write that loses a race is retried, or returns an error.
pub async fn concurrent_writes_keep_inverses_consistent(fixture: Fixture) {
    const NAMES: [&str; 6] = ["alice", "bob", "carol", "dave", "erin", "frank"];
    let db = open_with_people(&fixture).await;
    for name in &NAMES[3..] {
        db.insert(NewPerson {
            id: (*name).into(),
            karma: 0,
        })
        .await
        .unwrap();
    }
    db.insert_many((0..6).map(|id| task(id, NAMES[id as usize], &[])))
        .await
        .unwrap();
    let workers = (0..4_u64).map(|worker| {
        let db = db.clone();
        tokio::spawn(async move {
            let mut random = worker + 1;
            for _ in 0..25 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let number = (random >> 33) as usize;
                let (name, task_id) = (NAMES[number % 6], (number / 6 % 6) as i64);
                let done = match number / 36 % 4 {
                    0 => db
                        .update::<Task>(task_id)
                        .set(|t| t.owner(), Ref::new(name))
                        .await
                        .map(|_| ()),
                    1 => db
                        .update::<Task>(task_id)
                        .add_to_set(|t| t.helpers(), Ref::new(name))
                        .await
                        .map(|_| ()),
                    2 => db
                        .update::<Task>(task_id)
                        .pull(|t| t.helpers(), Ref::new(name))
                        .await
                        .map(|_| ()),
                    _ => match db.delete::<Task>(task_id).await {
                        Ok(_) => db
                            .insert(task(task_id, name, &[NAMES[number % 5]]))
                            .await
                            .map(|_| ()),
                        Err(error) => Err(error),
                    },
                };
                match done.map_err(|error| (error.kind(), error)) {
                    Ok(()) => {}
                    Err((
                        // The task is missing, or exists already.
                        ErrorKind::NotFound
                        | ErrorKind::DuplicateKey
                        | ErrorKind::TooManyElements
                        | ErrorKind::Conflict,
                        _,
                    )) => {}
                    Err((_, error)) => panic!("{error}"),
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    assert_inverses_agree(&db).await;
}

/// A write of every kind.
const WRITES: &[Write<Office>] = &[
    ("insert", |db| {
        Box::pin(async move {
            let inserted = db.insert(task(3, "carol", &["alice", "bob"])).await;
            inserted.map(drop)
        })
    }),
    ("insert what leads nowhere", |db| {
        Box::pin(async move {
            let inserted = db.insert(task(3, "carol", &["nobody"])).await;
            inserted.map(drop)
        })
    }),
    ("move", |db| {
        Box::pin(async move {
            let moved = db.update::<Task>(1).set(|t| t.owner(), Ref::new("bob"));
            moved.await.map(drop)
        })
    }),
    ("move nowhere", |db| {
        Box::pin(async move {
            let moved = db.update::<Task>(1).set(|t| t.owner(), Ref::new("nobody"));
            moved.set(|t| t.text(), "lost").await.map(drop)
        })
    }),
    ("save", |db| {
        Box::pin(async move {
            let helpers = vec![Ref::new("alice"), Ref::new("carol")];
            let saved = db.modify::<Task>(1, |task| task.helpers.clone_from(&helpers));
            saved.await.map(drop)
        })
    }),
    ("update many", |db| {
        Box::pin(async move {
            let all = db.update_many::<Task>(|_| Filter::all());
            all.pull(|t| t.helpers(), Ref::new("bob")).await.map(drop)
        })
    }),
    ("delete", |db| {
        Box::pin(async move { db.delete::<Task>(1).await.map(drop) })
    }),
    ("delete what is referred to", |db| {
        Box::pin(async move { db.delete::<Person>("bob").await.map(drop) })
    }),
];

async fn insert_people_and_tasks(db: &Db) {
    insert_people(db).await;
    db.insert_many([
        task(1, "alice", &["bob"]),
        task(2, "alice", &["bob", "carol"]),
    ])
    .await
    .unwrap();
    let badge = Badge {
        id: 1,
        of: Some(Ref::new("bob")),
    };
    db.insert(badge).await.unwrap();
}

pub async fn crashes_keep_inverses_consistent(fixture: Fixture) {
    let crashes = CrashTest {
        writes: WRITES,
        begin: |db| Box::pin(insert_people_and_tasks(db)),
        may_find: |_| false,
        agrees: |db, when| {
            Box::pin(async move {
                assert_inverses_agree(db).await;
                let lost = db.find::<Task>().filter(|t| t.text().eq("lost"));
                assert_eq!(lost.count().await.unwrap(), 0, "{when}");
                // The application can write again.
                let moved = db.update::<Task>(2).set(|t| t.owner(), Ref::new("carol"));
                moved.await.unwrap();
                assert_inverses_agree(db).await;
            })
        },
    };
    crashes.run(&fixture).await;
}

/// Plants each fault that a write around the framework can cause.
pub async fn the_check_finds_missing_inverse_entries(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_people_and_tasks(&db).await;
    assert_inverses_agree(&db).await;
    let change = async |collection: &'static str, id: bson::RawBson, update| {
        let write = UpdateOperation {
            collection: collection.into(),
            filter: rawdoc! { "_id": id },
            change: DocumentChange::operators(update),
            multi: false,
            upsert: false,
            origin: Default::default(),
        };
        fixture.backend().update(write).await.unwrap();
    };
    change(
        "persons",
        "alice".into(),
        rawdoc! { "$pull": { "todo": 1_i64 } },
    )
    .await;
    change(
        "persons",
        "carol".into(),
        rawdoc! { "$push": { "todo": 2_i64 } },
    )
    .await;
    change(
        "persons",
        "bob".into(),
        rawdoc! { "$push": { "helps": 1_i64 } },
    )
    .await;
    change("badges", 1_i64.into(), rawdoc! { "$set": { "of": null } }).await;
    let report = db.check().await.unwrap();
    let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            r#"persons "bob", `helps`: lists 1 of tasks more than once"#,
            r#"persons "bob", `badge`: refers to 1 in badges, which does not refer back"#,
            r#"persons "carol", `todo`: refers to 2 in tasks, which does not refer back"#,
            r#"tasks 1, `for`: refers to "alice" in persons, which does not refer back"#,
        ]
    );
    let twice = &report.findings[0].kind;
    assert!(matches!(
        twice,
        check::FindingKind::DuplicateInverse { to: "tasks", .. }
    ));
}
