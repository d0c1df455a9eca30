//! Many tasks that insert, change, move and delete sources and dependents.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use odm::{ErrorKind, prelude::*};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Fixture;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

/// Loses its copy with its host.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "services")]
struct Service {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = nullify)]
    host: Option<Ref<Host>>,
    #[denormalize(from = host.name)]
    at: Option<String>,
}

/// A copy of a copy, which goes with its service.
#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
struct Use {
    #[reference(on_delete = pull)]
    service: Ref<Service>,
    #[denormalize(from = service.at)]
    at: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "users", companion)]
struct User {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 20)]
    uses: Vec<Use>,
}

#[derive(Schema)]
#[schema(models(Host, Service, User))]
struct Net;
type Db = odm::Database<Net>;

/// How many tasks there are, how many operations each does, and how many documents there can be of a model.
fn size() -> (u64, usize, i64) {
    match std::env::var("ODM_STORM").as_deref() {
        Ok("full") => (32, 6_250, 60),
        _ => (8, 40, 12),
    }
}

fn uses(service: i64) -> NewUse {
    NewUse {
        service: Ref::new(service),
    }
}

/// One operation of any kind.
async fn act(db: &Db, random: &mut ChaCha8Rng, ids: i64) -> odm::Result<()> {
    let id = random.random_range(0..ids);
    let other = random.random_range(0..ids);
    let name = format!("{:x}", random.random::<u32>());
    match random.random_range(0..14) {
        0 => db.insert(Host { id, name }).await.map(drop),
        1..=3 => {
            let renamed = db.update::<Host>(id).set(|h| h.name(), name);
            renamed.await.map(drop)
        }
        4 => {
            let some = db.update_many::<Host>(|h| h.id().lt(id));
            some.set(|h| h.name(), name).await.map(drop)
        }
        5 => db.delete::<Host>(id).await.map(drop),
        6 => {
            let host = Some(Ref::new(other));
            db.insert(NewService { id, host }).await.map(drop)
        }
        7 => {
            let moved = db.update::<Service>(id);
            moved.set(|s| s.host(), Ref::new(other)).await.map(drop)
        }
        8 => {
            let left = db.update::<Service>(id);
            left.unset(|s| s.host()).await.map(drop)
        }
        9 => db.delete::<Service>(id).await.map(drop),
        10 => {
            let uses = vec![uses(id), uses(other)];
            db.insert(NewUser { id, uses }).await.map(drop)
        }
        11 => {
            let user = db.update::<User>(id);
            user.push(|u| u.uses(), uses(other)).await.map(drop)
        }
        12 => {
            let changed = db.modify::<User>(id, |user| {
                if !user.uses.is_empty() {
                    user.uses.remove(0);
                }
            });
            changed.await.map(drop)
        }
        _ => db.delete::<User>(id).await.map(drop),
    }
}

fn is_expected(error: &odm::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::DuplicateKey
            | ErrorKind::Dangling
            | ErrorKind::Conflict
            | ErrorKind::TooManyElements
    )
}

/// 8 tasks with 40 operations each; with `ODM_STORM=full` 32 with 6,250.
pub async fn at_rest_every_copy_is_as_its_source(fixture: Fixture) {
    let (tasks, operations, ids) = size();
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    for id in 0..ids {
        let name = id.to_string();
        db.insert(Host { id, name }).await.unwrap();
        let host = Some(Ref::new(id));
        db.insert(NewService { id, host }).await.unwrap();
    }
    let told = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let workers = (0..tasks).map(|worker| {
        let (db, told) = (db.clone(), told.clone());
        tokio::spawn(async move {
            let mut random = ChaCha8Rng::seed_from_u64(worker);
            for _ in 0..operations {
                let done = act(&db, &mut random, ids).await;
                let kind = match &done {
                    Ok(()) => "done".to_owned(),
                    Err(error) => format!("{:?}", error.kind()),
                };
                *told.lock().unwrap().entry(kind).or_default() += 1;
                if let Err(error) = done {
                    assert!(is_expected(&error), "{error}");
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    let began = Instant::now();
    db.settled().within(Duration::from_secs(120)).await.unwrap();
    let report = db.check().await.unwrap();
    let told = told.lock().unwrap().clone();
    println!(
        "{tasks} x {operations} operations: {told:?}; settled after {:?}; {} documents, {} references",
        began.elapsed(),
        report.documents,
        report.references
    );
    assert!(report.is_clean(), "{report}");
    assert!(
        told["done"] > usize::try_from(tasks).unwrap() * operations / 3,
        "{told:?}"
    );
}
