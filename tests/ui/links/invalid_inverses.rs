//! A missing inverse, or an inverse that is no reference, gives a single error.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[reference(inverse_of = text, max = 5)]
    tasks: Vec<Ref<Task>>,
    #[reference(inverse_of = helpre, max = 5)]
    helps: Vec<Ref<Task>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    text: String,
    #[reference(inverse = name)]
    owner: Ref<Person>,
    #[reference(inverse = helsp)]
    helper: Ref<Person>,
}

#[derive(Schema)]
#[schema(models(Person, Task))]
struct Office;

fn main() {}
