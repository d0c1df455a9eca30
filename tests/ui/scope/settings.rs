//! Invalid values of the setting `scope`.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", scope)]
struct NoField {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "b", scope = tenant)]
struct Missing {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "c", scope = id)]
struct TheId {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "d", scope = tenants)]
struct Several {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 3)]
    tenants: Vec<String>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "e", scope = tenant, scope = user)]
struct Twice {
    #[serde(rename = "_id")]
    id: i64,
    tenant: String,
    user: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "f", scope = tenant, version = tenant)]
struct ForTwo {
    #[serde(rename = "_id")]
    id: i64,
    tenant: i64,
}

fn main() {}
