//! Sharding of collections.

use ::mongodb::{
    Database,
    bson::{Bson, Document, doc},
};

use super::{
    error,
    index::{HASHED_KIND, find_hashed_path},
};
use crate::{Result, backend::operation::ShardKey};

/// Returns the shard key of a collection: [`Backend::shard_key_of`](crate::backend::Backend::shard_key_of).
pub(super) async fn shard_key_of(
    database: &Database,
    collection: &str,
) -> Result<Option<ShardKey>> {
    let collections = database
        .client()
        .database("config")
        .collection::<Document>("collections");
    let entry = collections
        .find_one(doc! { "_id": full_collection_name(database, collection) })
        .await;
    let entry = entry.map_err(|failure| error::from_driver(failure).with_collection(collection))?;
    Ok(entry.as_ref().and_then(parse_config_entry))
}

/// Shards a collection: [`Backend::shard_collection`](crate::backend::Backend::shard_collection).
pub(super) async fn shard_collection(
    database: &Database,
    collection: &str,
    key: ShardKey,
) -> Result<()> {
    let command = shard_command(&full_collection_name(database, collection), &key);
    let admin = database.client().database("admin");
    match admin.run_command(command).await {
        Ok(_) => Ok(()),
        Err(failure) => Err(error::from_driver(failure).with_collection(collection)),
    }
}

fn full_collection_name(database: &Database, collection: &str) -> String {
    format!("{}.{collection}", database.name())
}

fn shard_command(namespace: &str, key: &ShardKey) -> Document {
    let fields = key.fields.iter().map(|path| match &key.hashed {
        Some(hashed) if hashed == path => (path.clone(), Bson::from(HASHED_KIND)),
        _ => (path.clone(), Bson::Int32(1)),
    });
    doc! { "shardCollection": namespace, "key": fields.collect::<Document>() }
}

/// Returns the shard key in the cluster's description of a collection. Unsharded collections are described too, as
/// `unsplittable`.
fn parse_config_entry(description: &Document) -> Option<ShardKey> {
    if description.get_bool("unsplittable").unwrap_or_default() {
        return None;
    }
    let key = description.get_document("key").ok()?;
    Some(ShardKey {
        fields: key.keys().cloned().collect(),
        hashed: find_hashed_path(key),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_keys_round_trip_through_the_server_format() {
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
                shard_command("shop.orders", &key),
                doc! { "shardCollection": "shop.orders", "key": expected.clone() }
            );
            let known = doc! { "_id": "shop.orders", "key": expected, "unique": false };
            assert_eq!(parse_config_entry(&known), Some(key));
        }
    }

    #[test]
    fn unsplittable_collections_are_not_sharded() {
        let known = doc! { "_id": "shop.orders", "key": { "_id": 1 }, "unsplittable": true };
        assert_eq!(parse_config_entry(&known), None);
    }
}
