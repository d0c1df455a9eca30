//! Overflow arrays under schedules with a late process: a late delete, read or insert.

use std::sync::Arc;

use odm::{
    Result,
    backend::{Backend, BoxFuture, operation::InsertOperation},
    bson::{RawArrayBuf, RawBson, rawdoc},
    prelude::*,
};

use super::{Case, Process};
use crate::aftermath::{expire_leases, recover_and_check};

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "sales")]
struct Sale {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 2, into = "extras", owner = "sale"))]
    lines: Overflow<i64>,
}

/// A record that an insert was acknowledged.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "notes")]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Schema)]
#[schema(models(Sale, Note))]
struct Shop;
type Db = odm::Database<Shop>;

/// A schema of `Sale` alone, so that recovery searches fewer collections.
#[derive(Schema)]
#[schema(models(Sale))]
struct Sales;

fn sale(id: i64, lines: std::ops::Range<i64>) -> Sale {
    Sale {
        id,
        lines: lines.collect(),
    }
}

/// Inserts a sale with a full tail.
async fn insert_full_sale(db: &Db, id: i64) -> Result<()> {
    db.insert(sale(id, 0..2)).await?;
    let fill = db.update::<Sale>(id).push_each(|s| s.lines(), 2..10);
    fill.await.map(drop)
}

async fn begin_with_full_sale(backend: Arc<dyn Backend>) {
    let db = open_with_indexes(backend).await;
    insert_full_sale(&db, 1).await.expect("a sale");
}

fn open_with_indexes(backend: Arc<dyn Backend>) -> BoxFuture<'static, Db> {
    Box::pin(async {
        let db = Db::with_backend(backend);
        db.sync_indexes().await.expect("indexes");
        db
    })
}

/// A delete of documents during a spill of the tail.
#[derive(Debug)]
pub struct LateDeletion;

impl Case for LateDeletion {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = open_with_indexes(backend).await;
            insert_full_sale(&db, 1).await.expect("a sale");
            insert_full_sale(&db, 2).await.expect("a sale");
        })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.delete::<Sale>(1).await;
                    let _ = db.delete::<Sale>(2).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.update::<Sale>(1).push(|s| s.lines(), 10).await;
                    let many = db.update::<Sale>(2).push_each(|s| s.lines(), 10..40);
                    let _ = many.await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(recover_and_check::<Shop>(backend, |_| false))
    }
}

/// A spill that two processes complete, and a delete of the document. The late process inserts the chunk again after the delete.
#[derive(Debug)]
pub struct LateSpill;

impl Case for LateSpill {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(begin_with_full_sale(backend))
    }

    fn processes(&self) -> Vec<Process> {
        let push: Process = |backend| {
            Box::pin(async {
                let db = Db::with_backend(backend);
                let _ = db.update::<Sale>(1).push(|s| s.lines(), 10).await;
            })
        };
        // These elements do not fit before the spill of the first process is completed.
        let push_each: Process = |backend| {
            Box::pin(async {
                let db = Db::with_backend(backend);
                let push = db.update::<Sale>(1).push_each(|s| s.lines(), 11..20);
                let _ = push.await;
            })
        };
        let delete: Process = |backend| {
            Box::pin(async {
                let db = Db::with_backend(backend);
                let _ = db.delete::<Sale>(1).await;
            })
        };
        vec![push, push_each, delete]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(recover_and_check::<Shop>(backend, |_| false))
    }
}

/// Reads of two arrays while elements move: a spill moves elements of array 1, and a write replaces array 2.
#[derive(Debug)]
pub struct LateReading;

impl Case for LateReading {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = open_with_indexes(backend).await;
            db.insert(sale(1, 0..4)).await.expect("a sale");
            let fill = db.update::<Sale>(1).push_each(|s| s.lines(), 4..10);
            fill.await.expect("room");
            db.insert(sale(2, 0..40)).await.expect("a sale");
        })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let lines = |id| db.get::<Sale>(id).elements(|s| s.lines());
                    let found = lines(1).filter(|line| line.lt(10)).await.expect("a sale");
                    assert_eq!(found, (0..10).collect::<Vec<_>>());
                    let page = lines(2).page(1, 20).await.expect("a sale");
                    let any = [1, 101, 201].map(|from| (from..from + 20).collect::<Vec<_>>());
                    assert!(any.contains(&page), "{page:?}");
                    let one = lines(2).get(30).await.expect("a sale");
                    assert!(matches!(one, Some(30 | 130 | 230)), "{one:?}");
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    for line in 10..20 {
                        let push = db.update::<Sale>(1).push(|s| s.lines(), line);
                        push.await.expect("room");
                    }
                    for from in [100, 200] {
                        let lines: Vec<_> = (from..from + 40).collect();
                        let replace = db.update::<Sale>(2).set(|s| s.lines(), lines);
                        replace.await.expect("a sale");
                    }
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(recover_and_check::<Shop>(backend, |_| false))
    }
}

