//! Models that are private to a function body.

use odm::prelude::*;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    #[derive(Serialize, Deserialize, Document)]
    #[document(collection = "people")]
    struct Person {
        #[serde(rename = "_id")]
        id: i64,
        #[reference(on_delete = nullify)]
        of: Option<Ref<Person>>,
    }

    #[derive(Schema)]
    #[schema(models(Person))]
    struct World;

    let db = odm::Database::<World>::open("memory:").await?;
    db.insert(Person { id: 1, of: None }).await?;
    db.insert(Person { id: 2, of: Some(Ref::new(1)) }).await?;
    db.delete::<Person>(1).await?;
    assert!(db.get::<Person>(2).await?.of.is_none());
    Ok(())
}
