//! An array of references needs `pull` instead of `nullify`.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(max = 3, on_delete = nullify)]
    before: Vec<Ref<Task>>,
}

fn main() {}
