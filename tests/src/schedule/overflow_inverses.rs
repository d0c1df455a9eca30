//! Overflow inverses under schedules: inserts, moves and deletes of referrers, and deletes of their targets.

use std::sync::Arc;

use odm::{
    backend::{
        Backend, BoxFuture,
        operation::{DocumentChange, UpdateOperation},
    },
    prelude::*,
};

use super::{Case, Process, Sabotage, change_document};
use crate::aftermath::{expire_leases, recover_and_check};

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = owner, overflow(after = 1, into = "more_tasks"))]
    tasks: Overflow<Ref<Task>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = tasks, on_delete = nullify)]
    owner: Option<Ref<Person>>,
}

#[derive(Schema)]
#[schema(models(Person, Task))]
struct Office;
type Db = odm::Database<Office>;

/// Five processes. Three processes write tasks: inserts and a delete, a move there and back, and a delete with a new insert. The
/// fourth process deletes a person and inserts the person again. The fifth process runs pending work and folds.
#[derive(Debug)]
pub struct OverflowInverses;

fn task(id: i64, owner: i64) -> Task {
    Task {
        id,
        owner: Some(Ref::new(owner)),
    }
}

/// Inserts two persons. Person 1 gets `tasks` tasks, and person 2 gets a single task.
async fn insert_people_and_tasks(backend: Arc<dyn Backend>, tasks: i64) {
    let db = Db::with_backend(backend);
    db.sync_indexes().await.expect("indexes");
    for id in [1, 2] {
        db.insert(NewPerson { id }).await.expect("a person");
    }
    for id in 1..=tasks {
        db.insert(task(id, 1)).await.expect("a task");
    }
    db.insert(task(10, 2)).await.expect("a task");
    db.wait_for_pending().await.expect("no pending work");
}

impl Case for OverflowInverses {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        // Person 1 has eight spilled tasks. A ninth spilled task does not fit into the tail.
        Box::pin(insert_people_and_tasks(backend, 9))
    }

    fn processes(&self) -> Vec<Process> {
        // A failed operation has met too much contention or a deleted person, and has no effect.
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.insert_many([task(20, 1), task(21, 1)]).await;
                    let _ = db.delete::<Task>(20).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let moved = db.update::<Task>(1).set(|t| t.owner(), Ref::new(2));
                    let _ = moved.await;
                    let back = db.modify::<Task>(1, |task| task.owner = Some(Ref::new(1)));
                    let _ = back.await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.delete::<Task>(9).await;
                    let _ = db.insert(task(9, 2)).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.delete::<Person>(2).await;
                    let _ = db.insert(NewPerson { id: 2 }).await;
                })
            },
            |backend| {
                Box::pin(async move {
                    for _ in 0..2 {
                        let _ = expire_leases::<Office>(&backend).await;
                        let db = Db::with_backend(backend.clone());
                        let _ = db.run_pending().await;
                        let _ = db.arrays::<Person>().fold().await;
                    }
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(recover_and_check::<Office>(backend, |_| false))
    }
}

/// A small case for exhaustive schedules: a process moves a task there and back, and a process runs pending work.
#[derive(Debug)]
pub struct FewOverflowInverses;

impl Case for FewOverflowInverses {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(insert_people_and_tasks(backend, 2))
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    for owner in [2, 1] {
                        let moved = db.update::<Task>(1).set(|t| t.owner(), Ref::new(owner));
                        let _ = moved.await;
                    }
                })
            },
            |backend| {
                Box::pin(async move {
                    let _ = expire_leases::<Office>(&backend).await;
                    let _ = Db::with_backend(backend).run_pending().await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        OverflowInverses.end(backend)
    }
}

/// Removes a guard from an update.
pub(super) fn remove_guard(sabotage: Sabotage, update: &mut UpdateOperation) {
    match (sabotage, &mut update.change) {
        (Sabotage::InverseVersion, _) => change_document(&mut update.filter, |filter| {
            filter.remove("_odm.inverse_version");
            if let Ok(parts) = filter.get_array_mut("$and") {
                for part in parts.iter_mut().filter_map(|part| part.as_document_mut()) {
                    part.remove("_odm.inverse_version");
                }
            }
        }),
        (
            Sabotage::IntentNew | Sabotage::IntentOld,
            DocumentChange::Operators {
                update: operators, ..
            },
        ) => change_document(operators, |operators| {
            let Ok(set) = operators.get_document_mut("$set") else {
                return;
            };
            if sabotage == Sabotage::IntentNew {
                set.remove("_odm.pending.references.intent.new");
            } else if let Ok(old) = set.get_document_mut("_odm.pending.references.intent.old") {
                old.clear();
            }
        }),
        _ => {}
    }
}
