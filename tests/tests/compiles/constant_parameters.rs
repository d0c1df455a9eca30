//! Models and embedded structs with constant parameters.

use odm::prelude::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Level<const N: usize> {
    value: i64,
}

impl<const N: usize> Level<N> {
    fn depth(&self) -> usize {
        N
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "towers", version)]
struct Tower<const N: usize> {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 5)]
    levels: Vec<Level<N>>,
    version: i64,
}

#[derive(Schema)]
#[schema(models(Tower<3>))]
struct City;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = odm::Database::<City>::open("memory:").await?;
    let levels = vec![Level { value: 4 }];
    db.insert(NewTower { id: 1, levels }).await?;
    let high = db.find::<Tower<3>>().filter(|t| t.levels().value().gt(3));
    assert_eq!(high.one().await?.levels[0].depth(), 3);
    Ok(())
}
