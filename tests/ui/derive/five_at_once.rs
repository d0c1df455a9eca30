//! Five mistakes in a model give five messages, and the uses of the model give none.

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(colection = "parts", collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(skip_serializing)]
    name: String,
    sizes: Vec<i64>,
    #[embed(maximum = 3)]
    makers: Vec<String>,
    #[index(uniqe)]
    number: i64,
}

#[derive(Schema)]
#[schema(models(Part))]
struct Shop;

async fn use_it(db: odm::Database<Shop>) -> odm::Result<i64> {
    let part = db.find::<Part>().filter(|p| p.number().gt(3)).one().await?;
    db.update::<Part>(1).push(|p| p.makers(), "ann").await?;
    Ok(part.number)
}

fn main() {}
