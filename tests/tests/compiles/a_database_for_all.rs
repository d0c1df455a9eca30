//! A database in a static, in a struct, and as a trait object of the application.

use std::sync::OnceLock;

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Schema)]
#[schema(models(Person))]
struct World;
type Db = odm::Database<World>;

static DB: OnceLock<Db> = OnceLock::new();

#[derive(Clone)]
struct App {
    db: Db,
}

impl App {
    async fn count(&self) -> odm::Result<u64> {
        self.db.find::<Person>().count().await
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = Db::open("memory:").await?;
    let db = DB.get_or_init(|| db);
    db.insert(Person { id: 1 }).await?;
    assert_eq!(App { db: db.clone() }.count().await?, 1);
    Ok(())
}
