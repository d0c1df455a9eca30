//! Schedules of a slow delete: a second process finishes the delete and inserts a new document with the same `_id`.

use std::sync::Arc;

use odm::{
    Result,
    backend::{Backend, BoxFuture},
    prelude::*,
};

use super::{Case, Process};
use crate::aftermath::{expire_leases, recover_and_check};

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

/// A referrer with a different delete rule for each reference.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "services")]
struct Service {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = keep)]
    host: Ref<Host>,
    #[denormalize(from = host.name, on_delete = clear)]
    at: Option<String>,
    #[reference(on_delete = nullify)]
    backup: Option<Ref<Host>>,
}

/// A cascaded referrer without referrers.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "disks")]
struct Disk {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    host: Ref<Host>,
}

/// A cascaded referrer that has a cascaded referrer.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "networks")]
struct Network {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    host: Ref<Host>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "routes")]
struct Route {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    network: Ref<Network>,
}

/// A marker that the new host and its referrers were inserted.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "notes")]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Schema)]
#[schema(models(Host, Service, Disk, Network, Route, Note))]
struct Net;
type Db = odm::Database<Net>;

/// A slow delete of a host. A second process finishes the delete and inserts a new host with the same `_id`, and its referrers.
#[derive(Debug)]
pub struct ReinsertedAfterDelete;

/// Inserts host 1 and its referrers. The service copies from the host `copied`. The copy of an earlier host with the same `_id`
/// would not follow the new host.
async fn insert_host_with_referrers(db: &Db, name: &str, copied: i64) -> Result<()> {
    let name = name.to_owned();
    db.insert(Host { id: 1, name }).await?;
    let id = db.find::<Service>().count().await?.cast_signed();
    let service = NewService {
        id,
        host: Ref::new(copied),
        backup: Some(Ref::new(1)),
    };
    db.insert(service).await?;
    let host = Ref::new(1);
    db.insert(Disk { id, host }).await?;
    let host = Ref::new(1);
    db.insert(Network { id, host }).await?;
    let network = Ref::new(id);
    db.insert(Route { id, network }).await?;
    Ok(())
}

impl Case for ReinsertedAfterDelete {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = Db::with_backend(backend);
            db.sync_indexes().await.expect("indexes");
            let name = "other".to_owned();
            db.insert(Host { id: 2, name }).await.expect("a host");
            insert_host_with_referrers(&db, "first", 2)
                .await
                .expect("a host");
            db.wait_for_pending().await.expect("no pending work");
        })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let _ = Db::with_backend(backend).delete::<Host>(1).await;
                })
            },
            |backend| {
                Box::pin(async move {
                    let _ = expire_leases::<Net>(&backend).await;
                    let db = Db::with_backend(backend);
                    let _ = db.run_pending().await;
                    // The insert fails as long as the old host exists.
                    if insert_host_with_referrers(&db, "second", 1).await.is_ok() {
                        db.insert(Note { id: 1 }).await.expect("a note");
                    }
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let message = |error: odm::Error| error.to_string();
            recover_and_check::<Net>(backend.clone(), |_| false).await?;
            let db = Db::with_backend(backend);
            if db.find::<Note>().count().await.map_err(message)? == 0 {
                return Ok(());
            }
            let services = db.find::<Service>().all().await.map_err(message)?;
            let new = services.iter().find(|service| service.id == 1);
            let new = new.ok_or("what refers to it is gone")?;
            if new.backup != Some(Ref::new(1)) {
                return Err("a reference to an existing document is null".to_owned());
            }
            let disks = db.find::<Disk>().count().await.map_err(message)?;
            let networks = db.find::<Network>().count().await.map_err(message)?;
            let routes = db.find::<Route>().count().await.map_err(message)?;
            match (disks, networks, routes) {
                (1, 1, 1) => Ok(()),
                counts => Err(format!("referrers are missing: {counts:?}")),
            }
        })
    }
}
