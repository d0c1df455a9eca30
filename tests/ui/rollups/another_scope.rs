//! The scope of the children does not give access to the parent.

use odm::prelude::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct TenantId(pub String);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Region(pub String);

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "boards", scope = tenant)]
struct Board {
    #[serde(rename = "_id")]
    id: i64,
    tenant: TenantId,
    #[count(of = Like::board)]
    likes: i64,
    #[sum(of = Visit::board, value = minutes)]
    minutes: i64,
    #[count(of = Visit::board)]
    visits: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "likes")]
struct Like {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    board: Ref<Board>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "visits", scope = region)]
struct Visit {
    #[serde(rename = "_id")]
    id: i64,
    region: Region,
    #[reference]
    board: Ref<Board>,
    minutes: i64,
}

fn main() {}
