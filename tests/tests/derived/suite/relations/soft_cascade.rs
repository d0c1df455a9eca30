//! Soft deletes that cascade: referrers are deleted and restored together with the document.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use odm::{Database, ErrorKind, Filter, prelude::*};

use crate::{
    Fixture,
    crash::{CrashTest, Write},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "projects", soft_delete(cascade))]
struct Project {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[count(of = Task::project)]
    tasks: i64,
    deleted_at: Option<DateTime>,
}

/// A task, which can be a part of another task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(
    collection = "tasks",
    soft_delete(cascade, field = removed_at),
    version,
    index(project),
    index(part_of)
)]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    project: Ref<Project>,
    #[reference(on_delete = cascade)]
    part_of: Option<Ref<Task>>,
    #[denormalize(from = project.name)]
    project_name: String,
    version: i64,
    removed_at: Option<DateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "people", soft_delete(cascade))]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    deleted_at: Option<DateTime>,
}

/// A comment, which belongs to a task and to a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "comments", soft_delete, index(task), index(author))]
struct Comment {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    task: Ref<Task>,
    #[reference(on_delete = cascade)]
    author: Ref<Person>,
    deleted_at: Option<DateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "clubs", soft_delete)]
struct Club {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade, overflow(after = 2, into = "more_members"))]
    members: Overflow<Ref<Person>>,
    deleted_at: Option<DateTime>,
}

/// A log entry without a soft delete: it stays while its project is soft-deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "log_entries", index(project))]
struct LogEntry {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    project: Ref<Project>,
}

#[derive(Schema)]
#[schema(models(Project, Task, Person, Comment, Club, LogEntry))]
struct Office;
type Db = Database<Office>;

fn task(id: i64, project: i64, part_of: Option<i64>) -> NewTask {
    NewTask {
        id,
        project: Ref::new(project),
        part_of: part_of.map(Ref::new),
    }
}

fn comment(id: i64, task: i64, author: i64) -> NewComment {
    NewComment {
        id,
        task: Ref::new(task),
        author: Ref::new(author),
    }
}

/// Inserts two projects. The first has the tasks 10, 11 and 12, a part of 11, and the comments 100 to 102. The second has the task 20
/// and the comment 200.
async fn insert_office(db: &Db) {
    db.sync_indexes().await.unwrap();
    let project = |id, name: &str| NewProject {
        id,
        name: name.into(),
    };
    db.insert_many([project(1, "one"), project(2, "two")])
        .await
        .unwrap();
    db.insert_many([NewPerson { id: 1 }, NewPerson { id: 2 }])
        .await
        .unwrap();
    let tasks = [
        task(10, 1, None),
        task(11, 1, None),
        task(12, 1, Some(11)),
        task(20, 2, None),
    ];
    db.insert_many(tasks).await.unwrap();
    let comments = [
        comment(100, 10, 1),
        comment(101, 12, 1),
        comment(102, 12, 2),
        comment(200, 20, 1),
    ];
    db.insert_many(comments).await.unwrap();
    let project = Ref::new(1);
    db.insert(LogEntry { id: 1, project }).await.unwrap();
    db.wait_for_pending().await.unwrap();
}

/// Opens an office. Returns `None` on a server without transactions, after a check that a soft delete fails there.
async fn open_office(fixture: &Fixture) -> Option<Db> {
    let db = Db::with_backend(fixture.backend());
    insert_office(&db).await;
    if fixture.backend().capabilities().transactions {
        return Some(db);
    }
    let refused = db.delete::<Project>(1).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("replica set"), "{refused}");
    // A document that takes no other document along.
    db.delete::<Comment>(100).await.unwrap();
    db.restore::<Comment>(100).await.unwrap();
    assert_eq!(live(&db).await, all());
    None
}

/// The live documents: projects, tasks, people and comments.
type Live = (Vec<i64>, Vec<i64>, Vec<i64>, Vec<i64>);

async fn live(db: &Db) -> Live {
    let projects = db.find::<Project>().sort(|p| p.id().asc()).all();
    let tasks = db.find::<Task>().sort(|t| t.id().asc()).all();
    let people = db.find::<Person>().sort(|p| p.id().asc()).all();
    let comments = db.find::<Comment>().sort(|c| c.id().asc()).all();
    (
        projects.await.unwrap().iter().map(|p| p.id).collect(),
        tasks.await.unwrap().iter().map(|t| t.id).collect(),
        people.await.unwrap().iter().map(|p| p.id).collect(),
        comments.await.unwrap().iter().map(|c| c.id).collect(),
    )
}

