//! Administration of indexes, and conversion to and from the driver's types.

use std::time::Duration;

use ::mongodb::{
    Database, IndexModel,
    bson::{Bson, Document, doc},
    error::ErrorKind as DriverErrorKind,
    options::{Collation, IndexOptions},
};
use bson::RawDocumentBuf;
use futures_util::TryStreamExt;

use super::{error, to_driver_document};
use crate::{
    Result,
    backend::operation::{Direction, Index},
};

/// MongoDB's code for a collection that does not exist.
const NAMESPACE_NOT_FOUND_CODE: i32 = 26;

/// MongoDB's index kind for a hashed path, in the place of a direction.
pub(super) const HASHED_KIND: &str = "hashed";

/// Lists the indexes of a collection: [`Backend::list_indexes`](crate::backend::Backend::list_indexes).
pub(super) async fn list_indexes(database: &Database, collection: &str) -> Result<Vec<Index>> {
    let indexes = async {
        let cursor = database
            .collection::<Document>(collection)
            .list_indexes()
            .await?;
        cursor.try_collect::<Vec<_>>().await
    };
    let models = match indexes.await {
        Ok(models) => models,
        Err(failure) if is_missing_collection(&failure) => Vec::new(),
        Err(failure) => return Err(error::from_driver(failure).with_collection(collection)),
    };
    let models = models.into_iter().filter(|model| !is_id_index(model));
    models.map(from_driver).collect()
}

/// Creates the missing indexes: [`Backend::create_indexes`](crate::backend::Backend::create_indexes).
pub(super) async fn create_indexes(
    database: &Database,
    collection: &str,
    indexes: Vec<Index>,
) -> Result<()> {
    if indexes.is_empty() {
        return Ok(());
    }
    let models = indexes.into_iter().map(to_driver);
    let models = models.collect::<Result<Vec<_>>>()?;
    let created = database
        .collection::<Document>(collection)
        .create_indexes(models)
        .await;
    match created {
        Ok(_) => Ok(()),
        Err(failure) => Err(error::from_driver(failure).with_collection(collection)),
    }
}

/// Changes the expiry time of an index: [`Backend::set_expiry`](crate::backend::Backend::set_expiry).
pub(super) async fn set_expiry(
    database: &Database,
    collection: &str,
    index: &str,
    after: Duration,
) -> Result<()> {
    let seconds = i64::try_from(after.as_secs()).unwrap_or(i64::MAX);
    let mut command = doc! {
        "collMod": collection,
        "index": { "name": index, "expireAfterSeconds": seconds },
    };
    if let Some(concern) = database.write_concern() {
        let concern = ::mongodb::bson::serialize_to_document(concern);
        command.insert("writeConcern", concern.map_err(crate::error::from_bson)?);
    }
    let changed = database.run_command(command).await;
    let changed = changed.map(|_| ()).map_err(error::from_driver);
    changed.map_err(|error| error.with_collection(collection))
}

/// Drops an index: [`Backend::drop_index`](crate::backend::Backend::drop_index).
pub(super) async fn drop_index(database: &Database, collection: &str, name: &str) -> Result<()> {
    let dropped = database
        .collection::<Document>(collection)
        .drop_index(name)
        .await;
    dropped.map_err(|failure| error::from_driver(failure).with_collection(collection))
}

fn is_missing_collection(failure: &::mongodb::error::Error) -> bool {
    matches!(&*failure.kind, DriverErrorKind::Command(command) if command.code == NAMESPACE_NOT_FOUND_CODE)
}

fn to_driver(index: Index) -> Result<IndexModel> {
    index.ensure_supported()?;
    let keys = index.keys.into_iter();
    let hashed = index.hashed;
    let keys = keys.map(|(path, direction)| match &hashed {
        Some(hashed) if *hashed == path => (path, Bson::from(HASHED_KIND)),
        _ => (path, Bson::Int32(direction.sign())),
    });
    let partial = index
        .partial
        .as_deref()
        .map(to_driver_document)
        .transpose()?;
    let options = IndexOptions::builder()
        .name(index.name)
        .unique(index.unique.then_some(true))
        .sparse(index.sparse.then_some(true))
        .partial_filter_expression(partial)
        .expire_after(index.expire_after)
        // Set the simple collation explicitly: otherwise the index inherits the collation of the collection.
        .collation(Collation::builder().locale("simple").build())
        .build();
    let model = IndexModel::builder().keys(keys.collect::<Document>());
    Ok(model.options(options).build())
}

/// Whether the index is the `_id` index, which every collection has.
fn is_id_index(model: &IndexModel) -> bool {
    let mut keys = model.keys.iter();
    let first = keys.next();
    first.is_some_and(|(path, value)| path == "_id" && parse_direction(value).is_some())
        && keys.next().is_none()
        && find_hashed_path(&model.keys).is_none()
}

fn from_driver(model: IndexModel) -> Result<Index> {
    let options = model.options.unwrap_or_default();
    let is_wildcard = |path: &String| path == "$**" || path.ends_with(".$**");
    let mut keys = model.keys.iter();
    let is_of_another_kind =
        keys.any(|(path, value)| is_wildcard(path) || parse_direction(value).is_none());
    let other = match (&options.collation, is_of_another_kind) {
        (None, false) => None,
        (collation, _) => {
            let mut other = doc! { "key": model.keys.clone() };
            if let Some(collation) = collation {
                let collation = ::mongodb::bson::serialize_to_document(collation);
                other.insert("collation", collation.map_err(crate::error::from_bson)?);
            }
            Some(RawDocumentBuf::try_from(&other).map_err(crate::error::from_bson)?)
        }
    };
    let hashed = find_hashed_path(&model.keys);
    let keys = model.keys.into_iter();
    let keys = keys.map(|(path, value)| {
        (
            path,
            parse_direction(&value).unwrap_or(Direction::Ascending),
        )
    });
    let keys: Vec<_> = keys.collect();
    let partial = options.partial_filter_expression.as_ref();
    let partial = partial.map(RawDocumentBuf::try_from).transpose();
    Ok(Index {
        name: options.name.unwrap_or_default(),
        keys,
        hashed,
        unique: options.unique.unwrap_or_default(),
        sparse: options.sparse.unwrap_or_default(),
        partial: partial.map_err(crate::error::from_bson)?,
        expire_after: options
            .expire_after
            .map(|after| Duration::from_secs(after.as_secs())),
        unsupported_definition: other,
    })
}

/// Returns the hashed path in the keys of an index, or in a shard key.
pub(super) fn find_hashed_path(keys: &Document) -> Option<String> {
    let mut keys = keys.iter();
    let hashed = keys.find(|(_, value)| value.as_str() == Some(HASHED_KIND));
    hashed.map(|(path, _)| path.clone())
}

/// Parses the direction of an index key. The sign of a number is a direction; a string other than `hashed` is another kind of
/// index.
fn parse_direction(value: &Bson) -> Option<Direction> {
    let sign = match *value {
        Bson::Int32(n) => f64::from(n),
        #[expect(clippy::cast_precision_loss, reason = "only the sign is of interest")]
        Bson::Int64(n) => n as f64,
        Bson::Double(n) => n,
        Bson::String(ref kind) if kind == HASHED_KIND => 1.0,
        _ => return None,
    };
    Some(if sign < 0.0 {
        Direction::Descending
    } else {
        Direction::Ascending
    })
}
