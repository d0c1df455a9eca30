//! Models in several schemas, each with the targets of the references.

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    owner: Ref<Person>,
}

#[derive(Schema)]
#[schema(models(Person))]
struct Small;

#[derive(Schema)]
#[schema(models(Person, Task))]
struct Large;

fn both<S: odm::schema::Contains<Person>>(_: &odm::Database<S>) {}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    both(&odm::Database::<Small>::open("memory:").await?);
    both(&odm::Database::<Large>::open("memory:").await?);
    Ok(())
}