fn ids(projects: &[i64], tasks: &[i64], people: &[i64], comments: &[i64]) -> Live {
    (
        projects.to_vec(),
        tasks.to_vec(),
        people.to_vec(),
        comments.to_vec(),
    )
}

/// Waits until a delete has another date: dates have milliseconds.
async fn next_date() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

fn all() -> Live {
    ids(&[1, 2], &[10, 11, 12, 20], &[1, 2], &[100, 101, 102, 200])
}

/// Fails if a live document refers to a soft-deleted document, or if derived data is wrong.
async fn assert_consistent(db: &Db, when: &str) {
    db.wait_for_pending().await.unwrap();
    let (projects, tasks, people, _) = live(db).await;
    for task in db.find::<Task>().all().await.unwrap() {
        assert!(projects.contains(task.project.id()), "{when}: {task:?}");
        let part_of = task.part_of.as_ref();
        let whole_is_live = part_of.is_none_or(|whole| tasks.contains(whole.id()));
        assert!(whole_is_live, "{when}: {task:?}");
    }
    for comment in db.find::<Comment>().all().await.unwrap() {
        assert!(tasks.contains(comment.task.id()), "{when}: {comment:?}");
        assert!(people.contains(comment.author.id()), "{when}: {comment:?}");
    }
    for project in db.find::<Project>().with_deleted().all().await.unwrap() {
        let tasks = db
            .find::<Task>()
            .filter(|t| t.project().eq(Ref::new(project.id)));
        let tasks = i64::try_from(tasks.count().await.unwrap()).unwrap();
        assert_eq!(project.tasks, tasks, "{when}: {project:?}");
    }
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{when}: {report}");
}

pub async fn referrers_are_deleted_and_restored_together(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    let deleted = db.delete::<Project>(1).await.unwrap();
    assert_eq!(deleted.deleted, 1);
    assert_eq!(live(&db).await, ids(&[2], &[20], &[1, 2], &[200]));
    assert_consistent(&db, "after the delete").await;
    // A log entry has no soft delete.
    assert_eq!(db.find::<LogEntry>().count().await.unwrap(), 1);
    let date = db
        .get::<Project>(1)
        .with_deleted()
        .await
        .unwrap()
        .deleted_at;
    assert!(date.is_some());
    for id in [10, 11, 12] {
        let task = db.get::<Task>(id).with_deleted().await.unwrap();
        assert_eq!((task.removed_at, task.version), (date, 2));
    }
    for id in 100..103 {
        let comment = db.get::<Comment>(id).with_deleted().await.unwrap();
        assert_eq!(comment.deleted_at, date);
    }
    db.restore::<Project>(1).await.unwrap();
    assert_eq!(live(&db).await, all());
    assert_consistent(&db, "after the restore").await;
    assert_eq!(db.get::<Task>(12).await.unwrap().version, 3);
    // Copies follow restored documents.
    db.update::<Project>(1)
        .set(|p| p.name(), "new")
        .await
        .unwrap();
    db.wait_for_pending().await.unwrap();
    assert_eq!(db.get::<Task>(12).await.unwrap().project_name, "new");
}

pub async fn a_delete_of_the_first_document_cascades(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    db.delete_first::<Task>(|t| t.project().eq(Ref::new(1)))
        .sort(|t| t.id().desc())
        .await
        .unwrap()
        .expect_applied()
        .unwrap();
    let without_12 = ids(&[1, 2], &[10, 11, 20], &[1, 2], &[100, 200]);
    assert_eq!(live(&db).await, without_12);
    let restored = db.restore::<Task>(12).returning_after().await.unwrap();
    assert_eq!(restored.removed_at, None);
    assert_eq!(live(&db).await, all());
    let removed = db.delete::<Task>(11).returning().await.unwrap();
    let removed = removed.applied().expect("the task is live");
    assert_eq!((removed.id, removed.removed_at), (11, None));
    let without_11 = ids(&[1, 2], &[10, 20], &[1, 2], &[100, 200]);
    assert_eq!(live(&db).await, without_11);
    assert_consistent(&db, "in the end").await;
}

pub async fn deletes_of_many_documents_cascade(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    db.delete_many::<Project>(|_| Filter::all()).await.unwrap();
    assert_eq!(live(&db).await, ids(&[], &[], &[1, 2], &[]));
    db.restore_many::<Project>(|_| Filter::all()).await.unwrap();
    assert_eq!(live(&db).await, all());
    assert_consistent(&db, "in the end").await;
}

