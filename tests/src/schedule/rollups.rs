//! Rollups under schedules: processes insert, move, change and delete children, and delete and insert their parents.

use std::sync::Arc;

use odm::{
    backend::{
        Backend, BoxFuture,
        operation::{DocumentChange, InsertOperation, UpdateOperation},
    },
    bson::Document,
    check::FindingKind,
    prelude::*,
};

use super::{Case, Process, Sabotage, change_document, recover_pending};
use crate::aftermath::recover_and_check;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Comment::post)]
    comments: i64,
    #[sum(of = Comment::post, value = likes)]
    likes: i64,
    #[latest(2, of = Comment::post, by = likes)]
    best: Vec<Best>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
#[embedded(of = Comment)]
struct Best {
    likes: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "comments")]
struct Comment {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    post: Ref<Post>,
    likes: i64,
}

#[derive(Schema)]
#[schema(models(Post, Comment))]
struct Blog;
type Db = odm::Database<Blog>;

/// Five processes: inserts of children, moves and changes of a child, a delete and insert of a child, a delete and insert of a
/// parent, and recovery of pending work.
#[derive(Debug)]
pub struct Rollups;

fn comment(id: i64, post: i64) -> Comment {
    Comment {
        id,
        post: Ref::new(post),
        likes: id,
    }
}

impl Case for Rollups {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = Db::with_backend(backend);
            db.sync_indexes().await.expect("indexes");
            for id in [1, 2] {
                db.insert(NewPost { id }).await.expect("a post");
                db.insert(comment(id, id)).await.expect("a comment");
            }
            db.wait_for_pending().await.expect("no pending work");
        })
    }

    fn processes(&self) -> Vec<Process> {
        // A failed write had too many conflicts, and has changed no document.
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.insert_many([comment(3, 1), comment(4, 2)]).await;
                    let _ = db.delete::<Comment>(4).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let moved = db.update::<Comment>(1).set(|c| c.post(), Ref::new(2));
                    let _ = moved.inc(|c| c.likes(), 10).await;
                    let back = db.modify::<Comment>(1, |comment| comment.post = Ref::new(1));
                    let _ = back.await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.delete::<Comment>(1).await;
                    let _ = db.insert(comment(1, 2)).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.delete::<Post>(1).await;
                    let _ = db.insert(NewPost { id: 1 }).await;
                })
            },
            recover_pending::<Blog>,
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(recover_and_check::<Blog>(backend, |fault| {
            // The post may be deleted.
            matches!(fault, FindingKind::Dangling { .. })
        }))
    }
}

/// A case that is small enough to run every order: a move of a child, while the parent is deleted and inserted again.
#[derive(Debug)]
pub struct SmallRollups;

impl Case for SmallRollups {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Rollups.begin(backend)
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.update::<Comment>(1).set(|c| c.post(), Ref::new(2)).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.delete::<Post>(1).await;
                    let _ = db.insert(NewPost { id: 1 }).await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Rollups.end(backend)
    }
}

/// A case that is small enough to run every order: a deleted parent returns while a child has a pending rollup, although the
/// child's contribution did not change.
#[derive(Debug)]
pub struct ReturningParent;

impl Case for ReturningParent {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            Rollups.begin(backend.clone()).await;
            let db = Db::with_backend(backend);
            db.delete::<Post>(1).await.expect("the post");
        })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.update::<Comment>(1).set(|c| c.likes(), 1).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.insert(NewPost { id: 1 }).await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Rollups.end(backend)
    }
}

/// A case that is small enough to run every order: a document is deleted and a new document gets the same `_id`, while a process
/// changes the old document.
#[derive(Debug)]
pub struct ReinsertedChild;

impl Case for ReinsertedChild {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Rollups.begin(backend)
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.delete::<Comment>(2).await;
                    let _ = db.insert(comment(2, 2)).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.update::<Comment>(2).inc(|c| c.likes(), 10).await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Rollups.end(backend)
    }
}

/// Removes a guard from an insert.
pub(super) fn sabotage_insert(sabotage: Sabotage, insert: &mut InsertOperation) {
    let kind = match sabotage {
        Sabotage::PendingRollup => "rollup",
        Sabotage::PendingRecompute => "recompute",
        _ => return,
    };
    for raw in &mut insert.documents {
        change_document(raw, |document| {
            if let Ok(metadata) = document.get_document_mut("_odm")
                && let Ok(pending) = metadata.get_document_mut("pending")
            {
                pending.remove(kind);
            }
        });
    }
}

/// Removes a guard from an update.
pub(super) fn sabotage_update(sabotage: Sabotage, update: &mut UpdateOperation) {
    // A parent with averages or extremes is updated by a pipeline.
    if sabotage == Sabotage::RollupVersion {
        change_document(&mut update.filter, |filter| {
            filter.remove("_odm.rollup_version");
        });
    }
    let DocumentChange::Operators {
        update: operators, ..
    } = &mut update.change
    else {
        return;
    };
    let unset = |operators: &mut Document, path: &str| {
        if let Ok(set) = operators.get_document_mut("$set") {
            set.remove(path);
        }
    };
    match sabotage {
        Sabotage::AppliedContribution => {
            change_document(operators, |operators| unset(operators, "_odm.applied"))
        }
        Sabotage::PendingRollup => change_document(operators, |operators| {
            unset(operators, "_odm.pending.rollup")
        }),
        Sabotage::RollupToken => change_document(&mut update.filter, |filter| {
            filter.remove("_odm.pending.rollup.token");
        }),
        _ => {}
    }
}
