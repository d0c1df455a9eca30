//! Models with type aliases: the derives recognize types by traits, not by names.

use odm::prelude::*;

type Id = i64;
type Text = String;
type Texts = Vec<Text>;
type Perhaps<T> = Option<T>;
type To<T> = Ref<T>;
type ToMany<T> = Vec<To<T>>;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: Id,
    name: Perhaps<Text>,
    #[embed(max = 5)]
    names: Texts,
    #[reference]
    boss: Perhaps<To<Person>>,
    #[reference(max = 5)]
    friends: ToMany<Person>,
}

#[derive(Schema)]
#[schema(models(Person))]
struct World;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = odm::Database::<World>::open("memory:").await?;
    let names = vec!["Ann".to_owned()];
    db.insert(Person { id: 1, name: None, names, boss: None, friends: vec![Ref::new(1)] }).await?;
    let found = db.find::<Person>().filter(|p| p.names().contains("Ann")).with(|p| p.friends()).one().await?;
    assert_eq!(found.1.len(), 1);
    Ok(())
}
