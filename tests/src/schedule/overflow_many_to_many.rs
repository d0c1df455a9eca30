//! Schedules for references with overflow arrays on both sides. Processes push, pull and replace references, and delete and
//! insert the referrers and targets.

use std::sync::Arc;

use odm::{
    backend::{Backend, BoxFuture},
    prelude::*,
};

use super::{Case, Process};
use crate::aftermath::{expire_leases, recover_and_check};

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

/// Five processes: two update references, two delete and insert users, and a fifth runs recovery and folds arrays.
#[derive(Debug)]
pub struct ManyToManyOverflows;

/// A case small enough for every schedule: a process pulls references, and a second process runs recovery and pushes a pulled
/// reference again.
#[derive(Debug)]
pub struct SmallManyToManyOverflows;

fn refs(ids: impl IntoIterator<Item = i64>) -> Vec<Ref<User>> {
    ids.into_iter().map(Ref::new).collect()
}

fn user(id: i64, follows: impl IntoIterator<Item = i64>) -> NewUser {
    NewUser {
        id,
        follows: refs(follows).into(),
    }
}

/// Inserts 14 users without references, and user 20 with references to users 1 to `follows`.
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

impl Case for ManyToManyOverflows {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        // Eight elements fill the tail of `follows`, so the next push spills elements into a chunk.
        Box::pin(async { drop(begin(backend, 9).await) })
    }

    fn processes(&self) -> Vec<Process> {
        // A failed write had too many conflicts or a deleted target, and changed no document.
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
                        let _ = expire_leases::<Network>(&backend).await;
                        let db = Db::with_backend(backend.clone());
                        let _ = db.run_pending().await;
                        let _ = db.arrays::<User>().fold().await;
                    }
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(recover_and_check::<Network>(backend, |_| false))
    }
}

impl Case for SmallManyToManyOverflows {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        // The array has more elements than the tail can hold, so some elements are in chunks.
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
                    let _ = expire_leases::<Network>(&backend).await;
                    // The push finds pending work with an expired lease, and completes the pending work first.
                    let db = Db::with_backend(backend);
                    let push = db.update::<User>(20).push(|u| u.follows(), Ref::new(1));
                    let _ = push.await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        ManyToManyOverflows.end(backend)
    }
}
