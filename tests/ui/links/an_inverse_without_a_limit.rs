//! An inverse without a limit is a single error, in the model with the inverse.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = owner)]
    tasks: Vec<Ref<Task>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = tasks, on_delete = cascade)]
    owner: Ref<Person>,
}

fn main() {}
