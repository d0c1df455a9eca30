//! Collections that are spread over the shards of a cluster.

use ::mongodb::{
    Database,
    bson::{Bson, Document, doc},
};

use super::{
    error,
    index::{HASHED, hashed_in},
};
use crate::{Result, backend::operation::ShardKey};

/// See [`Backend::shard_key_of`](crate::backend::Backend::shard_key_of).
pub(super) async fn key_of(database: &Database, collection: &str) -> Result<Option<ShardKey>> {
    let collections = database
        .client()
        .database("config")
        .collection::<Document>("collections");
    let found = collections
        .find_one(doc! { "_id": namespace(database, collection) })
        .await;
    let found = found.map_err(|failure| error::from_driver(failure).with_collection(collection))?;
    Ok(found.as_ref().and_then(from_config))
}

/// See [`Backend::shard_collection`](crate::backend::Backend::shard_collection).
pub(super) async fn shard(database: &Database, collection: &str, key: ShardKey) -> Result<()> {
    let command = command(&namespace(database, collection), &key);
    let admin = database.client().database("admin");
    match admin.run_command(command).await {
        Ok(_) => Ok(()),
        Err(failure) => Err(error::from_driver(failure).with_collection(collection)),
    }
}

fn namespace(database: &Database, collection: &str) -> String {
    format!("{}.{collection}", database.name())
}

fn command(namespace: &str, key: &ShardKey) -> Document {
    let fields = key.fields.iter().map(|path| match &key.hashed {
        Some(hashed) if hashed == path => (path.clone(), Bson::from(HASHED)),
        _ => (path.clone(), Bson::Int32(1)),
    });
    doc! { "shardCollection": namespace, "key": fields.collect::<Document>() }
}

/// What the cluster knows of a collection. It also knows some that are not sharded, and says that they cannot be split.
fn from_config(known: &Document) -> Option<ShardKey> {
    if known.get_bool("unsplittable").unwrap_or_default() {
        return None;
    }
    let key = known.get_document("key").ok()?;
    Some(ShardKey {
        fields: key.keys().cloned().collect(),
        hashed: hashed_in(key),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_to_a_cluster_and_comes_back() {
        for (fields, hashed, expected) in [
            (
                vec!["customer", "_id"],
                None,
                doc! { "customer": 1, "_id": 1 },
            ),
            (vec!["_id"], Some("_id"), doc! { "_id": "hashed" }),
            (
                vec!["region", "customer"],
                Some("customer"),
                doc! { "region": 1, "customer": "hashed" },
            ),
        ] {
            let key = ShardKey {
                fields: fields.into_iter().map(ToOwned::to_owned).collect(),
                hashed: hashed.map(ToOwned::to_owned),
            };
            assert_eq!(
                command("shop.orders", &key),
                doc! { "shardCollection": "shop.orders", "key": expected.clone() }
            );
            let known = doc! { "_id": "shop.orders", "key": expected, "unique": false };
            assert_eq!(from_config(&known), Some(key));
        }
    }

    #[test]
    fn what_cannot_be_split_is_not_sharded() {
        let known = doc! { "_id": "shop.orders", "key": { "_id": 1 }, "unsplittable": true };
        assert_eq!(from_config(&known), None);
    }
}
