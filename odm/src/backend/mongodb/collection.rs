//! Collections as a whole.

use ::mongodb::{
    Database,
    bson::{Document, doc},
};

use super::error;
use crate::Result;

/// MongoDB's number for a collection that exists already.
const NAMESPACE_EXISTS: i32 = 48;

/// See [`Backend::list_collections`](crate::backend::Backend::list_collections).
pub(super) async fn list(database: &Database) -> Result<Vec<String>> {
    let names = database
        .list_collection_names()
        .filter(doc! { "type": "collection" });
    let mut names = names.await.map_err(error::from_driver)?;
    names.retain(|name| !name.starts_with("system."));
    names.sort();
    Ok(names)
}

/// See [`Backend::create_collection`](crate::backend::Backend::create_collection).
pub(super) async fn create(database: &Database, name: &str) -> Result<()> {
    let created = database.create_collection(name).await;
    match created.map_err(error::from_driver) {
        Err(error) if error.code() == Some(NAMESPACE_EXISTS) => Ok(()),
        created => created.map_err(|error| error.with_collection(name)),
    }
}

/// See [`Backend::drop_collection`](crate::backend::Backend::drop_collection).
pub(super) async fn drop(database: &Database, name: &str) -> Result<()> {
    let dropped = database.collection::<Document>(name).drop().await;
    dropped.map_err(|failure| error::from_driver(failure).with_collection(name))
}
