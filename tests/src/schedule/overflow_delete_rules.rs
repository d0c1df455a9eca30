//! Overflow arrays of references with delete rules, under schedules: targets are deleted while concurrent writes add references,
//! and while references spill.

use std::{collections::BTreeSet, sync::Arc};

use odm::{
    backend::{Backend, BoxFuture},
    prelude::*,
};

use super::{Case, Process};
use crate::aftermath::{expire_leases, recover_and_check};

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    age: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "clubs")]
struct Club {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = pull, overflow(after = 1, into = "more_members"))]
    members: Overflow<Ref<Person>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "loans")]
struct Loan {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(exists, overflow(after = 1, into = "more_borrowers"))]
    borrowers: Overflow<Ref<Person>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "teams")]
struct Team {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade, overflow(after = 1, into = "more_players"))]
    players: Overflow<Ref<Person>>,
}

#[derive(Schema)]
#[schema(models(Person, Club, Loan, Team))]
struct Town;
type Db = odm::Database<Town>;

/// Five processes: writes that add references, deletes of the targets, and recovery of pending work with folds.
#[derive(Debug)]
pub struct OverflowDeleteRules;

/// A case that is small enough to run every order: a push to a full array, while a process deletes the pushed target and a target
/// that the push spills.
#[derive(Debug)]
pub struct SmallOverflowDeleteRules;

fn refs(ids: impl IntoIterator<Item = i64>) -> Vec<Ref<Person>> {
    ids.into_iter().map(Ref::new).collect()
}

fn club(id: i64, members: impl IntoIterator<Item = i64>) -> Club {
    let members = refs(members).into();
    Club { id, members }
}

fn team(id: i64, players: impl IntoIterator<Item = i64>) -> Team {
    Team {
        id,
        players: refs(players).into(),
    }
}

/// Inserts people, and a club with a full tail.
async fn insert_full_club(backend: Arc<dyn Backend>) -> Db {
    let db = Db::with_backend(backend);
    db.sync_indexes().await.expect("indexes");
    let people = (1..=30).map(|id| Person { id, age: 0 });
    db.insert_many(people).await.expect("people");
    db.insert(club(1, [1])).await.expect("a club");
    let fill = db.update::<Club>(1).push_each(|c| c.members(), refs(2..=9));
    fill.await.expect("room");
    db
}

impl Case for OverflowDeleteRules {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = insert_full_club(backend).await;
            db.insert(club(2, 1..=4)).await.expect("a club");
            let borrowers = refs([20]).into();
            db.insert(Loan { id: 1, borrowers }).await.expect("a loan");
            db.insert(team(1, 5..=7)).await.expect("a team");
        })
    }

    fn processes(&self) -> Vec<Process> {
        // A failed write had too many conflicts, or met a deleted or restricted person, and has changed no document.
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let push = db.update::<Club>(1).push(|c| c.members(), Ref::new(10));
                    let _ = push.await;
                    let many = db
                        .update::<Club>(1)
                        .push_each(|c| c.members(), refs(11..=21));
                    let _ = many.await;
                    let push = db.update::<Loan>(1).push(|l| l.borrowers(), Ref::new(11));
                    let _ = push.await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    for gone in [10, 3, 6, 11] {
                        let _ = db.delete::<Person>(gone).await;
                    }
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let set = db.update::<Club>(2).set(|c| c.members(), refs([10, 3, 12]));
                    let _ = set.await;
                    let _ = db.insert(Person { id: 10, age: 1 }).await;
                    let _ = db.insert(team(2, [3, 12, 6])).await;
                    // The team may be in the delete set of person 6, and no longer belongs there after this pull.
                    let pull = db.update::<Team>(1).pull(|t| t.players(), Ref::new(6));
                    let _ = pull.await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.delete::<Club>(1).await;
                    let _ = db.insert(club(1, 8..=14)).await;
                    let _ = db.delete::<Person>(20).await;
                })
            },
            |backend| {
                Box::pin(async move {
                    for _ in 0..2 {
                        let _ = expire_leases::<Town>(&backend).await;
                        let db = Db::with_backend(backend.clone());
                        let _ = db.run_pending().await;
                        let _ = db.arrays::<Club>().fold().await;
                    }
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(recover_and_check::<Town>(backend, |_| false))
    }
}

impl Case for SmallOverflowDeleteRules {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async { drop(insert_full_club(backend).await) })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    for gone in [10, 5] {
                        let _ = db.delete::<Person>(gone).await;
                    }
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let push = db.update::<Club>(1).push(|c| c.members(), Ref::new(10));
                    let _ = push.await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            recover_and_check::<Town>(backend.clone(), |_| false).await?;
            let db = Db::with_backend(backend);
            let message = |error: odm::Error| error.to_string();
            let people = db.find::<Person>().all().await.map_err(message)?;
            let existing: BTreeSet<_> = people.iter().map(|person| person.id).collect();
            let all = db.get::<Club>(1).elements(|c| c.members()).all();
            let all = all.await.map_err(message)?;
            let members: BTreeSet<_> = all.iter().map(|one| *one.id()).collect();
            // The push of person 10 may fail because of the delete.
            let of_before = (1..=9).filter(|id| existing.contains(id));
            let is_right = of_before.eq(members.iter().copied().filter(|id| *id < 10));
            match is_right && members.len() == all.len() {
                true => Ok(()),
                false => Err(format!(
                    "unexpected members: {members:?}, persons: {existing:?}"
                )),
            }
        })
    }
}
