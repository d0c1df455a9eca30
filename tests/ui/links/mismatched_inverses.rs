//! A reference and an inverse that do not name each other.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = owner, max = 5)]
    tasks: Vec<Ref<Task>>,
    #[reference(inverse_of = helper, max = 5)]
    helps: Vec<Ref<Task>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = helps)]
    owner: Ref<Person>,
    #[reference]
    helper: Ref<Person>,
}

#[derive(Schema)]
#[schema(models(Person, Task))]
struct Office;

fn main() {}
