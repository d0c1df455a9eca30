//! Arrays that overflow under schedules: elements are pushed, pulled, changed, replaced and brought back, and documents come and go.
//!
//! Each document counts its elements itself, by the same writes that change them: so whatever was acknowledged or not, the two agree. What
//! was acknowledged to one that nobody else takes away from is noted, and is so at the end.

use std::{collections::BTreeSet, sync::Arc};

use odm::{
    backend::{
        Backend, BoxFuture,
        operation::{Change, Insert, Update},
    },
    bson::{Bson, Document, RawDocumentBuf, doc},
    prelude::*,
};

use super::{Case, Process, Sabotage, change};

/// Several processes write to one array at its threshold and beyond it, one to a document that is deleted and comes again, and one
/// carries out what the others seem to have left.
#[derive(Debug)]
pub struct Overflows;

/// The same where the elements are in an order, and those that come belong among the others.
#[derive(Debug)]
pub struct OrderedOverflows;

/// What elements are sorted by.
mod orders {
    pub(super) fn latest_by(n: i64) -> std::cmp::Reverse<i64> {
        std::cmp::Reverse(n)
    }
}

macro_rules! overflows {
    ($module:ident, $case:ident $(, $order:ident)?) => {
        mod $module {
            use super::*;

            #[derive(Debug, Clone, Serialize, Deserialize, Document)]
            #[document(collection = "sales")]
            struct Sale {
                #[serde(rename = "_id")]
                id: i64,
                /// How many lines there are.
                count: i64,
                /// How often all of them were read.
                rounds: i64,
                #[embed(overflow(after = 2, into = "extras", owner = "sale" $(, $order = n)?))]
                lines: Overflow<Line>,
            }

            #[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
            struct Line {
                n: i64,
                /// The rounds that there were before it came, and those that it has seen.
                seen: i64,
            }

            /// These lines have been pushed or pulled.
            #[derive(Debug, Clone, Serialize, Deserialize, Document)]
            #[document(collection = "notes")]
            struct Note {
                #[serde(rename = "_id")]
                n: i64,
            }

            #[derive(Schema)]
            #[schema(models(Sale, Note))]
            struct Shop;
            type Db = odm::Database<Shop>;

            fn lines(numbers: impl IntoIterator<Item = i64>) -> Vec<Line> {
                numbers.into_iter().map(|n| Line { n, seen: 0 }).collect()
            }

            fn sale(id: i64, numbers: std::ops::Range<i64>) -> Sale {
                Sale {
                    id,
                    count: numbers.end - numbers.start,
                    rounds: 0,
                    lines: lines(numbers).into(),
                }
            }

            impl Case for super::$case {
                fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
                    Box::pin(async {
                        let db = Db::with_backend(backend);
                        db.sync_indexes().await.expect("indexes");
                        db.insert_many([sale(1, 0..2), sale(2, 0..14), sale(3, 0..30)])
                            .await
                            .expect("sales");
                        // It is full but for one.
                        let fill = db.update::<Sale>(2).push_each(|s| s.lines(), lines(14..21));
                        fill.inc(|s| s.count(), 7).await.expect("room");
                    })
                }

                fn processes(&self) -> Vec<Process> {
                    // What fails has met another write too often, and has done nothing.
                    vec![
                        |backend| {
                            Box::pin(async {
                                let db = Db::with_backend(backend);
                                for (id, n) in [(1, 100), (2, 101), (2, 102), (2, 103)] {
                                    let push = db.update::<Sale>(id).push_each(|s| s.lines(), lines([n]));
                                    let _ = push.inc(|s| s.count(), 1).await;
                                }
                                let many = db
                                    .update::<Sale>(2)
                                    .push_each(|s| s.lines(), lines(200..212));
                                let _ = many.inc(|s| s.count(), 12).await;
                            })
                        },
                        |backend| {
                            Box::pin(async {
                                let db = Db::with_backend(backend);
                                for (id, n) in [(1, 110), (2, 111), (2, 112)] {
                                    let add = db
                                        .update::<Sale>(id)
                                        .add_each_to_set(|s| s.lines(), lines([n]));
                                    let _ = add.inc(|s| s.count(), 1).await;
                                }
                                let cleared = db.update::<Sale>(2).set(|s| s.lines(), lines(300..301));
                                let _ = cleared.set(|s| s.count(), 1).await;
                                let _ = db.arrays::<Sale>().fold().await;
                            })
                        },
                        |backend| {
                            Box::pin(async {
                                let db = Db::with_backend(backend);
                                // These are there for sure, and pulled by nobody else.
                                for n in [3, 17] {
                                    let pull = db
                                        .update::<Sale>(3)
                                        .pull_where(|s| s.lines(), move |l| l.n().eq(n));
                                    if pull.inc(|s| s.count(), -1).await.is_ok() {
                                        let _ = db.insert(Note { n }).await;
                                    }
                                }
                                let many = db
                                    .update::<Sale>(3)
                                    .push_each(|s| s.lines(), lines(400..410));
                                if many.inc(|s| s.count(), 10).await.is_ok() {
                                    let _ = db.insert_many((400..410).map(|n| Note { n })).await;
                                }
                            })
                        },
                        |backend| {
                            Box::pin(async {
                                let db = Db::with_backend(backend);
                                for _ in 0..2 {
                                    let seen = db.update::<Sale>(3).inc(|s| s.lines().all().seen(), 1);
                                    let _ = seen.inc(|s| s.rounds(), 1).await;
                                }
                                let _ = db.delete::<Sale>(1).await;
                                let _ = db.insert(sale(1, 500..515)).await;
                                // What waits in it may be going elsewhere.
                                let _ = db.delete::<Sale>(2).await;
                            })
                        },
                        |backend| {
                            Box::pin(async move {
                                for _ in 0..2 {
                                    overdue(&backend).await;
                                    let _ = Db::with_backend(backend.clone()).settle().await;
                                }
                            })
                        },
                    ]
                }

                fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
                    Box::pin(async move {
                        let db = Db::with_backend(backend.clone());
                        let said = |error: odm::Error| error.to_string();
                        for _ in 0..2 {
                            overdue(&backend).await;
                            db.settle().await.map_err(said)?;
                        }
                        let owed = db.owed().await.map_err(said)?;
                        if !owed.is_empty() {
                            return Err(format!("there is owed {owed}"));
                        }
                        let report = db.check().await.map_err(said)?;
                        if !report.is_clean() {
                            return Err(report.to_string());
                        }
                        let notes = db.find::<Note>().all().await.map_err(said)?;
                        for sale in db.find::<Sale>().all().await.map_err(said)? {
                            let all = db.get::<Sale>(sale.id).elements(|s| s.lines()).all();
                            let all = all.await.map_err(said)?;
                            let numbers: Vec<_> = all.iter().map(|line| line.n).collect();
                            $(
                                let mut sorted = numbers.clone();
                                sorted.sort_by_key(|n| orders::$order(*n));
                                if sorted != numbers {
                                    return Err(format!("{} is not in order: {numbers:?}", sale.id));
                                }
                            )?
                            let mut noted = notes.iter().filter(|_| sale.id == 3);
                            if let Some(note) = noted.find(|note| numbers.contains(&note.n) != (note.n >= 400)) {
                                return Err(format!("{note:?} was acknowledged, and there is {numbers:?}"));
                            }
                            let distinct: BTreeSet<_> = numbers.iter().collect();
                            if distinct.len() < all.len() {
                                return Err(format!("{} has some twice: {numbers:?}", sale.id));
                            }
                            if sale.count != all.len() as i64 || sale.lines.len() != all.len() as u64 {
                                let (count, len) = (sale.count, sale.lines.len());
                                return Err(format!("{} has {count}, {len}, {numbers:?}", sale.id));
                            }
                            let mut first = all.iter().filter(|line| sale.id == 3 && line.n < 100);
                            if let Some(line) = first.find(|line| line.seen != sale.rounds) {
                                return Err(format!("{} rounds, and {line:?}", sale.rounds));
                            }
                        }
                        Ok(())
                    })
                }
            }
        }
    };
}
overflows!(pushed, Overflows);
overflows!(ordered, OrderedOverflows, latest_by);

