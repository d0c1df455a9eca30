//! Invalid settings of two-way links.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = owner, max = 5)]
    tasks: Vec<Ref<Task>>,
    #[reference(inverse_of = helpers)]
    helps: Vec<Ref<Task>>,
    #[reference(inverse_of = best)]
    favourite: Ref<Task>,
    #[reference(inverse_of = worst, on_delete = keep)]
    hated: Option<Ref<Task>>,
    #[reference(exists, inverse_of = worst)]
    there: Option<Ref<Task>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = tasks, on_delete = cascade)]
    owner: Ref<Person>,
    #[reference(inverse = helps)]
    helpers: Vec<Ref<Person>>,
    #[reference(inverse = favourite, inverse_of = favourite)]
    best: Option<Ref<Person>>,
    #[reference(inverse = hated, on_delete = nullify)]
    worst: Ref<Person>,
    #[reference(inverse = hated, on_delete = pull)]
    other: Option<Ref<Person>>,
    #[reference(on_delete = pull)]
    alone: Option<Ref<Person>>,
    #[reference(exists)]
    many: Vec<Ref<Person>>,
    #[reference(exist)]
    typo: Ref<Person>,
    #[reference(inverse = tasks, on_delete = delete)]
    word: Ref<Person>,
    #[reference(inverse = "tasks")]
    text: Ref<Person>,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Line {
    #[reference(inverse = lines)]
    person: Ref<Person>,
}

fn main() {}
