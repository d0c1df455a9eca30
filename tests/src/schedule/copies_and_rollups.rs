//! Copies and counts of a source under schedules. The write that counts a new document at the source also shows that the copy is
//! current.

use std::sync::Arc;

use odm::{
    backend::{Backend, BoxFuture},
    prelude::*,
};

use super::{Case, Process, recover_pending};
use crate::aftermath::recover_and_check;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[count(of = Line::host)]
    lines: i64,
    #[latest(2, of = Line::host, by = at)]
    newest: Vec<Newest>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
#[embedded(of = Line)]
struct Newest {
    at: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "lines")]
struct Line {
    #[serde(rename = "_id")]
    id: i64,
    at: i64,
    #[reference]
    host: Ref<Host>,
    #[denormalize(from = host.name)]
    name: String,
}

#[derive(Schema)]
#[schema(models(Host, Line))]
struct Net;
type Db = odm::Database<Net>;

/// Five processes: a rename of a source, two inserts of counted documents with copies, a move and a delete of the new documents,
/// and recovery of pending work.
#[derive(Debug)]
pub struct CopiesAndRollups;

fn line(id: i64, host: i64) -> NewLine {
    NewLine {
        id,
        at: id,
        host: Ref::new(host),
    }
}

impl Case for CopiesAndRollups {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = Db::with_backend(backend);
            db.sync_indexes().await.expect("indexes");
            for id in [1, 2] {
                let name = format!("host {id}");
                db.insert(NewHost { id, name }).await.expect("a host");
                db.insert(line(id, id)).await.expect("a line");
            }
            db.wait_for_pending().await.expect("no pending work");
        })
    }

    fn processes(&self) -> Vec<Process> {
        // A failed write had too many conflicts, and has changed no document.
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    for name in ["a", "b"] {
                        let _ = db.update::<Host>(1).set(|h| h.name(), name).await;
                    }
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db
                        .insert_many([line(10, 1), line(11, 1), line(12, 2)])
                        .await;
                })
            },
            |backend| {
                Box::pin(async {
                    let _ = Db::with_backend(backend).insert(line(20, 1)).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let moved = db.update::<Line>(10).set(|l| l.host(), Ref::new(2));
                    let _ = moved.await;
                    let later = db.update_many::<Line>(|l| l.host().eq(Ref::new(1)));
                    let _ = later.inc(|l| l.at(), 100).await;
                    let _ = db.delete::<Line>(11).await;
                })
            },
            recover_pending::<Net>,
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(recover_and_check::<Net>(backend, |_| false))
    }
}

/// A case that is small enough to run every order: inserts of dependents during a rename of the source.
#[derive(Debug)]
pub struct SmallCopiesAndRollups;

impl Case for SmallCopiesAndRollups {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        CopiesAndRollups.begin(backend)
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.insert_many([line(10, 1), line(11, 1)]).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.update::<Host>(1).set(|h| h.name(), "a").await;
                    let _ = db.update::<Line>(10).inc(|l| l.at(), 100).await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        CopiesAndRollups.end(backend)
    }
}
