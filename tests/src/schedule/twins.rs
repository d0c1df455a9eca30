//! Two arrays that overflow, under schedules, which every write changes together.

use std::sync::Arc;

use odm::{
    Result,
    backend::{Backend, BoxFuture},
    prelude::*,
};

use super::{Case, Process};
use crate::aftermath::look;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "entries")]
struct Entry {
    #[serde(rename = "_id")]
    id: i64,
    count: i64,
    #[embed(overflow(after = 2, into = "more_left", flag = "more_left"))]
    left: Overflow<i64>,
    #[embed(overflow(after = 4, into = "more_right", flag = "more_right"))]
    right: Overflow<i64>,
}

#[derive(Schema)]
#[schema(models(Entry))]
struct Ledger;
type Db = odm::Database<Ledger>;

fn entry(id: i64, values: std::ops::Range<i64>) -> Entry {
    Entry {
        id,
        count: values.end - values.start,
        left: values.clone().collect(),
        right: values.collect(),
    }
}

/// The one is whole, and both of the other are outliers of which one is full.
async fn begin(backend: Arc<dyn Backend>) {
    let db = Db::with_backend(backend);
    db.sync_indexes().await.expect("indexes");
    db.insert(entry(1, 0..2)).await.expect("an entry");
    db.insert(entry(2, 0..2)).await.expect("an entry");
    push(&db, 2, 2..10).await.expect("an entry");
}

async fn push(db: &Db, id: i64, values: std::ops::Range<i64>) -> Result<()> {
    let pushed = db
        .update::<Entry>(id)
        .inc(|e| e.count(), values.end - values.start)
        .push_each(|e| e.left(), values.clone())
        .push_each(|e| e.right(), values);
    pushed.await.map(drop)
}

async fn pull(db: &Db, id: i64, value: i64) -> Result<()> {
    let pulled = db
        .update::<Entry>(id)
        .when(|e| e.left().resident().contains(value))
        .inc(|e| e.count(), -1)
        .pull(|e| e.left(), value)
        .pull(|e| e.right(), value);
    pulled.await.map(drop)
}

async fn empty(db: &Db, id: i64) -> Result<()> {
    let emptied = db
        .update::<Entry>(id)
        .set(|e| e.count(), 0)
        .set(|e| e.left(), [])
        .set(|e| e.right(), []);
    emptied.await.map(drop)
}

/// What is owed is carried out, and both have the same: of pushes that happened at once the one or the other is first in each.
async fn agree(backend: Arc<dyn Backend>) -> Result<(), String> {
    let said = |error: odm::Error| error.to_string();
    look::<Ledger>(backend.clone(), |_| false).await?;
    let db = Db::with_backend(backend);
    for id in [1, 2] {
        let left = db.get::<Entry>(id).elements(|e| e.left()).all();
        let mut left = left.await.map_err(said)?;
        let right = db.get::<Entry>(id).elements(|e| e.right()).all();
        let mut right = right.await.map_err(said)?;
        left.sort_unstable();
        right.sort_unstable();
        let count = db.get::<Entry>(id).await.map_err(said)?.count;
        if left != right || left.len() as i64 != count {
            return Err(format!("entry {id} counts {count}: {left:?}, {right:?}"));
        }
    }
    Ok(())
}

/// Each process writes to both documents.
#[derive(Debug)]
pub struct Twins;

impl Case for Twins {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(begin(backend))
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    for value in [20, 21] {
                        let _ = push(&db, 1, value..value + 1).await;
                        let _ = push(&db, 2, value..value + 1).await;
                    }
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = push(&db, 2, 30..60).await;
                    let _ = push(&db, 1, 30..60).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = pull(&db, 2, 1).await;
                    let _ = pull(&db, 1, 1).await;
                    let _ = empty(&db, 1).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.arrays::<Entry>().fold().await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(agree(backend))
    }
}

/// Two write to the same one.
#[derive(Debug)]
pub struct FewTwins;

impl Case for FewTwins {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(begin(backend))
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    push(&db, 2, 20..21).await.expect("an entry");
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    pull(&db, 2, 1).await.expect("an entry");
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(agree(backend))
    }
}
