//! Outliers under schedules, of which one process is late: with a deletion, with a read, or with an insert.

use std::sync::Arc;

use odm::{
    Result,
    backend::{Backend, BoxFuture, operation::Insert},
    bson::{RawArrayBuf, RawBson, rawdoc},
    prelude::*,
};

use super::{Case, Process};
use crate::aftermath::{look, overdue};

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "sales")]
struct Sale {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 2, into = "extras", owner = "sale"))]
    lines: Overflow<i64>,
}

/// Says that an insert was acknowledged.
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

/// A part of it, where there is less to look for.
#[derive(Schema)]
#[schema(models(Sale))]
struct Sales;

fn sale(id: i64, lines: std::ops::Range<i64>) -> Sale {
    Sale {
        id,
        lines: lines.collect(),
    }
}

/// What waits in the document is as much as can.
async fn full(db: &Db, id: i64) -> Result<()> {
    db.insert(sale(id, 0..2)).await?;
    let fill = db.update::<Sale>(id).push_each(|s| s.lines(), 2..10);
    fill.await.map(drop)
}

async fn one_that_is_full(backend: Arc<dyn Backend>) {
    let db = begun(backend).await;
    full(&db, 1).await.expect("a sale");
}

fn begun(backend: Arc<dyn Backend>) -> BoxFuture<'static, Db> {
    Box::pin(async {
        let db = Db::with_backend(backend);
        db.sync_indexes().await.expect("indexes");
        db
    })
}

/// A document is deleted while what waits in it goes elsewhere.
#[derive(Debug)]
pub struct LateDeletion;

impl Case for LateDeletion {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = begun(backend).await;
            full(&db, 1).await.expect("a sale");
            full(&db, 2).await.expect("a sale");
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
        Box::pin(look::<Shop>(backend, |_| false))
    }
}

/// Arrays are read while their elements go elsewhere: one by a spill, one as it is replaced, one as it is overflowing for the first time.
#[derive(Debug)]
pub struct LateReading;

impl Case for LateReading {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = begun(backend).await;
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
        Box::pin(look::<Shop>(backend, |_| false))
    }
}

/// Elements are looked for while the last of them come back into their document.
#[derive(Debug)]
pub struct Looks;

impl Case for Looks {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = begun(backend).await;
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
        Box::pin(look::<Shop>(backend, |_| false))
    }
}

/// What the application does while an array is moved as a whole.
async fn pushes_and_pulls(backend: Arc<dyn Backend>, lines: std::ops::Range<i64>) {
    let db = Db::with_backend(backend);
    for line in lines {
        let push = db.update::<Sale>(1).push(|s| s.lines(), line);
        push.await.expect("a sale");
    }
    for line in PULLED {
        let pull = db.update::<Sale>(1).pull(|s| s.lines(), line);
        pull.await.expect("a sale");
    }
}

const PULLED: [i64; 2] = [1, 15];

/// An array that is too long from before overflows while the application writes to it.
#[derive(Debug)]
pub struct Adopts;

impl Case for Adopts {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            begun(backend.clone()).await;
            let lines: Vec<_> = (0..20_i64).map(RawBson::from).collect();
            let insert = Insert {
                collection: "sales".into(),
                documents: vec![rawdoc! { "_id": 1_i64, "lines": RawArrayBuf::from_iter(lines) }],
                ordered: true,
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
            look::<Shop>(backend.clone(), |_| false).await?;
            let db = Db::with_backend(backend);
            let all = db.get::<Sale>(1).elements(|s| s.lines()).all();
            let all = all.await.map_err(|error| error.to_string())?;
            let expected = (0..22).filter(|line| !PULLED.contains(line));
            match all.iter().copied().eq(expected) {
                true => Ok(()),
                false => Err(format!("there is {all:?}")),
            }
        })
    }
}

/// A document is inserted whose elements others take for left behind.
#[derive(Debug)]
pub struct LateInsert;

impl Case for LateInsert {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async { drop(begun(backend).await) })
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
                    // Once before the document is there, and once behind that.
                    for _ in 0..2 {
                        let _ = overdue::<Sales>(&backend).await;
                        let db = odm::Database::<Sales>::with_backend(backend.clone());
                        let _ = db.settle().await;
                    }
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        LateInserts.end(backend)
    }
}

/// The same of several that are inserted at once, of which one may be there already.
#[derive(Debug)]
pub struct LateInserts;

impl Case for LateInserts {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = begun(backend).await;
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
                    let _ = overdue::<Sales>(&backend).await;
                    let db = odm::Database::<Sales>::with_backend(backend);
                    let _ = db.settle().await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let said = |error: odm::Error| error.to_string();
            look::<Shop>(backend.clone(), |_| false).await?;
            let db = Db::with_backend(backend);
            for note in db.find::<Note>().all().await.map_err(said)? {
                let all = db.get::<Sale>(note.id).elements(|s| s.lines()).all();
                let all = all.await.map_err(said)?;
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

/// A document is inserted that another deletes as soon as it is there.
#[derive(Debug)]
pub struct BriefInsert;

impl Case for BriefInsert {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async { drop(begun(backend).await) })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    db.insert(sale(1, 0..10)).await.expect("nobody is late");
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    // It may be too early.
                    for _ in 0..2 {
                        let _ = db.delete::<Sale>(1).await;
                    }
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    // It finishes what the others have begun, and pulls nothing.
                    let _ = db.update::<Sale>(1).pull(|s| s.lines(), 99).await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let said = |error: odm::Error| error.to_string();
            let db = Db::with_backend(backend.clone());
            look::<Shop>(backend, |_| false).await?;
            let left = db.find::<Sale>().all().await.map_err(said)?;
            if let Some(sale) = left.first() {
                let lines = db.get::<Sale>(1).elements(|s| s.lines()).all();
                let lines = lines.await.map_err(said)?;
                if !lines.iter().copied().eq(0..10) {
                    return Err(format!("of {sale:?} there is {lines:?}"));
                }
            }
            Ok(())
        })
    }
}

