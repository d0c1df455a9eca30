//! Definitions of collections, views and indexes, as the server lists them.

use ::mongodb::{
    Database,
    bson::{Document, doc},
};
use bson::RawDocumentBuf;
use futures_util::TryStreamExt;

use super::{error, to_driver_document};
use crate::{Error, ErrorKind, Result, backend::operation::CollectionDefinition};

/// MongoDB's code for a collection that exists already.
const NAMESPACE_EXISTS_CODE: i32 = 48;

/// Lists the definitions: [`Backend::list_definitions`](crate::backend::Backend::list_definitions).
pub(super) async fn list(database: &Database) -> Result<Vec<CollectionDefinition>> {
    let listed = run_to_end(database, doc! { "listCollections": 1 }).await?;
    let mut definitions = Vec::new();
    for collection in &listed {
        let name = collection.get_str("name").map_err(unreadable)?;
        if name.starts_with("system.") {
            continue;
        }
        let options = collection.get_document("options").map_err(unreadable)?;
        let mut definition = CollectionDefinition {
            kind: collection.get_str("type").map_err(unreadable)?.to_owned(),
            options: to_raw(options)?,
            ..CollectionDefinition::new(name)
        };
        if definition.kind == "collection" {
            definition.indexes = list_indexes(database, name).await?;
        }
        definitions.push(definition);
    }
    definitions.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(definitions)
}

/// Returns the definitions of the indexes of a collection, without the index on `_id`.
async fn list_indexes(database: &Database, collection: &str) -> Result<Vec<RawDocumentBuf>> {
    let listed = run_to_end(database, doc! { "listIndexes": collection }).await;
    let listed = match listed {
        // The collection was dropped after it was listed.
        Err(error) if error.is_not_found() => Vec::new(),
        listed => listed.map_err(|error| error.with_collection(collection))?,
    };
    // A clustered index is an option of its collection.
    let is_of_id = |index: &&Document| {
        index.get_str("name").is_ok_and(|name| name == "_id_") || index.contains_key("clustered")
    };
    let secondary = listed.iter().filter(|index| !is_of_id(index));
    secondary.map(to_raw).collect()
}

/// Checks a definition: [`Backend::ensure_definable`](crate::backend::Backend::ensure_definable).
pub(super) fn ensure_definable(definition: &CollectionDefinition) -> Result<()> {
    match definition.kind.as_str() {
        "collection" | "view" => Ok(()),
        kind => {
            let message = format!("collections of the kind `{kind}` are not supported");
            Err(Error::new(ErrorKind::Unsupported, message).with_collection(&*definition.name))
        }
    }
}

/// Creates a collection or a view: [`Backend::create_defined`](crate::backend::Backend::create_defined).
pub(super) async fn create(database: &Database, definition: CollectionDefinition) -> Result<()> {
    ensure_definable(&definition)?;
    let CollectionDefinition {
        name,
        options,
        indexes,
        ..
    } = definition;
    let mut create = doc! { "create": &name };
    create.extend(to_driver_document(&options)?);
    match run(database, create).await {
        Err(error) if error.code() == Some(NAMESPACE_EXISTS_CODE) => {}
        created => created.map_err(|error| error.with_collection(&*name))?,
    }
    if indexes.is_empty() {
        return Ok(());
    }
    let indexes = indexes.iter().map(|index| {
        let mut index = to_driver_document(index)?;
        index.remove("ns");
        if !index.contains_key("collation") {
            // Without a collation, the index would inherit the collation of the collection.
            index.insert("collation", doc! { "locale": "simple" });
        }
        Ok(index)
    });
    let indexes = indexes.collect::<Result<Vec<_>>>()?;
    let created = run(
        database,
        doc! { "createIndexes": &name, "indexes": indexes },
    )
    .await;
    created.map_err(|error| error.with_collection(&*name))
}

/// Runs a command that writes, with the write concern of the database.
async fn run(database: &Database, mut command: Document) -> Result<()> {
    if let Some(concern) = database.write_concern() {
        let concern = ::mongodb::bson::serialize_to_document(concern);
        command.insert("writeConcern", concern.map_err(crate::error::from_bson)?);
    }
    let done = database.run_command(command).await;
    done.map(|_| ()).map_err(error::from_driver)
}

async fn run_to_end(database: &Database, command: Document) -> Result<Vec<Document>> {
    let cursor = database.run_cursor_command(command).await;
    let cursor = cursor.map_err(error::from_driver)?;
    cursor.try_collect().await.map_err(error::from_driver)
}

fn to_raw(document: &Document) -> Result<RawDocumentBuf> {
    RawDocumentBuf::try_from(document).map_err(crate::error::from_bson)
}

fn unreadable(error: ::mongodb::bson::error::Error) -> Error {
    let message = format!("MongoDB listed a collection in an unknown form: {error}");
    Error::new(ErrorKind::Backend, message).with_source(error)
}
