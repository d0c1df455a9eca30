//! A generic model, in a schema with a concrete type.

use odm::prelude::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[serde(bound = "")]
#[document(collection = "batches")]
struct Batch<T: Embedded> {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 10)]
    items: Vec<T>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Line {
    text: String,
}

#[derive(Schema)]
#[schema(models(Batch<Line>))]
struct Shop;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = odm::Database::<Shop>::open("memory:").await?;
    let items = vec![Line { text: "one".into() }];
    db.insert(Batch { id: 1, items }).await?;
    let found = db.find::<Batch<Line>>().filter(|b| b.items().text().eq("one"));
    assert_eq!(found.count().await?, 1);
    Ok(())
}
