//! One-to-many: the parts of a product are documents, and the product has references to the parts.
//!
//! ```text
//! left wheel barrow
//!     wheel, 94 in stock
//!     wheel, 94 in stock
//!     handle, 12 in stock
//!     no part 999
//! left-handed smoke shifter
//!     handle, 12 in stock
//! ```
//!
//! The example runs in memory, or on the database with the URL in the first argument.

use odm::{Filter, prelude::*};

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    qty: i32,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "products")]
struct Product {
    #[serde(rename = "_id")]
    id: ObjectId,
    #[index]
    name: String,
    #[reference]
    parts: Vec<Ref<Part>>,
}

#[derive(Schema)]
#[schema(models(Product, Part))]
struct Shop;

#[tokio::main]
async fn main() -> odm::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let db = odm::Database::<Shop>::open(&url).await?;
    db.sync_indexes().await?;
    // Remove the documents of an earlier run.
    db.delete_many::<Part>(|_| Filter::all()).await?;
    db.delete_many::<Product>(|_| Filter::all()).await?;

    let part = |id, name: &str, qty| Part {
        id,
        name: name.into(),
        qty,
    };
    let wheel = db.insert(part(1, "wheel", 94)).await?.to_ref();
    let handle = db.insert(part(2, "handle", 12)).await?.to_ref();
    let product = |name: &str, parts: &[Ref<Part>]| Product {
        id: ObjectId::new(),
        name: name.into(),
        parts: parts.to_vec(),
    };
    db.insert_many([
        product("left wheel barrow", &[wheel, wheel, handle, Ref::new(999)]),
        product("left-handed smoke shifter", &[handle]),
    ])
    .await?;

    // Two queries: the products, and all parts together. The relation is part of the result type.
    let products = db
        .find::<Product>()
        .filter(|p| p.name().starts_with("left"))
        .sort(|p| p.name().asc())
        .with(|p| p.parts())
        .all()
        .await?;
    for (product, parts) in &products {
        println!("{}", product.name);
        for part in parts {
            match part {
                Loaded(part) => println!("    {}, {} in stock", part.name, part.qty),
                Missing(id) => println!("    no part {id}"),
            }
        }
    }
    Ok(())
}
