//! A storm of random inserts, changes, moves and deletes of sources and dependents.

use odm::{ErrorKind, prelude::*};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::Storm;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
pub struct Host {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

/// A service. A delete of the host clears the reference and the copy.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "services")]
pub struct Service {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = nullify)]
    host: Option<Ref<Host>>,
    #[denormalize(from = host.name)]
    at: Option<String>,
}

/// A copy of a copy. A delete of the service removes the whole element.
#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
pub struct Use {
    #[reference(on_delete = pull)]
    service: Ref<Service>,
    #[denormalize(from = service.at)]
    at: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "users", insert_struct)]
pub struct User {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 20)]
    uses: Vec<Use>,
}

/// The schema of the copy storm.
#[derive(Schema)]
#[schema(models(Host, Service, User))]
pub struct Net;
type Db = odm::Database<Net>;

/// A storm on copies and on copies of copies.
#[derive(Debug)]
pub struct Copies;

impl Copies {
    /// Changes a source once.
    ///
    /// # Errors
    ///
    /// Returns the errors of the database.
    pub async fn rename(db: &Db, host: i64, name: &str) -> odm::Result<()> {
        let renamed = db.update::<Host>(host).set(|h| h.name(), name);
        renamed.await.map(drop)
    }
}

impl Storm for Copies {
    type Schema = Net;

    async fn fill(db: &Db, ids: i64) -> odm::Result<()> {
        for id in 0..ids {
            let name = id.to_string();
            db.insert(Host { id, name }).await?;
            let host = Some(Ref::new(id));
            db.insert(NewService { id, host }).await?;
        }
        Ok(())
    }

    async fn run_random_operation(db: &Db, random: &mut ChaCha8Rng, ids: i64) -> odm::Result<()> {
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
                let update = db.update::<Service>(id);
                update.unset(|s| s.host()).await.map(drop)
            }
            9 => db.delete::<Service>(id).await.map(drop),
            10 => {
                let new_use = vec![uses(id), uses(other)];
                db.insert(NewUser { id, uses: new_use }).await.map(drop)
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
}

fn uses(service: i64) -> NewUse {
    NewUse {
        service: Ref::new(service),
    }
}
