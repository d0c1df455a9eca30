//! The application cannot write an inverse.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = owner, max = 5)]
    tasks: Vec<Ref<Task>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = tasks)]
    owner: Ref<Person>,
}

#[derive(Schema)]
#[schema(models(Person, Task))]
struct Office;

fn wrong(db: odm::Database<Office>, task: Task) {
    let _ = db.update::<Person>(1).push(|p| p.tasks(), &task);
    let _ = db.update::<Person>(1).set(|p| p.tasks(), vec![]);
    let _ = db.insert(Person { id: 1, tasks: vec![] });
    let _ = NewPerson { id: 1, tasks: vec![] };
}

fn main() {}
