//! Schedules of copies that become null: the source is renamed and deleted while dependents get references to the source.

use std::sync::Arc;

use odm::{
    backend::{Backend, BoxFuture},
    check::FindingKind,
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
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "services")]
struct Service {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = keep)]
    host: Ref<Host>,
    #[denormalize(from = host.name, on_delete = clear)]
    at: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
struct Use {
    #[reference]
    service: Ref<Service>,
    #[denormalize(from = service.at)]
    at: Option<String>,
}

/// The copies of copies.
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

/// Five processes: rename a source, delete the source, insert dependents, move dependents, and complete pending work with
/// expired leases.
#[derive(Debug)]
pub struct ClearedCopies;

fn service(id: i64, host: i64) -> NewService {
    NewService {
        id,
        host: Ref::new(host),
    }
}

impl Case for ClearedCopies {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = Db::with_backend(backend);
            db.sync_indexes().await.expect("indexes");
            for id in [1, 2] {
                let name = format!("host {id}");
                db.insert(Host { id, name }).await.expect("a host");
            }
            for (id, host) in [(1, 1), (2, 2)] {
                db.insert(service(id, host)).await.expect("a service");
            }
            let uses = [1, 2].map(|service| NewUse {
                service: Ref::new(service),
            });
            let user = NewUser {
                id: 1,
                uses: uses.into(),
            };
            db.insert(user).await.expect("a user");
        })
    }

    fn processes(&self) -> Vec<Process> {
        // Ignore errors: a failed write met too much contention or a deleted host, and changed nothing.
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.update::<Host>(1).set(|h| h.name(), "a").await;
                    let _ = db.update::<Host>(1).set(|h| h.name(), "b").await;
                })
            },
            |backend| {
                Box::pin(async {
                    let _ = Db::with_backend(backend).delete::<Host>(1).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.insert(service(3, 1)).await;
                    let _ = db.insert(service(4, 1)).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let moved = db.update::<Service>(2).set(|s| s.host(), Ref::new(1));
                    let _ = moved.await;
                    let away = db.modify::<Service>(1, |service| service.host = Ref::new(2));
                    let _ = away.await;
                })
            },
            recover_pending::<Net>,
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(recover_and_check::<Net>(backend, |fault| {
            matches!(fault, FindingKind::Dangling { .. })
        }))
    }
}
