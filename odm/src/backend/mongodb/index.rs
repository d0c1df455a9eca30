//! Indexes, to and from the driver's description.

use std::time::Duration;

use ::mongodb::{
    Database, IndexModel,
    bson::{Bson, Document},
    error::ErrorKind as DriverErrorKind,
    options::IndexOptions,
};
use bson::RawDocumentBuf;
use futures_util::TryStreamExt;

use super::{decode, error};
use crate::{
    Result,
    backend::operation::{Direction, Index},
};

/// MongoDB's code for a collection that does not exist.
const NAMESPACE_NOT_FOUND: i32 = 26;

/// What stands in the place of a direction for a path that is hashed.
pub(super) const HASHED: &str = "hashed";

/// See [`Backend::list_indexes`](crate::backend::Backend::list_indexes).
pub(super) async fn list(database: &Database, collection: &str) -> Result<Vec<Index>> {
    let listed = async {
        let cursor = database
            .collection::<Document>(collection)
            .list_indexes()
            .await?;
        cursor.try_collect::<Vec<_>>().await
    };
    let models = match listed.await {
        Ok(models) => models,
        Err(failure) if is_missing(&failure) => Vec::new(),
        Err(failure) => return Err(error::from_driver(failure).with_collection(collection)),
    };
    models
        .into_iter()
        .filter_map(|model| from_driver(model).transpose())
        .collect()
}

/// See [`Backend::create_indexes`](crate::backend::Backend::create_indexes).
pub(super) async fn create(
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

/// See [`Backend::drop_index`](crate::backend::Backend::drop_index).
pub(super) async fn drop(database: &Database, collection: &str, name: &str) -> Result<()> {
    let dropped = database
        .collection::<Document>(collection)
        .drop_index(name)
        .await;
    dropped.map_err(|failure| error::from_driver(failure).with_collection(collection))
}

fn is_missing(failure: &::mongodb::error::Error) -> bool {
    matches!(&*failure.kind, DriverErrorKind::Command(command) if command.code == NAMESPACE_NOT_FOUND)
}

fn to_driver(index: Index) -> Result<IndexModel> {
    index.check()?;
    let keys = index.keys.into_iter();
    let hashed = index.hashed;
    let keys = keys.map(|(path, direction)| match &hashed {
        Some(hashed) if *hashed == path => (path, Bson::from(HASHED)),
        _ => (path, Bson::Int32(direction.sign())),
    });
    let partial = index.partial.as_deref().map(decode).transpose()?;
    let options = IndexOptions::builder()
        .name(index.name)
        .unique(index.unique.then_some(true))
        .sparse(index.sparse.then_some(true))
        .partial_filter_expression(partial)
        .expire_after(index.expire_after)
        .build();
    let model = IndexModel::builder().keys(keys.collect::<Document>());
    Ok(model.options(options).build())
}

/// None for the index on `_id`, and for one that [`Index`] cannot describe.
fn from_driver(model: IndexModel) -> Result<Option<Index>> {
    let options = model.options.unwrap_or_default();
    let Some(name) = options.name.filter(|name| name != "_id_") else {
        return Ok(None);
    };
    let wildcard = model
        .keys
        .keys()
        .any(|path| path == "$**" || path.ends_with(".$**"));
    if wildcard || options.collation.is_some() {
        return Ok(None);
    }
    let hashed = hashed_in(&model.keys);
    let keys = model.keys.into_iter();
    let keys = keys.map(|(path, value)| Some((path, direction(&value)?)));
    let Some(keys) = keys.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let partial = options.partial_filter_expression.as_ref();
    let partial = partial.map(RawDocumentBuf::try_from).transpose();
    Ok(Some(Index {
        name,
        keys,
        hashed,
        unique: options.unique.unwrap_or_default(),
        sparse: options.sparse.unwrap_or_default(),
        partial: partial.map_err(crate::error::encode)?,
        expire_after: options
            .expire_after
            .map(|after| Duration::from_secs(after.as_secs())),
    }))
}

/// The path that is hashed in the keys of an index, or in a shard key.
pub(super) fn hashed_in(keys: &Document) -> Option<String> {
    let mut keys = keys.iter();
    let hashed = keys.find(|(_, value)| value.as_str() == Some(HASHED));
    hashed.map(|(path, _)| path.clone())
}

/// Any number stands for a direction, by its sign; a string for another kind of index.
fn direction(value: &Bson) -> Option<Direction> {
    let sign = match *value {
        Bson::Int32(n) => f64::from(n),
        #[expect(clippy::cast_precision_loss, reason = "only the sign is of interest")]
        Bson::Int64(n) => n as f64,
        Bson::Double(n) => n,
        Bson::String(ref kind) if kind == HASHED => 1.0,
        _ => return None,
    };
    Some(if sign < 0.0 {
        Direction::Descending
    } else {
        Direction::Ascending
    })
}
