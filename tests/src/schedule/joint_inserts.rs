//! Inserts of several documents with references under schedules: the documents share the steps of the insert.

use std::sync::Arc;

use odm::{
    ErrorKind,
    backend::{Backend, BoxFuture},
    prelude::*,
};

use super::{Case, Process};
use crate::aftermath::{expire_leases, recover_and_check};

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "places")]
struct Place {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = owner, max = 5)]
    tasks: Vec<Ref<Task>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = tasks, on_delete = nullify)]
    owner: Option<Ref<Person>>,
    #[reference(on_delete = restrict)]
    place: Ref<Place>,
}

/// A marker about the insert of a task: the task with the `_id` was acknowledged, or the negative `_id` was refused.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "notes")]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Schema)]
#[schema(models(Place, Person, Task, Note))]
struct Office;
type Db = odm::Database<Office>;

fn task(id: i64, owner: i64, place: i64) -> Task {
    Task {
        id,
        owner: Some(Ref::new(owner)),
        place: Ref::new(place),
    }
}

/// Inserts tasks, and stores what the answer says about each task.
///
/// A recovery that takes the insert for abandoned can store the tasks after a refused task. Without a recovery, the answer
/// `is_exact`.
async fn insert_and_note(db: &Db, tasks: Vec<Task>, is_exact: bool) {
    let ids: Vec<_> = tasks.iter().map(|task| task.id).collect();
    let notes: Vec<_> = match db.insert_many(tasks).await {
        Ok(_) => ids,
        Err(error) => {
            let (stored, refused) = ids.split_at(error.inserted().unwrap_or_default());
            let refused = match is_exact {
                true => refused,
                // The insert of an abandoned document is a conflict.
                false if error.kind() == ErrorKind::Conflict => &[],
                false => &refused[..1],
            };
            let refused = refused.iter().map(|id| -id);
            stored.iter().copied().chain(refused).collect()
        }
    };
    db.insert_many(notes.into_iter().map(|id| Note { id }))
        .await
        .expect("notes");
}

/// Inserts tasks, also tasks with a missing place.
async fn insert_valid_and_refused(db: Db, is_exact: bool) {
    let tasks = vec![task(10, 1, 1), task(11, 2, 1), task(12, 1, 2)];
    insert_and_note(&db, tasks, is_exact).await;
    let tasks = vec![task(13, 2, 1), task(14, 1, 9), task(15, 1, 1)];
    insert_and_note(&db, tasks, is_exact).await;
}

/// Inserts more tasks than the inverse of person 1 has room for.
async fn insert_beyond_room(db: Db, is_exact: bool) {
    let tasks = (20..24).map(|id| task(id, 1, 1 + id % 2));
    insert_and_note(&db, tasks.collect(), is_exact).await;
}

async fn reinsert_place(db: Db) {
    let _ = db.delete::<Place>(2).await;
    let _ = db.insert(Place { id: 2 }).await;
}

async fn reinsert_person_and_move(db: Db) {
    let _ = db.delete::<Person>(2).await;
    let _ = db.insert(NewPerson { id: 2 }).await;
    let moved = db.update::<Task>(1).set(|t| t.owner(), Ref::new(2));
    let _ = moved.await;
}

async fn insert_people_and_places(backend: Arc<dyn Backend>) {
    let db = Db::with_backend(backend);
    db.sync_indexes().await.expect("indexes");
    for id in [1, 2] {
        db.insert(Place { id }).await.expect("a place");
        db.insert(NewPerson { id }).await.expect("a person");
    }
    db.insert(task(1, 1, 1)).await.expect("a task");
}

async fn check_notes(backend: Arc<dyn Backend>) -> Result<(), String> {
    recover_and_check::<Office>(backend.clone(), |_| false).await?;
    let db = Db::with_backend(backend);
    let message = |error: odm::Error| error.to_string();
    for Note { id } in db.find::<Note>().all().await.map_err(message)? {
        let task = db.find_by_id::<Task>(id.abs()).await.map_err(message)?;
        match (id > 0, task.is_some()) {
            (true, false) => return Err(format!("task {id} was acknowledged, and is missing")),
            (false, true) => return Err(format!("task {} was refused, and is stored", -id)),
            _ => {}
        }
    }
    Ok(())
}

/// Runs pending work twice, and takes every unfinished write for abandoned.
fn recover_all(backend: Arc<dyn Backend>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        for _ in 0..2 {
            let _ = expire_leases::<Office>(&backend).await;
            let _ = Db::with_backend(backend.clone()).run_pending().await;
        }
    })
}

/// Five processes: two insert several tasks each, also tasks that are refused. Two delete and insert targets. One recovers.
#[derive(Debug)]
pub struct JointInserts;

impl Case for JointInserts {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(insert_people_and_places(backend))
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| Box::pin(insert_valid_and_refused(Db::with_backend(backend), false)),
            |backend| Box::pin(insert_beyond_room(Db::with_backend(backend), false)),
            |backend| Box::pin(reinsert_place(Db::with_backend(backend))),
            |backend| Box::pin(reinsert_person_and_move(Db::with_backend(backend))),
            recover_all,
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(check_notes(backend))
    }
}

/// The processes of [`JointInserts`] without the recovery: no insert counts as abandoned.
#[derive(Debug)]
pub struct TimelyJointInserts;

impl Case for TimelyJointInserts {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(insert_people_and_places(backend))
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| Box::pin(insert_valid_and_refused(Db::with_backend(backend), true)),
            |backend| Box::pin(insert_beyond_room(Db::with_backend(backend), true)),
            |backend| Box::pin(reinsert_place(Db::with_backend(backend))),
            |backend| Box::pin(reinsert_person_and_move(Db::with_backend(backend))),
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(check_notes(backend))
    }
}

/// A small case for exhaustive schedules: an insert of valid and of refused tasks, and a process that recovers.
#[derive(Debug)]
pub struct LateJointInsert;

impl Case for LateJointInsert {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(insert_people_and_places(backend))
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    insert_and_note(&db, vec![task(10, 1, 1), task(11, 1, 1)], false).await;
                    insert_and_note(&db, vec![task(12, 2, 1), task(13, 2, 9)], false).await;
                })
            },
            recover_all,
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(check_notes(backend))
    }
}
