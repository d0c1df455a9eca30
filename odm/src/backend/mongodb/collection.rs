//! Administration of collections.

use ::mongodb::{
    Database,
    bson::{Document, doc},
};

use super::error;
use crate::Result;

/// MongoDB's code for a collection that exists already.
const NAMESPACE_EXISTS_CODE: i32 = 48;

/// Lists the collections of the database: [`Backend::list_collections`](crate::backend::Backend::list_collections).
pub(super) async fn list_collections(database: &Database) -> Result<Vec<String>> {
    let names = database
        .list_collection_names()
        .filter(doc! { "type": "collection" });
    let mut names = names.await.map_err(error::from_driver)?;
    names.retain(|name| !name.starts_with("system."));
    names.sort();
    Ok(names)
}

/// Creates a collection: [`Backend::create_collection`](crate::backend::Backend::create_collection).
pub(super) async fn create_collection(database: &Database, name: &str) -> Result<()> {
    let created = database.create_collection(name).await;
    match created.map_err(error::from_driver) {
        Err(error) if error.code() == Some(NAMESPACE_EXISTS_CODE) => Ok(()),
        created => created.map_err(|error| error.with_collection(name)),
    }
}

/// Drops a collection: [`Backend::drop_collection`](crate::backend::Backend::drop_collection).
pub(super) async fn drop_collection(database: &Database, name: &str) -> Result<()> {
    let dropped = database.collection::<Document>(name).drop().await;
    dropped.map_err(|failure| error::from_driver(failure).with_collection(name))
}
