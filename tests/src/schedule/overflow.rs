//! Overflow arrays under schedules: elements are pushed, pulled, changed, replaced and folded, and documents are inserted and
//! deleted.
//!
//! Each document has a count of elements, changed by the same writes as the array. Count and array must therefore agree, whether
//! a write was acknowledged or not. A single process adds and removes elements of document 3. That process records acknowledged
//! pushes and pulls as notes, and the end state must agree with the notes.

use std::{collections::BTreeSet, sync::Arc};

use odm::{
    backend::{
        Backend, BoxFuture,
        operation::{DocumentChange, InsertOperation, UpdateOperation},
    },
    bson::{Bson, Document, RawDocumentBuf, doc},
    prelude::*,
};

use super::{Case, Process, Sabotage, change_document};

/// Several processes write to one array around the threshold, one process deletes and inserts a document, and one process
/// recovers pending work.
#[derive(Debug)]
pub struct Overflows;

/// The same case with sorted elements, where new elements belong between existing elements.
#[derive(Debug)]
pub struct OrderedOverflows;

/// The sort key of elements.
mod order_functions {
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
                /// The number of lines.
                count: i64,
                /// The number of updates of all lines.
                rounds: i64,
                #[embed(overflow(after = 2, into = "extras", owner = "sale" $(, $order = n)?))]
                lines: Overflow<Line>,
            }

            #[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
            struct Line {
                n: i64,
                /// The number of updates that this line has seen.
                seen: i64,
            }

            /// A record of an acknowledged push or pull of line `n`.
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

            #[test]
            fn all_lease_paths_exist() {
                let known = crate::aftermath::lease_paths::<Shop>();
                for (collection, path) in LEASE_PATHS {
                    assert!(known.contains(&(collection, path.to_owned())), "{path}");
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
                        // The tail has room for a single element.
                        let fill = db.update::<Sale>(2).push_each(|s| s.lines(), lines(14..21));
                        fill.inc(|s| s.count(), 7).await.expect("room");
                    })
                }

                fn processes(&self) -> Vec<Process> {
                    // A failed write had too many conflicts, and has changed no document.
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
                                // These lines exist, and no second process pulls these lines.
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
                                // The tail may be moving into a chunk document.
                                let _ = db.delete::<Sale>(2).await;
                            })
                        },
                        |backend| {
                            Box::pin(async move {
                                for _ in 0..2 {
                                    expire_leases(&backend).await;
                                    let _ = Db::with_backend(backend.clone()).run_pending().await;
                                }
                            })
                        },
                    ]
                }

                fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
                    Box::pin(async move {
                        let db = Db::with_backend(backend.clone());
                        let message = |error: odm::Error| error.to_string();
                        for _ in 0..2 {
                            expire_leases(&backend).await;
                            db.run_pending().await.map_err(message)?;
                        }
                        let pending = db.pending().await.map_err(message)?;
                        if !pending.is_empty() {
                            return Err(format!("pending work remains: {pending}"));
                        }
                        let report = db.check().await.map_err(message)?;
                        if !report.is_clean() {
                            return Err(report.to_string());
                        }
                        let notes = db.find::<Note>().all().await.map_err(message)?;
                        for sale in db.find::<Sale>().all().await.map_err(message)? {
                            let all = db.get::<Sale>(sale.id).elements(|s| s.lines()).all();
                            let all = all.await.map_err(message)?;
                            let numbers: Vec<_> = all.iter().map(|line| line.n).collect();
                            $(
                                let mut sorted = numbers.clone();
                                sorted.sort_by_key(|n| order_functions::$order(*n));
                                if sorted != numbers {
                                    return Err(format!("sale {} is not sorted: {numbers:?}", sale.id));
                                }
                            )?
                            let mut recorded = notes.iter().filter(|_| sale.id == 3);
                            if let Some(note) = recorded.find(|note| numbers.contains(&note.n) != (note.n >= 400)) {
                                return Err(format!("{note:?} was acknowledged, but the array is {numbers:?}"));
                            }
                            let distinct: BTreeSet<_> = numbers.iter().collect();
                            if distinct.len() < all.len() {
                                return Err(format!("sale {} has duplicate lines: {numbers:?}", sale.id));
                            }
                            if sale.count != all.len() as i64 || sale.lines.len() != all.len() as u64 {
                                let (count, len) = (sale.count, sale.lines.len());
                                return Err(format!("sale {} counts {count}, length {len}, lines {numbers:?}", sale.id));
                            }
                            let mut first = all.iter().filter(|line| sale.id == 3 && line.n < 100);
                            if let Some(line) = first.find(|line| line.seen != sale.rounds) {
                                return Err(format!("{} rounds, but {line:?}", sale.rounds));
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

/// The collection and the path of each lease in this case.
const LEASE_PATHS: [(&str, &str); 3] = [
    ("sales", "_odm.overflow.lines.work.lease"),
    ("sales", "_odm.pending.references.lease"),
    ("extras", "_odm.provisional.lease"),
];

/// Sets every stored lease to 1970, so that recovery does not wait for processes that may still be working.
async fn expire_leases(backend: &Arc<dyn Backend>) {
    let raw = |document: Document| RawDocumentBuf::try_from(&document).expect("a document");
    for (collection, lease) in LEASE_PATHS {
        let update = UpdateOperation {
            collection: collection.into(),
            filter: raw(doc! { lease: { "$exists": true } }),
            change: DocumentChange::operators(raw(
                doc! { "$set": { lease: DateTime::from_millis(0) } },
            )),
            multi: true,
            upsert: false,
            origin: Default::default(),
        };
        let _ = backend.update(update).await;
    }
}

/// Removes a guard from an insert.
pub(super) fn sabotage_insert(sabotage: Sabotage, insert: &mut InsertOperation) {
    if insert.collection != "extras" {
        return;
    }
    for raw in &mut insert.documents {
        change_document(raw, |document| {
            let Ok(metadata) = document.get_document_mut("_odm") else {
                return;
            };
            match sabotage {
                Sabotage::ProvisionalMark => drop(metadata.remove("provisional")),
                Sabotage::PublishKey => {
                    if let Ok(provisional) = metadata.get_document_mut("provisional") {
                        provisional.remove("token");
                    }
                }
                _ => {}
            }
        });
    }
}

/// Removes a guard from an update.
pub(super) fn sabotage_update(sabotage: Sabotage, update: &mut UpdateOperation) {
    match sabotage {
        Sabotage::ArrayWorkKey => change_document(&mut update.filter, |filter| {
            filter.remove("_odm.overflow.lines.work.token");
        }),
        Sabotage::AppliedVersion if update.collection == "extras" => {
            change_document(&mut update.filter, |filter| {
                filter.remove("$nor");
            })
        }
        Sabotage::PendingArrayWork => {
            if let DocumentChange::Operators { update, .. } = &mut update.change {
                change_document(update, |update| {
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
        Sabotage::IdleArray => change_document(&mut update.filter, remove_idle_condition),
        _ => {}
    }
}

/// Removes the condition that no work on the array is in progress.
fn remove_idle_condition(filter: &mut Document) {
    filter.remove("_odm.overflow.lines.work");
    for (_, value) in filter.iter_mut() {
        if let Bson::Array(parts) = value {
            for part in parts {
                if let Bson::Document(part) = part {
                    remove_idle_condition(part);
                }
            }
        }
    }
}