pub async fn deletes_in_a_bulk_cascade(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    let deletes = [11, 20].map(|id| db.delete::<Task>(id));
    let report = db.bulk().add_all(deletes).await.unwrap();
    assert_eq!((report.deleted, report.matched, report.modified), (2, 0, 0));
    assert_eq!(live(&db).await, ids(&[1, 2], &[10], &[1, 2], &[100]));
    let restores = [11, 20].map(|id| db.restore::<Task>(id));
    let report = db.bulk().add_all(restores).await.unwrap();
    assert!(report.is_ok());
    assert_eq!(live(&db).await, all());
    assert_consistent(&db, "in the end").await;
}

pub async fn a_transaction_undoes_a_cascade(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    let undone = db
        .transaction(async |tx| {
            tx.delete::<Project>(1).await?;
            assert_eq!(tx.find::<Comment>().count().await?, 1);
            tx.delete::<Project>(99).await?.expect_applied()
        })
        .await;
    assert_eq!(undone.unwrap_err().kind(), ErrorKind::NotApplied);
    assert_eq!(live(&db).await, all());
    assert_consistent(&db, "in the end").await;
}

pub async fn documents_deleted_before_stay_deleted(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    db.delete::<Task>(11).await.unwrap();
    next_date().await;
    db.delete::<Project>(1).await.unwrap();
    db.restore::<Project>(1).await.unwrap();
    assert_eq!(
        live(&db).await,
        ids(&[1, 2], &[10, 20], &[1, 2], &[100, 200])
    );
    db.restore::<Task>(11).await.unwrap();
    assert_eq!(live(&db).await, all());
    assert_consistent(&db, "in the end").await;
}

/// A comment is restored together with the last of its two targets.
pub async fn a_document_of_two_targets_waits_for_both(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    db.delete::<Project>(1).await.unwrap();
    next_date().await;
    db.delete::<Person>(1).await.unwrap();
    assert_eq!(live(&db).await, ids(&[2], &[20], &[2], &[]));
    db.restore::<Project>(1).await.unwrap();
    assert_eq!(
        live(&db).await,
        ids(&[1, 2], &[10, 11, 12, 20], &[2], &[102])
    );
    assert_consistent(&db, "with the project").await;
    db.restore::<Person>(1).await.unwrap();
    assert_eq!(live(&db).await, all());
}

pub async fn a_restore_below_a_deleted_document_is_refused(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    // The part 12 was deleted with the task 11, and belongs to the project 1, too.
    db.delete::<Task>(11).await.unwrap();
    next_date().await;
    db.delete::<Project>(1).await.unwrap();
    let refused = db.restore::<Task>(11).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Dangling);
    assert!(
        refused.to_string().contains("restore the Project first"),
        "{refused}"
    );
    let refused = db.restore::<Comment>(101).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Dangling);
    let refused = db
        .restore_many::<Task>(|_| Filter::all())
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Dangling);
    assert_eq!(live(&db).await, ids(&[2], &[20], &[1, 2], &[200]));
    db.restore::<Project>(1).await.unwrap();
    db.restore::<Task>(11).await.unwrap();
    assert_eq!(live(&db).await, all());
    assert_consistent(&db, "in the end").await;
}

pub async fn a_circle_of_references_ends(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    db.update::<Task>(11)
        .set(|t| t.part_of(), Some(Ref::new(12)))
        .await
        .unwrap();
    db.update::<Task>(10)
        .set(|t| t.part_of(), Some(Ref::new(10)))
        .await
        .unwrap();
    db.delete::<Task>(12).await.unwrap();
    db.delete::<Task>(10).await.unwrap();
    assert_eq!(live(&db).await, ids(&[1, 2], &[20], &[1, 2], &[200]));
    db.restore::<Task>(11).await.unwrap();
    db.restore::<Task>(10).await.unwrap();
    assert_eq!(live(&db).await, all());
    assert_consistent(&db, "in the end").await;
}

/// A permanent delete is no soft delete: the rule `cascade` removes all referrers.
pub async fn permanent_deletes_remove_the_referrers(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    db.delete::<Project>(1).await.unwrap();
    db.delete::<Project>(1).permanently().await.unwrap();
    db.wait_for_pending().await.unwrap();
    let tasks = db.find::<Task>().with_deleted().count().await.unwrap();
    let comments = db.find::<Comment>().with_deleted().count().await.unwrap();
    assert_eq!((tasks, comments), (1, 1));
    assert_eq!(db.find::<LogEntry>().count().await.unwrap(), 0);
    assert_consistent(&db, "in the end").await;
}

