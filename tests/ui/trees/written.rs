//! Writes of the ancestors, and trees of a model without a tree.
use odm::prelude::*;

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "categories")]
struct Category {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(exists)]
    parent: Option<Ref<Category>>,
    #[tree(parent = parent)]
    ancestors: Vec<Ref<Category>>,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Schema)]
#[schema(models(Category, Part))]
struct Shop;

async fn written(db: odm::Database<Shop>, category: Category) -> odm::Result<()> {
    db.update::<Category>(1).push(|c| c.ancestors(), Ref::new(2)).await?;
    db.insert(category).await?;
    db.update::<Part>(1).move_to(2).await?;
    db.find::<Part>().descendants_of(1).all().await?;
    db.subtree::<Part>(1).await?;
    Ok(())
}

fn main() {}