/// Few write to one array that is full, and one carries out what they seem to have left.
#[derive(Debug)]
pub struct FewOverflows {
    /// Whether there are elements in the extras already.
    pub has_extras: bool,
}

impl Case for FewOverflows {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = begun(backend).await;
            full(&db, 1).await.expect("a sale");
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
                    let left = pull.returning_after().await.expect("a sale");
                    // Of one moment: nothing is counted twice that went from one place to another.
                    let len = left.lines.len();
                    let is_of_one = [9..=11, 17..=19].iter().any(|lens| lens.contains(&len));
                    assert!(is_of_one, "{len}");
                })
            },
            |backend| {
                Box::pin(async move {
                    let _ = overdue::<Shop>(&backend).await;
                    let _ = Db::with_backend(backend).settle().await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        let count = if self.has_extras { 18 } else { 10 };
        Box::pin(async move {
            look::<Shop>(backend.clone(), |_| false).await?;
            let db = Db::with_backend(backend);
            let all = db.get::<Sale>(1).elements(|s| s.lines()).all();
            let all = all.await.map_err(|error| error.to_string())?;
            let expected = (0..count).chain([18]).filter(|line| *line != 5);
            match all.iter().copied().eq(expected) {
                true => Ok(()),
                false => Err(format!("there is {all:?}")),
            }
        })
    }
}

/// Two let the same full array overflow further, one of them by more than one operation: of what both come to an end with nothing is left
/// to do.
#[derive(Debug)]
pub struct Spills;

impl Case for Spills {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(one_that_is_full(backend))
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
            let said = |error: odm::Error| error.to_string();
            let db = Db::with_backend(backend.clone());
            let owed = db.owed().await.map_err(said)?;
            if !owed.is_empty() {
                return Err(format!("there is owed {owed}"));
            }
            let all = db.get::<Sale>(1).elements(|s| s.lines()).all();
            let mut all = all.await.map_err(said)?;
            all.sort_unstable();
            if !all.iter().copied().eq((0..11).chain(20..50)) {
                return Err(format!("there is {all:?}"));
            }
            look::<Shop>(backend, |_| false).await
        })
    }
}

/// Elements are added to sets, few and many of them, while others empty these, add some of the same, and push to one.
#[derive(Debug)]
pub struct Sets;

impl Case for Sets {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = begun(backend).await;
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
            // The one or the other was the last: what was added is there as a whole, or not at all.
            for (id, whole) in [
                (1, vec![vec![], vec![1, 50]]),
                (2, vec![vec![], (1..20).collect()]),
                (3, vec![(0..30).chain([100]).collect()]),
            ] {
                let all = db.get::<Sale>(id).elements(|s| s.lines());
                let mut all = all.all().await.map_err(|error| error.to_string())?;
                all.sort_unstable();
                if !whole.contains(&all) {
                    return Err(format!("sale {id} has {all:?}"));
                }
            }
            look::<Shop>(backend, |_| false).await
        })
    }
}

/// The sales on their way back.
mod back {
    use super::*;

    #[derive(Debug, Clone, Serialize, Deserialize, Document)]
    #[document(collection = "sales")]
    pub(super) struct Sale {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[embed(overflow(gather, into = "extras", owner = "sale"))]
        pub(super) lines: Overflow<i64>,
    }

    #[derive(Schema)]
    #[schema(models(Sale))]
    pub(super) struct Shop;
    pub(super) type Db = odm::Database<Shop>;
}

/// An array goes back to its document while another process of the application, from before, lets it overflow.
#[derive(Debug)]
pub struct Gathers;

impl Case for Gathers {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = begun(backend).await;
            db.insert(sale(1, 0..20)).await.expect("a sale");
            // What waits in it is one less than can.
            let fill = db.update::<Sale>(1).push_each(|s| s.lines(), 20..27);
            fill.await.expect("a sale");
        })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = back::Db::with_backend(backend);
                    db.arrays::<back::Sale>().fold().await.expect("sales");
                })
            },
            |backend| Box::pin(pushes_and_pulls(backend, 27..30)),
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            look::<back::Shop>(backend.clone(), |_| false).await?;
            let said = |error: odm::Error| error.to_string();
            let db = back::Db::with_backend(backend);
            db.arrays::<back::Sale>().fold().await.map_err(said)?;
            let lines = db.get::<back::Sale>(1).await.map_err(said)?.lines;
            let expected = (0..30).filter(|line| !PULLED.contains(line));
            match !lines.has_more() && lines.resident().iter().copied().eq(expected) {
                true => look::<back::Shop>(db.backend().clone(), |_| false).await,
                false => Err(format!("there is {lines:?}")),
            }
        })
    }
}