pub async fn the_plan_and_the_preview_name_the_referrers(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    let preview = db.delete::<Project>(1).dry_run().await.unwrap();
    let expected = [("comments", 3), ("projects", 1), ("tasks", 3)];
    assert_eq!(preview.deleted, expected.into_iter().collect());
    let plan = db.delete::<Project>(1).explain().await.unwrap();
    let reason =
        "`project` of tasks has the delete rule `cascade`, which soft deletes and restores follow";
    assert!(plan.to_string().contains(reason), "{plan}");
    assert!(
        plan.to_string()
            .contains("soft-delete the cascaded documents"),
        "{plan}"
    );
    assert_eq!(live(&db).await, all());
    let leaf = db.delete::<Comment>(100).explain().await.unwrap();
    assert!(!leaf.to_string().contains("cascade"), "{leaf}");
}

async fn insert_tasks(db: &Db, ids: std::ops::Range<i64>) {
    let ids: Vec<_> = ids.collect();
    for ids in ids.chunks(1_000) {
        let tasks = ids.iter().map(|id| task(*id, 2, None));
        db.insert_many(tasks).await.unwrap();
    }
    db.wait_for_pending().await.unwrap();
}

/// A soft delete or a restore reaches at most 10,000 documents, of all dates together. A transaction of the application has no limit.
pub async fn a_large_cascade_needs_a_transaction(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    let assert_refused = |error: odm::Error| {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let message = error.to_string();
        assert!(message.contains("more than 10000 documents"), "{message}");
    };
    // 9,998 documents: the project, 9,996 tasks and a comment. Project 1 has 7 documents.
    insert_tasks(&db, 1_000..10_995).await;
    db.delete::<Project>(2).await.unwrap();
    db.delete::<Project>(1).await.unwrap();
    let both = db.restore_many::<Project>(|_| Filter::all());
    assert_refused(both.await.unwrap_err());
    assert_eq!(live(&db).await, ids(&[], &[], &[1, 2], &[]));
    db.restore::<Project>(2).await.unwrap();
    assert_eq!(db.get::<Project>(2).await.unwrap().tasks, 9_996);

    insert_tasks(&db, 10_995..11_000).await;
    assert_refused(db.delete::<Project>(2).await.unwrap_err());
    assert_eq!(db.find::<Task>().count().await.unwrap(), 10_001);
    db.transaction(async |tx| tx.delete::<Project>(2).await)
        .await
        .unwrap();
    assert_eq!(live(&db).await, ids(&[], &[], &[1, 2], &[]));
}