/// Nobody waits for what another may still be doing.
async fn overdue(backend: &Arc<dyn Backend>) {
    let of = |document: Document| RawDocumentBuf::try_from(&document).expect("a document");
    for (collection, due) in [
        ("sales", "_odm.overflow.lines.work.due"),
        ("sales", "_odm.due"),
        ("extras", "_odm.own.due"),
    ] {
        let update = Update {
            collection: collection.into(),
            filter: of(doc! { due: { "$exists": true } }),
            change: Change::operators(of(doc! { "$set": { due: DateTime::from_millis(0) } })),
            multi: true,
            upsert: false,
        };
        let _ = backend.update(update).await;
    }
}

/// Takes a guard out of an insert.
pub(super) fn spoil_insert(sabotage: Sabotage, insert: &mut Insert) {
    if insert.collection != "extras" {
        return;
    }
    for raw in &mut insert.documents {
        change(raw, |document| {
            let Ok(own) = document.get_document_mut("_odm") else {
                return;
            };
            match sabotage {
                Sabotage::Collector => drop(own.remove("own")),
                Sabotage::Publishing => {
                    if let Ok(own) = own.get_document_mut("own") {
                        own.remove("key");
                    }
                }
                _ => {}
            }
        });
    }
}

/// Takes a guard out of an update.
pub(super) fn spoil_update(sabotage: Sabotage, update: &mut Update) {
    match sabotage {
        Sabotage::WorkKey => change(&mut update.filter, |filter| {
            filter.remove("_odm.overflow.lines.work.key");
        }),
        Sabotage::DoneOnce if update.collection == "extras" => {
            change(&mut update.filter, |filter| {
                filter.remove("$nor");
            })
        }
        Sabotage::Promise => {
            if let Change::Operators { update, .. } = &mut update.change {
                change(update, |update| {
                    let set = update.get_document_mut("$set");
                    let is_change = |work: &Bson| {
                        let work = work.as_document();
                        work.is_some_and(|work| {
                            work.get_str("kind").is_ok_and(|kind| kind == "change")
                        })
                    };
                    if let Ok(set) = set
                        && set.get("_odm.overflow.lines.work").is_some_and(is_change)
                    {
                        set.remove("_odm.overflow.lines.work");
                    }
                });
            }
        }
        Sabotage::AtRest => change(&mut update.filter, at_rest),
        _ => {}
    }
}

/// Forgets that nothing else may be going on.
fn at_rest(filter: &mut Document) {
    filter.remove("_odm.overflow.lines.work");
    for (_, value) in filter.iter_mut() {
        if let Bson::Array(parts) = value {
            for part in parts {
                if let Bson::Document(part) = part {
                    at_rest(part);
                }
            }
        }
    }
}
