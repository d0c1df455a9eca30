//! Copies under schedules: sources are renamed, dependents inserted and moved, and somebody always thinks that another has died.

use std::sync::Arc;

use odm::{
    Filter,
    backend::{
        Backend, BoxFuture,
        operation::{Change, Insert, Update},
    },
    bson::{Bson, Document, raw::cstr, rawdoc},
    prelude::*,
};

use super::{Case, Process, Sabotage, change};
use crate::aftermath::{look, overdue};

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

/// The copies of copies, in an array.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "users", companion)]
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

/// Two processes change sources, one inserts dependents, one moves them, and one carries out what the others seem to have left.
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
        // What fails has met another write too often, and has done nothing.
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
            |backend| {
                Box::pin(async move {
                    for _ in 0..2 {
                        let _ = overdue::<Net>(&backend).await;
                        let _ = Db::with_backend(backend.clone()).settle().await;
                    }
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(look::<Net>(backend, |_| false))
    }
}

/// Without copies of copies.
#[derive(Schema)]
#[schema(models(Host, Service))]
struct Few;
type FewDb = odm::Database<Few>;

/// Few enough for every order: two processes change a source, one inserts a dependent, and one carries out what the others seem to have
/// left.
#[derive(Debug)]
pub struct FewCopies;

impl Case for FewCopies {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = FewDb::with_backend(backend);
            db.sync_indexes().await.expect("indexes");
            let name = "host".to_owned();
            db.insert(Host { id: 1, name }).await.expect("a host");
            db.insert(service(1, 1)).await.expect("a service");
            db.settled().await.expect("nothing owed");
        })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = FewDb::with_backend(backend);
                    let _ = db.update::<Host>(1).set(|h| h.name(), "a").await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = FewDb::with_backend(backend);
                    let _ = db.update::<Host>(1).set(|h| h.name(), "b").await;
                })
            },
            |backend| {
                Box::pin(async {
                    let _ = FewDb::with_backend(backend).insert(service(2, 1)).await;
                })
            },
            |backend| {
                Box::pin(async move {
                    for (collection, due) in [
                        ("hosts", cstr!("_odm.fan.due")),
                        ("services", cstr!("_odm.verify.due")),
                    ] {
                        let update = Update {
                            collection: collection.into(),
                            filter: rawdoc! { due: { "$exists": true } },
                            change: Change::operators(
                                rawdoc! { "$set": { due: DateTime::from_millis(0) } },
                            ),
                            multi: true,
                            upsert: false,
                        };
                        let _ = backend.update(update).await;
                    }
                    let _ = FewDb::with_backend(backend).settle().await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(look::<Few>(backend, |_| false))
    }
}

/// Takes a guard out of an insert.
pub(super) fn spoil_insert(sabotage: Sabotage, insert: &mut Insert) {
    if sabotage == Sabotage::Verification {
        for raw in &mut insert.documents {
            change(raw, |document| {
                if let Ok(own) = document.get_document_mut("_odm") {
                    own.remove("verify");
                }
            });
        }
    }
}

/// Takes a guard out of an update.
pub(super) fn spoil_update(sabotage: Sabotage, update: &mut Update) {
    let (operators, array_filters) = match &mut update.change {
        Change::Operators {
            update,
            array_filters,
        } => (update, array_filters),
        Change::Pipeline(stages) => {
            for stage in stages {
                change(stage, |stage| spoil_stage(sabotage, stage));
            }
            return;
        }
        _ => return,
    };
    match sabotage {
        Sabotage::Revision => {
            change(&mut update.filter, without_guard);
            for filter in array_filters {
                change(filter, without_guard);
            }
        }
        Sabotage::Token => change(&mut update.filter, |filter| {
            filter.remove("_odm.fan.token");
            filter.remove("_odm.verify.token");
        }),
        Sabotage::Verification => change(operators, |operators| {
            if let Ok(set) = operators.get_document_mut("$set") {
                set.remove("_odm.verify");
            }
        }),
        Sabotage::Source => change(&mut update.filter, |filter| {
            filter.remove("_odm.rev");
        }),
        Sabotage::FanOut => change(operators, |operators| {
            if let Ok(set) = operators.get_document_mut("$set") {
                set.remove("_odm.fan");
            }
        }),
        _ => {}
    }
}

/// Takes a guard out of a stage of a pipeline: the expression sets no such field.
fn spoil_stage(sabotage: Sabotage, expression: &mut Document) {
    let field = match sabotage {
        Sabotage::Verification => "verify",
        Sabotage::FanOut => "fan",
        _ => return,
    };
    if expression.get_str("field").is_ok_and(|of| of == field) {
        expression.insert("value", "$$REMOVE");
    }
    for (_, inside) in expression.iter_mut() {
        match inside {
            Bson::Document(inside) => spoil_stage(sabotage, inside),
            Bson::Array(all) => {
                let inside = all.iter_mut().filter_map(Bson::as_document_mut);
                inside.for_each(|inside| spoil_stage(sabotage, inside));
            }
            _ => {}
        }
    }
}

/// Without the condition that what is there is older.
fn without_guard(condition: &mut Document) {
    let guards: Vec<_> = condition
        .keys()
        .filter(|path| path.contains("_odm.from"))
        .cloned()
        .collect();
    for guard in guards {
        condition.remove(guard);
    }
    for (_, inside) in condition.iter_mut() {
        if let Bson::Document(inside) = inside {
            without_guard(inside);
        }
    }
}
