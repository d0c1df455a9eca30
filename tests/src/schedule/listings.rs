//! Inverses that overflow under schedules: documents that refer to others are inserted, moved and deleted, and so are those that list
//! them.

use std::sync::Arc;

use odm::{
    backend::{
        Backend, BoxFuture,
        operation::{Change, Update},
    },
    prelude::*,
};

use super::{Case, Process, Sabotage, change};
use crate::aftermath::{look, overdue};

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

/// One process inserts documents, one moves one there and back, one deletes one and inserts it anew, one does so with that which they
/// refer to, and one carries out what the others seem to have left.
#[derive(Debug)]
pub struct Listings;

fn task(id: i64, owner: i64) -> Task {
    Task {
        id,
        owner: Some(Ref::new(owner)),
    }
}

/// Two persons, of whom one has so many tasks.
async fn begin(backend: Arc<dyn Backend>, tasks: i64) {
    let db = Db::with_backend(backend);
    db.sync_indexes().await.expect("indexes");
    for id in [1, 2] {
        db.insert(NewPerson { id }).await.expect("a person");
    }
    for id in 1..=tasks {
        db.insert(task(id, 1)).await.expect("a task");
    }
    db.insert(task(10, 2)).await.expect("a task");
    db.settled().await.expect("nothing owed");
}

impl Case for Listings {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        // The ninth outside of the document is one too many for its tail.
        Box::pin(begin(backend, 9))
    }

    fn processes(&self) -> Vec<Process> {
        // What fails has met another write too often, or a person who is gone, and has done nothing.
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
                        let _ = overdue::<Office>(&backend).await;
                        let db = Db::with_backend(backend.clone());
                        let _ = db.settle().await;
                        let _ = db.arrays::<Person>().fold().await;
                    }
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(look::<Office>(backend, |_| false))
    }
}

/// Few enough for every order: a document is moved there and back, and another process carries out what it seems to have left.
#[derive(Debug)]
pub struct FewListings;

impl Case for FewListings {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(begin(backend, 2))
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
                    let _ = overdue::<Office>(&backend).await;
                    let _ = Db::with_backend(backend).settle().await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Listings.end(backend)
    }
}

/// Takes a guard out of an update.
pub(super) fn spoil_update(sabotage: Sabotage, update: &mut Update) {
    match (sabotage, &mut update.change) {
        (Sabotage::SideFence, _) => change(&mut update.filter, |filter| {
            filter.remove("_odm.fence");
            if let Ok(parts) = filter.get_array_mut("$and") {
                for part in parts.iter_mut().filter_map(|part| part.as_document_mut()) {
                    part.remove("_odm.fence");
                }
            }
        }),
        (
            Sabotage::Wanted | Sabotage::Unwanted,
            Change::Operators {
                update: operators, ..
            },
        ) => change(operators, |operators| {
            let Ok(set) = operators.get_document_mut("$set") else {
                return;
            };
            if sabotage == Sabotage::Wanted {
                set.remove("_odm.link.wanted");
            } else if let Ok(before) = set.get_document_mut("_odm.link.before") {
                before.clear();
            }
        }),
        _ => {}
    }
}
