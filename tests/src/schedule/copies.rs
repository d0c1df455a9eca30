//! Schedules for copies: sources change, dependents are inserted and moved, and recovery treats running processes as dead.

use std::sync::Arc;

use odm::{
    Filter,
    backend::{
        Backend, BoxFuture,
        operation::{DocumentChange, InsertOperation, UpdateOperation},
    },
    bson::{Bson, Document, raw::cstr, rawdoc},
    prelude::*,
};

use super::{Case, Process, Sabotage, change_document, recover_pending};
use crate::aftermath::recover_and_check;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "services")]
struct Service {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    host: Ref<Host>,
    #[denormalize(from = host.name)]
    at: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
struct Use {
    #[reference]
    service: Ref<Service>,
    #[denormalize(from = service.at)]
    at: String,
}

/// Copies of copies, in an array.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "users", insert_struct)]
struct User {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 10)]
    uses: Vec<Use>,
}

#[derive(Schema)]
#[schema(models(Host, Service, User))]
struct Net;
type Db = odm::Database<Net>;

/// Five processes: two update sources, a third inserts dependents, a fourth changes references, and a fifth runs recovery.
#[derive(Debug)]
pub struct Copies;

fn service(id: i64, host: i64) -> NewService {
    NewService {
        id,
        host: Ref::new(host),
    }
}

fn uses(service: i64) -> NewUse {
    NewUse {
        service: Ref::new(service),
    }
}

impl Case for Copies {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = Db::with_backend(backend);
            db.sync_indexes().await.expect("indexes");
            for id in [1, 2] {
                let name = format!("host {id}");
                db.insert(Host { id, name }).await.expect("a host");
            }
            db.insert(service(1, 1)).await.expect("a service");
            let user = NewUser {
                id: 1,
                uses: vec![uses(1)],
            };
            db.insert(user).await.expect("a user");
        })
    }

    fn processes(&self) -> Vec<Process> {
        // A failed write had too many conflicts, and changed no document.
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
                    let all = db.update_many::<Host>(|_| Filter::all());
                    let _ = all.set(|h| h.name(), "c").await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.insert(service(2, 1)).await;
                    let _ = db.update::<User>(1).push(|u| u.uses(), uses(2)).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let moved = db.update::<Service>(1).set(|s| s.host(), Ref::new(2));
                    let _ = moved.await;
                    let back = db.modify::<Service>(1, |service| service.host = Ref::new(1));
                    let _ = back.await;
                })
            },
            recover_pending::<Net>,
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(recover_and_check::<Net>(backend, |_| false))
    }
}

/// A schema without copies of copies.
#[derive(Schema)]
#[schema(models(Host, Service))]
struct SmallNet;
type SmallDb = odm::Database<SmallNet>;

/// A case small enough for every schedule: two processes update a source, a third inserts a dependent, and a fourth runs
/// recovery.
#[derive(Debug)]
pub struct SmallCopies;

impl Case for SmallCopies {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = SmallDb::with_backend(backend);
            db.sync_indexes().await.expect("indexes");
            let name = "host".to_owned();
            db.insert(Host { id: 1, name }).await.expect("a host");
            db.insert(service(1, 1)).await.expect("a service");
            db.wait_for_pending().await.expect("no pending work");
        })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = SmallDb::with_backend(backend);
                    let _ = db.update::<Host>(1).set(|h| h.name(), "a").await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = SmallDb::with_backend(backend);
                    let _ = db.update::<Host>(1).set(|h| h.name(), "b").await;
                })
            },
            |backend| {
                Box::pin(async {
                    let _ = SmallDb::with_backend(backend).insert(service(2, 1)).await;
                })
            },
            |backend| {
                Box::pin(async move {
                    for (collection, lease) in [
                        ("hosts", cstr!("_odm.pending.fan_out.lease")),
                        ("services", cstr!("_odm.pending.revalidate.lease")),
                    ] {
                        let update = UpdateOperation {
                            collection: collection.into(),
                            filter: rawdoc! { lease: { "$exists": true } },
                            change: DocumentChange::operators(
                                rawdoc! { "$set": { lease: DateTime::from_millis(0) } },
                            ),
                            multi: true,
                            upsert: false,
                            origin: Default::default(),
                        };
                        let _ = backend.update(update).await;
                    }
                    let _ = SmallDb::with_backend(backend).run_pending().await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(recover_and_check::<SmallNet>(backend, |_| false))
    }
}

/// Removes the sabotaged guard from an insert.
pub(super) fn remove_guard_from_insert(sabotage: Sabotage, insert: &mut InsertOperation) {
    if sabotage == Sabotage::PendingRevalidation {
        for raw in &mut insert.documents {
            change_document(raw, |document| {
                if let Ok(metadata) = document.get_document_mut("_odm")
                    && let Ok(pending) = metadata.get_document_mut("pending")
                {
                    pending.remove("revalidate");
                }
            });
        }
    }
}

/// Removes the sabotaged guard from an update.
pub(super) fn remove_guard(sabotage: Sabotage, update: &mut UpdateOperation) {
    let (operators, array_filters) = match &mut update.change {
        DocumentChange::Operators {
            update,
            array_filters,
        } => (update, array_filters),
        DocumentChange::Pipeline(stages) => {
            for stage in stages {
                change_document(stage, |stage| remove_guard_from_stage(sabotage, stage));
            }
            return;
        }
        _ => return,
    };
    match sabotage {
        Sabotage::SourceVersion => {
            change_document(&mut update.filter, remove_version_guard);
            for filter in array_filters {
                change_document(filter, remove_version_guard);
            }
        }
        Sabotage::PendingToken => change_document(&mut update.filter, |filter| {
            filter.remove("_odm.pending.fan_out.token");
            filter.remove("_odm.pending.revalidate.token");
        }),
        Sabotage::PendingRevalidation => change_document(operators, |operators| {
            if let Ok(set) = operators.get_document_mut("$set") {
                set.remove("_odm.pending.revalidate");
            }
        }),
        Sabotage::UnchangedSource => change_document(&mut update.filter, |filter| {
            filter.remove("_odm.version");
        }),
        Sabotage::PendingFanOut => change_document(operators, |operators| {
            if let Ok(set) = operators.get_document_mut("$set") {
                set.remove("_odm.pending.fan_out");
            }
        }),
        _ => {}
    }
}

/// Removes the sabotaged guard from a pipeline stage: the expression removes the guard field instead of setting the field.
fn remove_guard_from_stage(sabotage: Sabotage, expression: &mut Document) {
    let field = match sabotage {
        Sabotage::PendingRevalidation => "revalidate",
        Sabotage::PendingFanOut => "fan_out",
        _ => return,
    };
    if expression.get_str("field").is_ok_and(|of| of == field) {
        expression.insert("value", "$$REMOVE");
    }
    for (_, nested) in expression.iter_mut() {
        match nested {
            Bson::Document(nested) => remove_guard_from_stage(sabotage, nested),
            Bson::Array(all) => {
                let nested = all.iter_mut().filter_map(Bson::as_document_mut);
                nested.for_each(|nested| remove_guard_from_stage(sabotage, nested));
            }
            _ => {}
        }
    }
}

/// Removes the conditions that stored copies are older than the new value.
fn remove_version_guard(condition: &mut Document) {
    let guards: Vec<_> = condition
        .keys()
        .filter(|path| path.contains("_odm.copied_from"))
        .cloned()
        .collect();
    for guard in guards {
        condition.remove(guard);
    }
    for (_, nested) in condition.iter_mut() {
        if let Bson::Document(nested) = nested {
            remove_version_guard(nested);
        }
    }
}
