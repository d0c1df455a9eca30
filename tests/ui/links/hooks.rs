//! A cascade would skip the hooks of a model.
use odm::{Hooks, prelude::*};

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = owner, max = 5)]
    tasks: Vec<Ref<Task>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks", hooks)]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = tasks, on_delete = cascade)]
    owner: Ref<Person>,
}

impl Hooks for Task {
    type Schema = Office;
}

#[derive(Schema)]
#[schema(models(Person, Task))]
struct Office;

fn main() {}