/// Searches of an array during a fold of the last spilled elements.
#[derive(Debug)]
pub struct SearchesDuringFold;

impl Case for SearchesDuringFold {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = open_with_indexes(backend).await;
            db.insert(sale(1, 0..2)).await.expect("a sale");
            let push = db.update::<Sale>(1).push(|s| s.lines(), 2);
            push.await.expect("room");
            let pull = db.update::<Sale>(1).pull(|s| s.lines(), 0);
            pull.await.expect("a sale");
        })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    for _ in 0..4 {
                        let lines = db.get::<Sale>(1).elements(|s| s.lines());
                        let found = lines.filter(|line| line.lt(10)).await.expect("a sale");
                        assert_eq!(found, [1, 2]);
                    }
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    db.arrays::<Sale>().fold().await.expect("sales");
                    for line in 10..30 {
                        let push = db.update::<Sale>(1).push(|s| s.lines(), line);
                        push.await.expect("a sale");
                    }
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(recover_and_check::<Shop>(backend, |_| false))
    }
}

/// Pushes and pulls of the application while a spill or a fold moves the whole array.
async fn pushes_and_pulls(backend: Arc<dyn Backend>, lines: std::ops::Range<i64>) {
    let db = Db::with_backend(backend);
    for line in lines {
        let push = db.update::<Sale>(1).push(|s| s.lines(), line);
        push.await.expect("a sale");
    }
    for line in PULLED_LINES {
        let pull = db.update::<Sale>(1).pull(|s| s.lines(), line);
        pull.await.expect("a sale");
    }
}

const PULLED_LINES: [i64; 2] = [1, 15];

/// A first spill of a long array while the application writes to the array.
#[derive(Debug)]
pub struct ExistingArraySpill;

impl Case for ExistingArraySpill {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            open_with_indexes(backend.clone()).await;
            let lines: Vec<_> = (0..20_i64).map(RawBson::from).collect();
            let insert = InsertOperation {
                collection: "sales".into(),
                documents: vec![rawdoc! { "_id": 1_i64, "lines": RawArrayBuf::from_iter(lines) }],
                ordered: true,
                origin: Default::default(),
            };
            backend.insert(insert).await.expect("a sale");
        })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    db.arrays::<Sale>().spill().await.expect("sales");
                })
            },
            |backend| Box::pin(pushes_and_pulls(backend, 20..22)),
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            recover_and_check::<Shop>(backend.clone(), |_| false).await?;
            let db = Db::with_backend(backend);
            let all = db.get::<Sale>(1).elements(|s| s.lines()).all();
            let all = all.await.map_err(|error| error.to_string())?;
            let expected = (0..22).filter(|line| !PULLED_LINES.contains(line));
            match all.iter().copied().eq(expected) {
                true => Ok(()),
                false => Err(format!("unexpected lines: {all:?}")),
            }
        })
    }
}

/// An insert with provisional chunks that a second process may take for abandoned.
#[derive(Debug)]
pub struct LateInsert;

