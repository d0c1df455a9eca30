//! The types that an `_id` can have.

use odm::prelude::*;

macro_rules! ids {
    ($($name:ident $collection:literal $ty:ty;)*) => {$(
        #[derive(Serialize, Deserialize, Document)]
        #[document(collection = $collection)]
        struct $name {
            #[serde(rename = "_id")]
            id: $ty,
        }
    )*};
}
ids! {
    Number "numbers" i64;
    Short "shorts" i32;
    Text "texts" String;
    Id "ids" ObjectId;
    Unique "uniques" Uuid;
    Own "owns" Key;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Key(String);

#[derive(Schema)]
#[schema(models(Number, Short, Text, Id, Unique, Own))]
struct World;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = odm::Database::<World>::open("memory:").await?;
    db.insert(Own { id: Key("a".into()) }).await?;
    assert_eq!(db.get::<Own>(Key("a".into())).await?.id, Key("a".into()));
    db.insert(Id { id: ObjectId::new() }).await?;
    assert_eq!(db.find::<Id>().count().await?, 1);
    Ok(())
}
