//! Schedules for two overflow arrays that every write changes together.

use std::sync::Arc;

use odm::{
    Result,
    backend::{Backend, BoxFuture},
    prelude::*,
};

use super::{Case, Process};
use crate::aftermath::recover_and_check;

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

/// Inserts an entry without spilled elements, and an entry with spilled elements in both arrays and a full tail in `left`.
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

async fn clear_arrays(db: &Db, id: i64) -> Result<()> {
    let emptied = db
        .update::<Entry>(id)
        .set(|e| e.count(), 0)
        .set(|e| e.left(), [])
        .set(|e| e.right(), []);
    emptied.await.map(drop)
}

/// Completes pending work, and checks that both arrays have equal elements. The order may differ after concurrent pushes.
async fn check_arrays_equal(backend: Arc<dyn Backend>) -> Result<(), String> {
    let message = |error: odm::Error| error.to_string();
    recover_and_check::<Ledger>(backend.clone(), |_| false).await?;
    let db = Db::with_backend(backend);
    for id in [1, 2] {
        let left = db.get::<Entry>(id).elements(|e| e.left()).all();
        let mut left = left.await.map_err(message)?;
        let right = db.get::<Entry>(id).elements(|e| e.right()).all();
        let mut right = right.await.map_err(message)?;
        left.sort_unstable();
        right.sort_unstable();
        let count = db.get::<Entry>(id).await.map_err(message)?.count;
        if left != right || left.len() as i64 != count {
            return Err(format!("entry {id} counts {count}: {left:?}, {right:?}"));
        }
    }
    Ok(())
}

/// Four processes on two entries.
#[derive(Debug)]
pub struct TwoOverflowArrays;

impl Case for TwoOverflowArrays {
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
                    let _ = clear_arrays(&db, 1).await;
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
        Box::pin(check_arrays_equal(backend))
    }
}

/// A case small enough for every schedule: two processes write to the same entry.
#[derive(Debug)]
pub struct SmallTwoOverflowArrays;

impl Case for SmallTwoOverflowArrays {
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
        Box::pin(check_arrays_equal(backend))
    }
}
