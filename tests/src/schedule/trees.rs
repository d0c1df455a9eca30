//! Schedules for trees: documents move below each other, are inserted and deleted, and recovery treats running processes as dead.

use std::{collections::BTreeMap, sync::Arc};

use odm::{
    backend::{
        Backend, BoxFuture,
        operation::{Stage, UpdateOperation},
    },
    bson::rawdoc,
    prelude::*,
};

use super::{Case, Process, Sabotage, recover_pending};
use crate::aftermath::recover_and_check;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "categories")]
struct Category {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = nullify)]
    parent: Option<Ref<Category>>,
    #[tree(parent = parent)]
    ancestors: Vec<Ref<Category>>,
}

#[derive(Schema)]
#[schema(models(Category))]
struct Shop;
type Db = odm::Database<Shop>;

fn category(id: i64, parent: Option<i64>) -> NewCategory {
    NewCategory {
        id,
        parent: parent.map(Ref::new),
    }
}

/// Inserts two trees: 1 with 2 below 1 and 3 below 2, and 4 with 5 below 4.
fn begin(backend: Arc<dyn Backend>) -> BoxFuture<'static, ()> {
    Box::pin(async {
        let db = Db::with_backend(backend);
        db.sync_indexes().await.expect("indexes");
        for (id, parent) in [
            (1, None),
            (2, Some(1)),
            (3, Some(2)),
            (4, None),
            (5, Some(4)),
        ] {
            db.insert(category(id, parent)).await.expect("a category");
        }
        db.wait_for_pending().await.expect("no pending work");
    })
}

/// Recovers, and compares the ancestors of each document with the chain of parents.
fn end(backend: Arc<dyn Backend>) -> BoxFuture<'static, Result<(), String>> {
    Box::pin(async move {
        recover_and_check::<Shop>(Arc::clone(&backend), |_| false).await?;
        let db = Db::with_backend(backend);
        let all = db.find::<Category>().all().await;
        let all = all.map_err(|error| error.to_string())?;
        let parents: BTreeMap<_, _> = all
            .iter()
            .map(|category| {
                (
                    category.id,
                    category.parent.as_ref().map(|parent| *parent.id()),
                )
            })
            .collect();
        for category in &all {
            let (mut chain, mut next) = (Vec::new(), parents[&category.id]);
            while let Some(id) = next {
                chain.insert(0, id);
                if chain.len() > parents.len() {
                    return Err(format!("a circle above {}: {parents:?}", category.id));
                }
                let Some(parent) = parents.get(&id) else {
                    return Err(format!("the parent {id} is missing: {parents:?}"));
                };
                next = *parent;
            }
            let ancestors: Vec<_> = category.ancestors.iter().map(|id| *id.id()).collect();
            if ancestors != chain {
                return Err(format!(
                    "{} has the ancestors {ancestors:?}, not {chain:?}",
                    category.id
                ));
            }
        }
        Ok(())
    })
}

/// Five processes: two move documents so that together they would make circles, a third inserts and moves by a save, a fourth
/// deletes, and a fifth runs recovery.
#[derive(Debug)]
pub struct Trees;

impl Case for Trees {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        begin(backend)
    }

    fn processes(&self) -> Vec<Process> {
        // A failed move would have made a circle, or had too many conflicts, and changed no document.
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.update::<Category>(1).move_to(5).await;
                    let _ = db.update::<Category>(2).move_to_root().await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.update::<Category>(4).move_to(3).await;
                    let all = db.update_many::<Category>(|c| c.id().eq(5) | c.id().eq(3));
                    let _ = all.move_to(1).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.insert(category(6, Some(3))).await;
                    let moved = db.modify::<Category>(3, |category| {
                        category.parent = Some(Ref::new(4));
                    });
                    let _ = moved.await;
                    let _ = db.insert(category(7, Some(6))).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.delete_many::<Category>(|c| c.id().eq(2)).await;
                    let _ = db.delete::<Category>(5).await;
                })
            },
            recover_pending::<Shop>,
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        end(backend)
    }
}

/// A case small enough for every schedule: two processes move documents below each other, and a third runs recovery.
#[derive(Debug)]
pub struct SmallTrees;

impl Case for SmallTrees {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        begin(backend)
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let _ = Db::with_backend(backend)
                        .update::<Category>(1)
                        .move_to(5)
                        .await;
                })
            },
            |backend| {
                Box::pin(async {
                    let _ = Db::with_backend(backend)
                        .update::<Category>(4)
                        .move_to(3)
                        .await;
                })
            },
            recover_pending::<Shop>,
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        end(backend)
    }
}

/// Two moves that together make a circle, of documents with more children than a transaction updates. So the transactions have no
/// document in common, except the documents above the new parents.
#[derive(Debug)]
pub struct WideTrees;

impl Case for WideTrees {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = Db::with_backend(backend);
            db.sync_indexes().await.expect("indexes");
            for (root, children) in [(1, 1_000..1_501), (2, 2_000..2_501)] {
                db.insert(category(root, None)).await.expect("a root");
                let children = children.map(|child| category(child, Some(root)));
                db.insert_many(children).await.expect("the children");
            }
            db.wait_for_pending().await.expect("no pending work");
        })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let move_to = Db::with_backend(backend)
                        .update::<Category>(1)
                        .move_to(2_000);
                    let _ = move_to.await;
                })
            },
            |backend| {
                Box::pin(async {
                    let move_to = Db::with_backend(backend)
                        .update::<Category>(2)
                        .move_to(1_000);
                    let _ = move_to.await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        end(backend)
    }
}

/// Removes the lock of the documents above from a move with transactions.
pub(super) fn remove_guard(sabotage: Sabotage, update: &mut UpdateOperation) {
    if sabotage == Sabotage::ChainLock && update.origin.stage == Some(Stage::TREES) {
        update.filter = rawdoc! { "_id": { "$exists": false } };
    }
}
