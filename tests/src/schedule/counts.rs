//! Counts under schedules: documents are inserted, moved, changed and deleted, and so are those at which they are counted.

use std::sync::Arc;

use odm::{
    backend::{
        Backend, BoxFuture,
        operation::{Change, Insert, Update},
    },
    bson::Document,
    check::Fault,
    prelude::*,
};

use super::{Case, Process, Sabotage, change};
use crate::aftermath::{look, overdue};

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

/// One process inserts documents, one moves and changes one, one deletes it and inserts it anew, one does so with that at which it is
/// counted, and one carries out what the others seem to have left.
#[derive(Debug)]
pub struct Counts;

fn comment(id: i64, post: i64) -> Comment {
    Comment {
        id,
        post: Ref::new(post),
        likes: id,
    }
}

impl Case for Counts {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = Db::with_backend(backend);
            db.sync_indexes().await.expect("indexes");
            for id in [1, 2] {
                db.insert(NewPost { id }).await.expect("a post");
                db.insert(comment(id, id)).await.expect("a comment");
            }
            db.settled().await.expect("nothing owed");
        })
    }

    fn processes(&self) -> Vec<Process> {
        // What fails has met another write too often, and has done nothing.
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
            |backend| {
                Box::pin(async move {
                    for _ in 0..2 {
                        let _ = overdue::<Blog>(&backend).await;
                        let _ = Db::with_backend(backend.clone()).settle().await;
                    }
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(look::<Blog>(backend, |fault| {
            // The post may be gone.
            matches!(fault, Fault::Dangling { .. })
        }))
    }
}

/// Few enough for every order: a document is moved, and that at which it was counted is deleted and inserted anew.
#[derive(Debug)]
pub struct FewCounts;

impl Case for FewCounts {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Counts.begin(backend)
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
        Counts.end(backend)
    }
}

/// Few enough for every order: that at which a document was counted comes back, while the document says that it is to be counted, though
/// nothing has changed.
#[derive(Debug)]
pub struct Returns;

impl Case for Returns {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            Counts.begin(backend.clone()).await;
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
        Counts.end(backend)
    }
}

/// Few enough for every order: a document is deleted, and another comes under its `_id`, while somebody changes what was there before.
#[derive(Debug)]
pub struct Reborn;

impl Case for Reborn {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Counts.begin(backend)
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
        Counts.end(backend)
    }
}

/// Takes a guard out of an insert.
pub(super) fn spoil_insert(sabotage: Sabotage, insert: &mut Insert) {
    let taken = match sabotage {
        Sabotage::Counting => "count",
        Sabotage::NewOwners => "recount",
        _ => return,
    };
    for raw in &mut insert.documents {
        change(raw, |document| {
            if let Ok(own) = document.get_document_mut("_odm") {
                own.remove(taken);
            }
        });
    }
}

/// Takes a guard out of an update.
pub(super) fn spoil_update(sabotage: Sabotage, update: &mut Update) {
    let Change::Operators {
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
        Sabotage::Fence => change(&mut update.filter, |filter| {
            filter.remove("_odm.tally");
        }),
        Sabotage::Notes => change(operators, |operators| unset(operators, "_odm.notes")),
        Sabotage::Counting => change(operators, |operators| unset(operators, "_odm.count")),
        Sabotage::Remembering => change(&mut update.filter, |filter| {
            filter.remove("_odm.count.token");
        }),
        _ => {}
    }
}
