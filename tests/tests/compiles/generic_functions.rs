//! Generic functions over any model, and over any schema that contains the model.

use odm::{Session, prelude::*, schema::Contains};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

#[derive(Schema)]
#[schema(models(Person))]
struct Office;

async fn count<S: Contains<M>, M: Document>(session: &Session<S>) -> odm::Result<u64> {
    session.find::<M>().count().await
}

async fn first<M, S>(session: &Session<S>) -> odm::Result<Option<M>>
where
    M: Document<Id = i64>,
    S: Contains<M>,
{
    session.find_by_id::<M>(1).await
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = odm::Database::<Office>::open("memory:").await?;
    db.insert(Person { id: 1, name: "Ann".into() }).await?;
    assert_eq!(count::<_, Person>(&db).await?, 1);
    assert!(first::<Person, _>(&db).await?.is_some());
    Ok(())
}