impl Case for LateInsert {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async { drop(open_with_indexes(backend).await) })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    if db.insert(sale(1, 0..10)).await.is_ok() {
                        db.insert(Note { id: 1 }).await.expect("a note");
                    }
                })
            },
            |backend| {
                Box::pin(async move {
                    // Once before the document exists, and once after.
                    for _ in 0..2 {
                        let _ = expire_leases::<Sales>(&backend).await;
                        let db = odm::Database::<Sales>::with_backend(backend.clone());
                        let _ = db.run_pending().await;
                    }
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        LateInserts.end(backend)
    }
}

/// Inserts of several documents at once, also with an id that exists already. A second process may take provisional chunks for
/// abandoned.
#[derive(Debug)]
pub struct LateInserts;

impl Case for LateInserts {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = open_with_indexes(backend).await;
            db.insert(sale(9, 0..2)).await.expect("a sale");
        })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    for ids in [&[1, 2][..], &[3, 4, 9]] {
                        let sales = ids.iter().map(|id| sale(*id, 0..10));
                        let there = match db.insert_many(sales).await {
                            Ok(all) => all.len(),
                            Err(error) => error.inserted().unwrap_or(0),
                        };
                        for id in ids.iter().take(there) {
                            db.insert(Note { id: *id }).await.expect("a note");
                        }
                    }
                })
            },
            |backend| {
                Box::pin(async move {
                    let _ = expire_leases::<Sales>(&backend).await;
                    let db = odm::Database::<Sales>::with_backend(backend);
                    let _ = db.run_pending().await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let message = |error: odm::Error| error.to_string();
            recover_and_check::<Shop>(backend.clone(), |_| false).await?;
            let db = Db::with_backend(backend);
            for note in db.find::<Note>().all().await.map_err(message)? {
                let all = db.get::<Sale>(note.id).elements(|s| s.lines()).all();
                let all = all.await.map_err(message)?;
                if !all.iter().copied().eq(0..10) {
                    return Err(format!(
                        "of {}, which was acknowledged, there is {all:?}",
                        note.id
                    ));
                }
            }
            Ok(())
        })
    }
}

/// An insert of a document that a second process deletes immediately.
#[derive(Debug)]
pub struct BriefInsert;

impl Case for BriefInsert {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async { drop(open_with_indexes(backend).await) })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    db.insert(sale(1, 0..10))
                        .await
                        .expect("no concurrent insert");
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    // The first delete may run before the insert.
                    for _ in 0..2 {
                        let _ = db.delete::<Sale>(1).await;
                    }
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    // The pull recovers pending work of earlier writes, and matches no element.
                    let _ = db.update::<Sale>(1).pull(|s| s.lines(), 99).await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let message = |error: odm::Error| error.to_string();
            let db = Db::with_backend(backend.clone());
            recover_and_check::<Shop>(backend, |_| false).await?;
            let sales = db.find::<Sale>().all().await.map_err(message)?;
            if let Some(sale) = sales.first() {
                let lines = db.get::<Sale>(1).elements(|s| s.lines()).all();
                let lines = lines.await.map_err(message)?;
                if !lines.iter().copied().eq(0..10) {
                    return Err(format!("unexpected lines of {sale:?}: {lines:?}"));
                }
            }
            Ok(())
        })
    }
}

/// Two writes to a full array, while a third process recovers the pending work of both.
#[derive(Debug)]
pub struct SmallOverflows {
    /// Whether the array has chunk documents at the beginning.
    pub has_extras: bool,
}

impl Case for SmallOverflows {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = open_with_indexes(backend).await;
            insert_full_sale(&db, 1).await.expect("a sale");
            if self.has_extras {
                for line in 10..18 {
                    let push = db.update::<Sale>(1).push(|s| s.lines(), line);
                    push.await.expect("room");
                }
            }
        })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let push = db.update::<Sale>(1).push(|s| s.lines(), 18);
                    push.await.expect("a sale");
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let pull = db.update::<Sale>(1).pull(|s| s.lines(), 5);
                    let updated = pull.returning_after().await.expect("a sale");
                    // The length belongs to a single moment: an element that moved is not counted twice.
                    let len = updated.lines.len();
                    let is_of_one = [9..=11, 17..=19].iter().any(|lens| lens.contains(&len));
                    assert!(is_of_one, "{len}");
                })
            },
            |backend| {
                Box::pin(async move {
                    let _ = expire_leases::<Shop>(&backend).await;
                    let _ = Db::with_backend(backend).run_pending().await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        let count = if self.has_extras { 18 } else { 10 };
        Box::pin(async move {
            recover_and_check::<Shop>(backend.clone(), |_| false).await?;
            let db = Db::with_backend(backend);
            let all = db.get::<Sale>(1).elements(|s| s.lines()).all();
            let all = all.await.map_err(|error| error.to_string())?;
            let expected = (0..count).chain([18]).filter(|line| *line != 5);
            match all.iter().copied().eq(expected) {
                true => Ok(()),
                false => Err(format!("unexpected lines: {all:?}")),
            }
        })
    }
}

/// Two pushes that spill the same full array, one of them in several operations. After both, no work is pending.
#[derive(Debug)]
pub struct ConcurrentSpills;

impl Case for ConcurrentSpills {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(begin_with_full_sale(backend))
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let push = db.update::<Sale>(1).push(|s| s.lines(), 10);
                    push.await.expect("a sale");
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let many = db.update::<Sale>(1).push_each(|s| s.lines(), 20..50);
                    many.await.expect("a sale");
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let message = |error: odm::Error| error.to_string();
            let db = Db::with_backend(backend.clone());
            let pending = db.pending().await.map_err(message)?;
            if !pending.is_empty() {
                return Err(format!("pending work remains: {pending}"));
            }
            let all = db.get::<Sale>(1).elements(|s| s.lines()).all();
            let mut all = all.await.map_err(message)?;
            all.sort_unstable();
            if !all.iter().copied().eq((0..11).chain(20..50)) {
                return Err(format!("unexpected lines: {all:?}"));
            }
            recover_and_check::<Shop>(backend, |_| false).await
        })
    }
}

