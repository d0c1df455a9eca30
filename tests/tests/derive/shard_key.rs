//! Shard keys of all forms: in a generic model, through references and newtypes, with renamed fields, and of the id alone.

use odm::{
    Database,
    backend::operation::{Index, ShardKey},
    prelude::*,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Sku(String);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Embedded)]
enum Region {
    North,
    South,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Point {
    x: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(
    collection = "batches",
    shard_key(r#type, region, hashed(of)),
    index(-region, r#type),
    index(id, region; unique)
)]
#[serde(bound = "", rename_all = "camelCase")]
struct Batch<T: Embedded> {
    #[serde(rename = "_id")]
    id: Sku,
    r#type: i64,
    #[serde(rename = "R")]
    region: Region,
    #[reference]
    of: Ref<Maker>,
    #[serde(with = "odm::native")]
    made_at: chrono::DateTime<chrono::Utc>,
    #[embed(max = 3)]
    items: Vec<T>,
}

/// A shard key of the id alone, which needs no index and no key struct. A field is named `hashed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "makers", shard_key(id))]
struct Maker {
    #[serde(rename = "_id")]
    id: i64,
    hashed: i64,
}

/// A model with an index that begins with the shard key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "days", shard_key(at, hashed), index(at, hashed, -n; unique))]
struct Day {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(with = "odm::native")]
    at: chrono::DateTime<chrono::Utc>,
    hashed: i64,
    n: i64,
}

/// A model with a key that code outside of the module cannot construct.
mod hidden {
    use odm::prelude::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "secrets", shard_key(owner))]
    pub(crate) struct Secret {
        #[serde(rename = "_id")]
        pub(crate) id: i64,
        owner: String,
    }

    pub(crate) fn new(id: i64, owner: &str) -> Secret {
        let owner = owner.to_owned();
        Secret { id, owner }
    }

    pub(crate) fn key(id: i64, owner: &str) -> SecretKey {
        let owner = owner.to_owned();
        SecretKey { id, owner }
    }
}

#[derive(Schema)]
#[schema(models(Batch<Point>, Maker, Day, hidden::Secret))]
struct Shop;

fn key(fields: &[&str], hashed: Option<&str>) -> ShardKey {
    ShardKey {
        fields: fields.iter().map(ToString::to_string).collect(),
        hashed: hashed.map(ToOwned::to_owned),
    }
}

fn names(indexes: Vec<Index>) -> Vec<String> {
    indexes.into_iter().map(|index| index.name).collect()
}

#[test]
fn shard_keys_have_stored_names_and_an_index() {
    let of_batch = key(&["type", "R", "of"], Some("of"));
    assert_eq!(Batch::<Point>::MODEL.shard_key(), Some(of_batch));
    assert_eq!(
        names(Batch::<Point>::indexes()),
        ["R_-1_type_1", "_id_1_R_1", "type_1_R_1_of_hashed"]
    );
    assert_eq!(Maker::MODEL.shard_key(), Some(key(&["_id"], None)));
    assert_eq!(names(Maker::indexes()), [""; 0]);
    assert_eq!(Day::MODEL.shard_key(), Some(key(&["at", "hashed"], None)));
    assert_eq!(names(Day::indexes()), ["at_1_hashed_1_n_-1"]);
}

#[tokio::test]
async fn shard_keys_of_any_type_select_documents() {
    let db = Database::<Shop>::open("memory:").await.unwrap();
    db.sync_indexes().await.unwrap();
    let maker = db.insert(Maker { id: 1, hashed: 2 }).await.unwrap();
    db.update::<Maker>(1).inc(|m| m.hashed(), 1).await.unwrap();

    // A time with more precision than the stored time.
    let now = chrono::Utc::now();
    let batch = Batch {
        id: Sku("a".into()),
        r#type: 1,
        region: Region::North,
        of: maker.to_ref(),
        made_at: now,
        items: vec![Point { x: 1 }],
    };
    let batch = db.insert(batch).await.unwrap();
    let key = BatchKey::<Point> {
        id: Sku("a".into()),
        r#type: 1,
        region: Region::North,
        of: maker.to_ref(),
    };
    let point = || Point { x: 2 };
    db.update::<Batch<Point>>(&batch)
        .push(|b| b.items(), point())
        .await
        .unwrap();
    db.update::<Batch<Point>>(&key)
        .push(|b| b.items(), point())
        .await
        .unwrap();
    let south = BatchKey {
        region: Region::South,
        ..key.clone()
    };
    let error = db
        .update::<Batch<Point>>(south)
        .push(|b| b.items(), point());
    assert!(error.await.unwrap_err().is_not_found());
    assert!(format!("{key:?}").starts_with("BatchKey { id: Sku(\"a\"), type: 1"));
    assert!(db.delete::<Batch<Point>>(key).await.unwrap().is_applied());

    let day = db
        .insert(Day {
            id: 1,
            at: now,
            hashed: 1,
            n: 1,
        })
        .await
        .unwrap();
    db.update::<Day>(&day).inc(|d| d.n(), 1).await.unwrap();
    let key = DayKey {
        id: 1,
        at: now,
        hashed: 1,
    };
    assert!(db.delete::<Day>(key).await.unwrap().is_applied());

    let secret = db.insert(hidden::new(1, "jane")).await.unwrap();
    assert_eq!(secret.id, 1);
    let others = db.delete::<hidden::Secret>(hidden::key(1, "joe")).await;
    assert!(!others.unwrap().is_applied());
    assert!(
        db.delete::<hidden::Secret>(&secret)
            .await
            .unwrap()
            .is_applied()
    );
}
