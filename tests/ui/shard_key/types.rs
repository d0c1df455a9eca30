//! A shard key field needs a suitable type, also under a type alias.
use odm::prelude::*;

type Region = Option<i64>;
type Friends = Vec<Ref<Person>>;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "persons", shard_key(region, friends))]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    region: Region,
    #[reference]
    friends: Friends,
}

fn main() {}
