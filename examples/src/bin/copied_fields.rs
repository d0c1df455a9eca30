//! Copied fields: a product has the names of the parts, and each part has the name of the product.
//!
//! ```text
//! bicycle: left wheel, right wheel, saddle
//! left wheel is for bicycle 10-4
//! bicycle: front wheel, right wheel, saddle
//! front wheel is for tandem 10-4
//! tandem: front wheel, right wheel, saddle
//! tandem: saddle, right wheel, saddle
//! no findings
//! ```
//!
//! The example runs in memory, or on the database with the URL in the first argument.

use odm::{Filter, prelude::*};

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "products", insert_struct)]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    catalog_number: String,
    #[embed(max = 200)]
    parts: Vec<PartLink>,
}

/// The insert struct `NewPartLink` has no name, because odm fills the copy.
#[derive(Debug, Serialize, Deserialize, Embedded)]
struct PartLink {
    #[reference]
    id: Ref<Part>,
    /// A copy of the part's name.
    #[denormalize(from = id.name)]
    name: String,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[reference]
    product: Option<Ref<Product>>,
    #[denormalize(from = product.name)]
    product_name: Option<String>,
    #[denormalize(from = product.catalog_number)]
    product_catalog_number: Option<String>,
}

#[derive(Schema)]
#[schema(models(Product, Part))]
struct Shop;
type Db = odm::Database<Shop>;

#[tokio::main]
async fn main() -> odm::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let db = Db::open(&url).await?;
    // `sync_indexes` creates the indexes for the fan-out.
    db.sync_indexes().await?;
    // Remove the documents of an earlier run.
    db.delete_many::<Product>(|_| Filter::all()).await?;
    db.delete_many::<Part>(|_| Filter::all()).await?;

    let names = ["left wheel", "right wheel", "saddle"];
    let parts = (1..).zip(names).map(|(id, name)| NewPart {
        id,
        name: name.into(),
        product: None,
    });
    let parts = db.insert_many(parts).await?;
    let links = parts.iter().map(|part| NewPartLink { id: part.to_ref() });
    let bicycle = NewProduct {
        id: 1,
        name: "bicycle".into(),
        catalog_number: "10-4".into(),
        parts: links.collect(),
    };
    let bicycle = db.insert(bicycle).await?;
    show(&db).await?;

    // A changed reference also changes the copies.
    db.update_many::<Part>(|p| p.name().starts_with("left"))
        .set(|p| p.product(), &bicycle)
        .await?;
    made_for(&db, 1).await?;

    // A changed name changes every copy, with array filters and without rewriting documents.
    db.update::<Part>(1)
        .set(|p| p.name(), "front wheel")
        .await?;
    show(&db).await?;
    db.modify::<Product>(1, |product| product.name = "tandem".into())
        .await?;
    made_for(&db, 1).await?;
    show(&db).await?;
    db.update::<Product>(1)
        .set(|p| p.parts().at(0).id(), &parts[2])
        .await?;
    show(&db).await?;

    let report = db.check().await?;
    println!(
        "{}",
        report.to_string().rsplit(": ").next().unwrap_or_default()
    );
    Ok(())
}

async fn show(db: &Db) -> odm::Result<()> {
    let product = db.get::<Product>(1).await?;
    let names: Vec<_> = product.parts.iter().map(|part| &*part.name).collect();
    println!("{}: {}", product.name, names.join(", "));
    Ok(())
}

async fn made_for(db: &Db, id: i64) -> odm::Result<()> {
    let part = db.get::<Part>(id).await?;
    let product = part.product_name.unwrap_or_default();
    let number = part.product_catalog_number.unwrap_or_default();
    println!("{} is for {product} {number}", part.name);
    Ok(())
}
