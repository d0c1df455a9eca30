//! A deletion that comes late under schedules: others have finished it, and another document is there under the same `_id`.

use std::sync::Arc;

use odm::{
    Result,
    backend::{Backend, BoxFuture},
    prelude::*,
};

use super::{Case, Process};
use crate::aftermath::{look, overdue};

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

/// What becomes of it is decided by each of its references.
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

/// Goes, and nothing follows.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "disks")]
struct Disk {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    host: Ref<Host>,
}

/// Goes, and something goes with it.
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

/// Says that what comes anew is there.
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

/// A document is deleted; somebody finishes that, inserts another under its `_id`, and what refers to it.
#[derive(Debug)]
pub struct Anew;

/// The host, and what refers to it; what is copied from one that was there before does not follow it.
async fn insert(db: &Db, name: &str, copied: i64) -> Result<()> {
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

impl Case for Anew {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = Db::with_backend(backend);
            db.sync_indexes().await.expect("indexes");
            let name = "other".to_owned();
            db.insert(Host { id: 2, name }).await.expect("a host");
            insert(&db, "first", 2).await.expect("a host");
            db.settled().await.expect("nothing owed");
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
                    let _ = overdue::<Net>(&backend).await;
                    let db = Db::with_backend(backend);
                    let _ = db.settle().await;
                    // Before it is deleted there is one.
                    if insert(&db, "second", 1).await.is_ok() {
                        db.insert(Note { id: 1 }).await.expect("a note");
                    }
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let said = |error: odm::Error| error.to_string();
            look::<Net>(backend.clone(), |_| false).await?;
            let db = Db::with_backend(backend);
            if db.find::<Note>().count().await.map_err(said)? == 0 {
                return Ok(());
            }
            let services = db.find::<Service>().all().await.map_err(said)?;
            let new = services.iter().find(|service| service.id == 1);
            let new = new.ok_or("what refers to it is gone")?;
            if new.backup != Some(Ref::new(1)) {
                return Err("a reference to what is there is null".to_owned());
            }
            let disks = db.find::<Disk>().count().await.map_err(said)?;
            let networks = db.find::<Network>().count().await.map_err(said)?;
            let routes = db.find::<Route>().count().await.map_err(said)?;
            match (disks, networks, routes) {
                (1, 1, 1) => Ok(()),
                left => Err(format!("what refers to it is gone: {left:?}")),
            }
        })
    }
}
