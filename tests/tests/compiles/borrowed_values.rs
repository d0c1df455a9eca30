//! Filters and updates with borrowed values of any lifetime.

use odm::prelude::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    #[embed(max = 5)]
    tags: Vec<String>,
}

#[derive(Schema)]
#[schema(models(Person))]
struct Office;
type Db = odm::Database<Office>;

struct BorrowedCondition<'a> {
    names: &'a [&'a str],
    tag: std::borrow::Cow<'a, str>,
}

async fn find(db: &Db, condition: &BorrowedCondition<'_>) -> odm::Result<Vec<Person>> {
    db.find::<Person>()
        .filter(|p| p.name().is_in(condition.names.iter().copied()))
        .filter(|p| p.tags().contains(&*condition.tag))
        .all()
        .await
}

async fn rename(db: &Db, id: &str, name: &str) -> odm::Result<()> {
    let text = String::from(name);
    db.update::<Person>(id).set(|p| p.name(), &text).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = Db::open("memory:").await?;
    let tags = vec!["a".to_owned()];
    db.insert(Person { id: "1".into(), name: "Bob".into(), tags }).await?;
    rename(&db, "1", "Ann").await?;
    let condition = BorrowedCondition { names: &["Ann"], tag: "a".into() };
    assert_eq!(find(&db, &condition).await?.len(), 1);
    Ok(())
}
