//! `all_scopes` needs a scope that the index would begin with, and an index with the scope cannot be sparse.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "users")]
struct User {
    #[serde(rename = "_id")]
    id: i64,
    #[index(unique, all_scopes)]
    name: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "notes", scope = tenant, index(tenant, slug; all_scopes), index(slug, kind; sparse))]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
    tenant: String,
    slug: String,
    kind: String,
    #[index]
    votes: i64,
}

/// The scope is added to the first index.
#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tags", scope = tenant, index(tenant, name))]
struct Tag {
    #[serde(rename = "_id")]
    id: i64,
    tenant: String,
    #[index]
    name: String,
}

fn main() {}
