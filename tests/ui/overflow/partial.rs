//! Operations that would see only the resident elements of an overflow array.

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Club::founder, when(tags = Overflow::new()))]
    untagged: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "clubs")]
struct Club {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    founder: Ref<Person>,
    #[embed(overflow(after = 50, into = "extra_tags", flag = "has_tags"))]
    tags: Overflow<String>,
    #[reference(overflow(after = 50, into = "extra_members"))]
    members: Overflow<Ref<Person>>,
}

type Many<T> = Overflow<T>;

#[derive(Debug, Deserialize, Projection)]
#[projection(of = Club)]
struct Card {
    tags: Many<String>,
}

#[derive(Schema)]
#[schema(models(Person, Club))]
struct Town;

async fn used(db: odm::Database<Town>) -> odm::Result<()> {
    db.find::<Person>().with_children(Club::by(|c| c.members())).all().await?;
    Ok(())
}

fn main() {}
