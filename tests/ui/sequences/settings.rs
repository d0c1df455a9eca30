//! Invalid settings of sequence numbers.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a")]
struct MisspeltField {
    #[serde(rename = "_id")]
    id: i64,
    shop: String,
    #[sequence(per = shpo)]
    number: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a")]
struct UnknownSetting {
    #[serde(rename = "_id")]
    id: i64,
    shop: String,
    #[sequence(pre = shop)]
    number: i64,
    #[sequence = "shop"]
    other: i64,
    #[sequence]
    #[sequence(per = shop)]
    twice: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a")]
struct NumberedId {
    #[serde(rename = "_id")]
    #[sequence]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", timestamps)]
struct UnusableFields {
    #[serde(rename = "_id")]
    id: i64,
    shop: Option<String>,
    #[serde(default)]
    queue: String,
    #[embed(max = 3)]
    tags: Vec<String>,
    #[sequence(per = shop)]
    first: i64,
    #[sequence(per = tags)]
    second: i64,
    #[sequence(per = created_at)]
    third: i64,
    #[sequence(per = id)]
    fourth: i64,
    #[sequence(per = queue)]
    fifth: i64,
    created_at: DateTime,
    updated_at: DateTime,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a")]
struct TwoKinds {
    #[serde(rename = "_id")]
    id: i64,
    other: i64,
    #[sequence]
    #[computed(other + 1)]
    number: i64,
    #[sequence]
    #[embed(max = 3)]
    numbers: Vec<i64>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", index(shop, number; unique))]
struct DeclaredIndex {
    #[serde(rename = "_id")]
    id: i64,
    shop: String,
    #[sequence(per = shop)]
    number: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", shard_key(id))]
struct OtherShardKey {
    #[serde(rename = "_id")]
    id: i64,
    shop: String,
    #[sequence(per = shop)]
    number: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Line {
    #[sequence]
    number: i64,
}

fn main() {}
