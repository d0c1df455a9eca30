//! Links to fields that are no reference or no inverse.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[reference(inverse_of = owner, max = 5)]
    tasks: Vec<Ref<Task>>,
    #[reference(inverse_of = text, max = 5)]
    texts: Vec<Ref<Task>>,
    #[reference]
    plain: Option<Ref<Task>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    text: String,
    #[reference(inverse = taskz)]
    owner: Ref<Person>,
    #[reference(inverse = name)]
    named: Ref<Person>,
    #[reference(inverse = plain)]
    other: Ref<Person>,
}

fn main() {}