pub async fn concurrent_writes_leave_no_live_referrers(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    let workers = (0..4_i64).map(|worker| {
        let db = db.clone();
        tokio::spawn(async move {
            for round in 0..12_i64 {
                let (project, id) = (1 + round % 2, 1_000 + worker * 100 + round);
                let outcome = match (worker + round) % 6 {
                    0 => db.delete::<Project>(project).await.map(drop),
                    1 => db.restore::<Project>(project).await.map(drop),
                    2 => db.insert(task(id, project, Some(11))).await.map(drop),
                    3 => db.delete::<Task>(11).await.map(drop),
                    4 => db.restore::<Task>(11).await.map(drop),
                    _ => db
                        .update::<Task>(10)
                        .set(|t| t.project(), Ref::new(project))
                        .await
                        .map(drop),
                };
                let Err(error) = outcome else {
                    continue;
                };
                let kinds = [ErrorKind::NotFound, ErrorKind::Dangling];
                assert!(
                    kinds.contains(&error.kind()) || error.is_conflict(),
                    "{error}"
                );
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    assert_consistent(&db, "after all workers").await;
}

/// The transaction begins before the project is deleted, so it reads a live project.
pub async fn a_restore_conflicts_with_a_delete_of_the_target(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    db.delete::<Task>(11).await.unwrap();
    let attempts = AtomicUsize::new(0);
    let refused = db
        .transaction(async |tx| {
            tx.get::<Project>(2).await?;
            if attempts.fetch_add(1, Ordering::Relaxed) == 0 {
                let db = db.clone();
                let delete = tokio::spawn(async move { db.delete::<Project>(1).await });
                delete.await.unwrap()?;
            }
            tx.restore::<Task>(11).await
        })
        .await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Dangling);
    assert!(attempts.into_inner() >= 2);
    assert_eq!(live(&db).await, ids(&[2], &[20], &[1, 2], &[200]));
}

/// Restores project 1 in a transaction. The first attempt begins before `beside` runs.
async fn restore_project_beside<F>(db: &Db, beside: impl Fn(Db) -> F + Send + Sync)
where
    F: Future<Output = odm::Result<()>> + Send + 'static,
{
    let attempts = AtomicUsize::new(0);
    let restored = db
        .transaction(async |tx| {
            tx.get::<Project>(2).await?;
            if attempts.fetch_add(1, Ordering::Relaxed) == 0 {
                tokio::spawn(beside(db.clone())).await.unwrap()?;
            }
            tx.restore::<Project>(1).await
        })
        .await;
    restored.unwrap();
    assert!(attempts.into_inner() >= 2);
}

/// As above, for a target of a cascaded document.
pub async fn a_restore_conflicts_with_a_delete_of_a_second_target(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    db.delete::<Project>(1).await.unwrap();
    restore_project_beside(
        &db,
        |db| async move { db.delete::<Person>(1).await.map(drop) },
    )
    .await;
    let tasks = [10, 11, 12, 20];
    assert_eq!(live(&db).await, ids(&[1, 2], &tasks, &[2], &[102]));
    assert_consistent(&db, "in the end").await;
}

/// The comment 100 was deleted with the project, and then waits for its author. The author is restored between the begin of the
/// transaction and the restore of the project.
pub async fn concurrent_restores_of_two_targets_restore_the_document(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    db.delete::<Project>(1).await.unwrap();
    next_date().await;
    db.delete::<Person>(1).await.unwrap();
    restore_project_beside(
        &db,
        |db| async move { db.restore::<Person>(1).await.map(drop) },
    )
    .await;
    assert_eq!(live(&db).await, all());
    assert_consistent(&db, "in the end").await;
}

/// A club refers to its members by an overflow array: two of them are in the document.
pub async fn spilled_references_cascade(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    let people = (3..9).map(|id| NewPerson { id });
    db.insert_many(people).await.unwrap();
    let members: Vec<_> = (3..9).map(Ref::new).collect();
    let members = members.into();
    db.insert(NewClub { id: 1, members }).await.unwrap();
    db.wait_for_pending().await.unwrap();
    let clubs = async || db.find::<Club>().count().await.unwrap();
    for (first, second) in [(3, 8), (8, 5), (5, 6)] {
        db.delete::<Person>(first).await.unwrap();
        assert_eq!(clubs().await, 0);
        next_date().await;
        db.delete::<Person>(second).await.unwrap();
        let refused = db.restore::<Club>(1).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Dangling, "{refused}");
        // The club waits for the second member.
        db.restore::<Person>(first).await.unwrap();
        assert_eq!(clubs().await, 0);
        db.restore::<Person>(second).await.unwrap();
        assert_eq!(clubs().await, 1);
    }
    assert_consistent(&db, "in the end").await;
}

pub async fn a_restore_can_move_the_document(fixture: Fixture) {
    let Some(db) = open_office(&fixture).await else {
        return;
    };
    db.delete::<Project>(1).await.unwrap();
    let moved = db.restore::<Task>(11).set(|t| t.project(), Ref::new(2));
    moved.await.unwrap();
    assert_eq!(live(&db).await, ids(&[2], &[11, 20], &[1, 2], &[200]));
    assert_consistent(&db, "after the move").await;
    // The part 12 belongs to the project, too.
    db.restore::<Project>(1).await.unwrap();
    assert_eq!(live(&db).await, all());
    assert_consistent(&db, "in the end").await;
}

pub async fn a_crash_deletes_all_or_none(fixture: Fixture) {
    if open_office(&fixture).await.is_none() {
        return;
    }
    const WRITES: &[Write<Office>] = &[
        ("soft delete", |db| {
            Box::pin(async move { db.delete::<Project>(1).await.map(drop) })
        }),
        ("restore", |db| {
            Box::pin(async move { db.restore::<Project>(2).await.map(drop) })
        }),
    ];
    let crashes = CrashTest {
        writes: WRITES,
        begin: |db| {
            Box::pin(async move {
                insert_office(db).await;
                db.delete::<Project>(2).await.unwrap();
            })
        },
        may_find: |_| false,
        agrees: |db, when| {
            Box::pin(async move {
                let (projects, tasks, _, comments) = live(db).await;
                for (project, expected) in [(1, [10, 100]), (2, [20, 200])] {
                    let is_live = projects.contains(&project);
                    let [task, comment] = expected;
                    let found = (tasks.contains(&task), comments.contains(&comment));
                    assert_eq!(found, (is_live, is_live), "{when}");
                }
            })
        },
    };
    crashes.run(&fixture).await;
}
