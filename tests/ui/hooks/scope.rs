//! A hook's session is for no scope.

use odm::prelude::*;

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "notes", scope = tenant, hooks)]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
    tenant: String,
}

fn main() {}
