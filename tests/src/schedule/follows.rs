//! References that overflow on both sides, under schedules: they are pushed, pulled and replaced while those on either side are deleted and
//! inserted anew, and while what refers to them goes elsewhere.

use std::sync::Arc;

use odm::{
    backend::{Backend, BoxFuture},
    prelude::*,
};

use super::{Case, Process};
use crate::aftermath::{look, overdue};

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "users")]
struct User {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = followers, on_delete = pull, overflow(after = 1, into = "more_follows", flag = "more_follows"))]
    follows: Overflow<Ref<User>>,
    #[reference(inverse_of = follows, overflow(after = 1, into = "more_followers", flag = "more_followers"))]
    followers: Overflow<Ref<User>>,
}

#[derive(Schema)]
#[schema(models(User))]
struct Network;
type Db = odm::Database<Network>;

/// Several change whom one follows, others delete them and that one, and one carries out what they seem to have left.
#[derive(Debug)]
pub struct Follows;

/// Few enough for every order: one follows fewer, and another follows one of those again and carries out what seems to be left.
#[derive(Debug)]
pub struct FewFollows;

fn refs(ids: impl IntoIterator<Item = i64>) -> Vec<Ref<User>> {
    ids.into_iter().map(Ref::new).collect()
}

fn user(id: i64, follows: impl IntoIterator<Item = i64>) -> NewUser {
    NewUser {
        id,
        follows: refs(follows).into(),
    }
}

/// Some who follow nobody, and one who follows so many of them.
async fn begin(backend: Arc<dyn Backend>, follows: i64) -> Db {
    let db = Db::with_backend(backend);
    db.sync_indexes().await.expect("indexes");
    let people = (1..=14).map(|id| user(id, []));
    db.insert_many(people).await.expect("people");
    db.insert(user(20, [1])).await.expect("one who follows");
    let fill = db.update::<User>(20);
    let fill = fill.push_each(|u| u.follows(), refs(2..=follows));
    fill.await.expect("room");
    db
}

impl Case for Follows {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        // The ninth outside of the document is one too many for its tail.
        Box::pin(async { drop(begin(backend, 9).await) })
    }

    fn processes(&self) -> Vec<Process> {
        // What fails has met another write too often, or somebody who is gone, and has done nothing.
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let push = db.update::<User>(20).push(|u| u.follows(), Ref::new(10));
                    let _ = push.await;
                    let pull = db.update::<User>(20);
                    let _ = pull.pull_all(|u| u.follows(), refs([1, 5, 10])).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    for gone in [10, 3] {
                        let _ = db.delete::<User>(gone).await;
                    }
                    let _ = db.insert(user(10, [20, 1, 4])).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let push = db.update::<User>(20);
                    let push = push.add_each_to_set(|u| u.follows(), refs([11, 3, 12]));
                    let _ = push.await;
                    let some = db.update::<User>(20);
                    let some = some.pull_where(|u| u.follows(), |one| one.ne(Ref::new(4)));
                    let _ = some.await;
                    let set = db.update::<User>(1);
                    let _ = set.set(|u| u.follows(), refs([20, 4, 2])).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.delete::<User>(20).await;
                    let _ = db.insert(user(20, [1, 3, 13])).await;
                })
            },
            |backend| {
                Box::pin(async move {
                    for _ in 0..2 {
                        let _ = overdue::<Network>(&backend).await;
                        let db = Db::with_backend(backend.clone());
                        let _ = db.settle().await;
                        let _ = db.arrays::<User>().fold().await;
                    }
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(look::<Network>(backend, |_| false))
    }
}

impl Case for FewFollows {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        // More than its tail holds: some are in documents of their own.
        Box::pin(async { drop(begin(backend, 14).await) })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let pull = db.update::<User>(20);
                    let _ = pull.pull_all(|u| u.follows(), refs([1, 5])).await;
                })
            },
            |backend| {
                Box::pin(async move {
                    let _ = overdue::<Network>(&backend).await;
                    // It comes upon what seems to be left, and finishes that first.
                    let db = Db::with_backend(backend);
                    let push = db.update::<User>(20).push(|u| u.follows(), Ref::new(1));
                    let _ = push.await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Follows.end(backend)
    }
}
