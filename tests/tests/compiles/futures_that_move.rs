//! Every future can be spawned, boxed and moved to a different thread.

use std::{future::Future, pin::Pin, sync::Arc};

use odm::prelude::*;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

#[derive(Schema)]
#[schema(models(Person))]
struct World;
type Db = odm::Database<World>;

trait People: Send + Sync {
    fn named<'a>(&'a self, name: &'a str) -> Pin<Box<dyn Future<Output = odm::Result<u64>> + Send + 'a>>;
}

impl People for Db {
    fn named<'a>(&'a self, name: &'a str) -> Pin<Box<dyn Future<Output = odm::Result<u64>> + Send + 'a>> {
        Box::pin(async move { self.find::<Person>().filter(|p| p.name().eq(name)).count().await })
    }
}

#[tokio::main]
pub(crate) async fn main() -> odm::Result<()> {
    let db = Db::open("memory:").await?;
    let people: Arc<dyn People> = Arc::new(db.clone());
    let task = tokio::spawn(async move {
        db.transaction(async |tx| {
            tx.insert(Person { id: 1, name: "Ann".into() }).await?;
            tx.update::<Person>(1).set(|p| p.name(), "Bob").await
        })
        .await
    });
    task.await.expect("no panic")?;
    let counted = tokio::spawn(async move { people.named("Bob").await });
    assert_eq!(counted.await.expect("no panic")?, 1);
    Ok(())
}
