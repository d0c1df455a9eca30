//! The application cannot write an inverse that is an overflow array.

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = person, overflow(after = 50, into = "more_tasks"))]
    tasks: Overflow<Ref<Task>>,
    #[reference(inverse_of = person, overflow(after = 50, into = "more_names", flag = "more"))]
    names: Overflow<Ref<Name>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = tasks)]
    person: Ref<Person>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "names")]
struct Name {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    person: Ref<Person>,
}

#[derive(Schema)]
#[schema(models(Person, Task, Name))]
struct Office;

async fn written(db: odm::Database<Office>) -> odm::Result<()> {
    db.update::<Person>(1).push(|p| p.tasks(), Ref::new(1)).await?;
    db.insert(NewPerson { id: 1, tasks: Overflow::new() }).await?;
    Ok(())
}

fn main() {}