/// Additions of few and many elements to sets, while a second process empties sets, adds some of the same elements, and pushes.
#[derive(Debug)]
pub struct ConcurrentSets;

impl Case for ConcurrentSets {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = open_with_indexes(backend).await;
            let sales = [sale(1, 0..2), sale(2, 0..2), sale(3, 0..4)];
            db.insert_many(sales).await.expect("sales");
        })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    for (id, added) in [
                        (1, vec![1, 50]),
                        (2, (1..20).collect()),
                        (3, (2..20).collect()),
                    ] {
                        let add = db.update::<Sale>(id).add_each_to_set(|s| s.lines(), added);
                        add.await.expect("a set");
                    }
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    for id in [1, 2] {
                        let empty = db.update::<Sale>(id).set(|s| s.lines(), []);
                        empty.await.expect("a set");
                    }
                    let add = db.update::<Sale>(3).add_each_to_set(|s| s.lines(), 10..30);
                    add.await.expect("a set");
                    let push = db.update::<Sale>(3).push(|s| s.lines(), 100);
                    push.await.expect("a sale");
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let db = Db::with_backend(backend.clone());
            // Either process may be last. The set contains all added elements or no added element.
            for (id, allowed) in [
                (1, vec![vec![], vec![1, 50]]),
                (2, vec![vec![], (1..20).collect()]),
                (3, vec![(0..30).chain([100]).collect()]),
            ] {
                let all = db.get::<Sale>(id).elements(|s| s.lines());
                let mut all = all.all().await.map_err(|error| error.to_string())?;
                all.sort_unstable();
                if !allowed.contains(&all) {
                    return Err(format!("sale {id} has {all:?}"));
                }
            }
            recover_and_check::<Shop>(backend, |_| false).await
        })
    }
}

/// The schema that moves spilled elements back into the sales.
mod inline_models {
    use super::*;

    #[derive(Debug, Clone, Serialize, Deserialize, Document)]
    #[document(collection = "sales")]
    pub(super) struct Sale {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[embed(overflow(inline, into = "extras", owner = "sale"))]
        pub(super) lines: Overflow<i64>,
    }

    #[derive(Schema)]
    #[schema(models(Sale))]
    pub(super) struct Shop;
    pub(super) type Db = odm::Database<Shop>;
}

/// A fold of an array while a process with the earlier schema spills the array.
#[derive(Debug)]
pub struct InlinesArray;

impl Case for InlinesArray {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = open_with_indexes(backend).await;
            db.insert(sale(1, 0..20)).await.expect("a sale");
            // The tail has room for a single element.
            let fill = db.update::<Sale>(1).push_each(|s| s.lines(), 20..27);
            fill.await.expect("a sale");
        })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = inline_models::Db::with_backend(backend);
                    db.arrays::<inline_models::Sale>()
                        .fold()
                        .await
                        .expect("sales");
                })
            },
            |backend| Box::pin(pushes_and_pulls(backend, 27..30)),
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            recover_and_check::<inline_models::Shop>(backend.clone(), |_| false).await?;
            let message = |error: odm::Error| error.to_string();
            let db = inline_models::Db::with_backend(backend);
            db.arrays::<inline_models::Sale>()
                .fold()
                .await
                .map_err(message)?;
            let lines = db
                .get::<inline_models::Sale>(1)
                .await
                .map_err(message)?
                .lines;
            let expected = (0..30).filter(|line| !PULLED_LINES.contains(line));
            match !lines.has_more() && lines.resident().iter().copied().eq(expected) {
                true => {
                    recover_and_check::<inline_models::Shop>(db.backend().clone(), |_| false).await
                }
                false => Err(format!("unexpected lines: {lines:?}")),
            }
        })
    }
}
