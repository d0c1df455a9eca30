//! The generated code passes the lints that a careful crate denies.

#![deny(warnings, unused, nonstandard_style, rust_2018_idioms)]
#![deny(unreachable_pub, missing_debug_implementations, missing_copy_implementations, single_use_lifetimes, trivial_casts)]
#![deny(trivial_numeric_casts, unused_qualifications, unused_import_braces, unused_lifetimes, let_underscore_drop)]
#![forbid(unsafe_code)]

use odm::prelude::*;

#[derive(Debug, Serialize, Deserialize, Embedded)]
struct Line {
    #[reference]
    product: Ref<Product>,
    #[snapshot(from = product.price)]
    price: i64,
    quantity: i64,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "products", version, timestamps)]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    price: i64,
    version: i64,
    created_at: DateTime,
    updated_at: DateTime,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "orders", index(total))]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 10)]
    lines: Vec<Line>,
    #[computed(sum(lines.price * lines.quantity))]
    total: i64,
    #[embed(overflow(after = 5, into = "more_notes"))]
    notes: Overflow<String>,
}

#[derive(Debug, Clone, Copy, Schema)]
#[schema(models(Product, Order))]
struct Shop;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = odm::Database::<Shop>::open("memory:").await?;
    let product = db.insert(NewProduct { id: 1, price: 5 }).await?;
    let line = NewLine { product: product.to_ref(), quantity: 3 };
    let order = db.insert(NewOrder { id: 1, lines: vec![line], notes: Overflow::new() }).await?;
    assert_eq!((order.total, order.id, order.lines.len(), order.notes.len()), (15, 1, 1, 0));
    assert_eq!((order.lines[0].price, order.lines[0].quantity, *order.lines[0].product.id()), (5, 3, 1));
    assert_eq!((product.id, product.price, product.version), (1, 5, 1));
    assert_eq!(product.created_at, product.updated_at);
    Ok(())
}
