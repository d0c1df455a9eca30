//! Derives with separate imports instead of the prelude.

use odm::{Database, Document, Embedded, Projection, Ref, Schema};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Embedded)]
struct Name {
    first: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    name: Name,
    #[reference]
    of: Option<Ref<Person>>,
}

#[derive(Deserialize, Projection)]
#[projection(of = Person)]
struct Named {
    name: Name,
}

#[derive(Schema)]
#[schema(models(Person))]
struct World;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = Database::<World>::open("memory:").await?;
    db.insert(Person { id: 1, name: Name { first: "Ann".into() }, of: None }).await?;
    let named = db.find::<Person>().select::<Named>().one().await?;
    assert_eq!(named.name.first, "Ann");
    Ok(())
}
