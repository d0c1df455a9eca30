//! Snapshots: an order keeps the original prices and the original address, regardless of later changes.
//!
//! ```text
//! to Bern: 2 x hammer at 25, 1 x saw at 40
//! to Bern: 2 x claw hammer at 25, 1 x saw at 40, 1 x claw hammer at 30
//! lines.0.price of order 1: 25 was taken of product 1, which has 30 now
//! lines.1.price of order 1: 40 was taken of product 2, which is gone
//! the price of an order is not set: Invalid
//! ```
//!
//! The example runs in memory, or on the database with the URL in the first argument.

use odm::{Filter, prelude::*};

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "products")]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    price: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
struct Address {
    street: String,
    city: String,
}

#[derive(Debug, Serialize, Deserialize, Embedded)]
struct OrderLine {
    #[reference]
    product: Ref<Product>,
    /// The price at the time of the write, with the time.
    #[snapshot(from = product.price, origin)]
    price: i64,
    /// The current name.
    #[denormalize(from = product.name)]
    name: String,
    quantity: i32,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "orders", insert_struct)]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[snapshot]
    #[embed]
    ship_to: Address,
    #[embed(max = 500)]
    lines: Vec<OrderLine>,
}

#[derive(Schema)]
#[schema(models(Product, Order))]
struct Shop;
type Db = odm::Database<Shop>;

#[tokio::main]
async fn main() -> odm::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let db = Db::open(&url).await?;
    db.sync_indexes().await?;
    // Remove the documents of an earlier run.
    db.delete_many::<Order>(|_| Filter::all()).await?;
    db.delete_many::<Product>(|_| Filter::all()).await?;

    let product = |id, name: &str, price| Product {
        id,
        name: name.into(),
        price,
    };
    let products = [product(1, "hammer", 25), product(2, "saw", 40)];
    let products = db.insert_many(products).await?;
    let line = |product: &Product, quantity| NewOrderLine {
        product: product.to_ref(),
        quantity,
    };
    let order = NewOrder {
        id: 1,
        ship_to: Address {
            street: "Rathausgasse 1".into(),
            city: "Bern".into(),
        },
        lines: vec![line(&products[0], 2), line(&products[1], 1)],
    };
    // The insert returns the stored document with the managed fields.
    show(&db.insert(order).await?);

    db.update::<Product>(1)
        .set(|p| p.price(), 30)
        .set(|p| p.name(), "claw hammer")
        .await?;
    db.delete::<Product>(2).await?;
    db.update::<Order>(1)
        .push(|o| o.lines(), line(&products[0], 1))
        .await?;
    show(&db.get::<Order>(1).await?);

    // List the drift: source values that differ from the snapshots.
    for drift in db.find::<Order>().filter(|o| o.id().eq(1)).drift().await? {
        assert!(drift.snapshot_at.is_some());
        let now = match drift.current {
            Some(now) => format!("has {now} now"),
            None => "is gone".to_owned(),
        };
        let (path, id, taken, source) = (drift.path, drift.id, drift.snapshot, drift.source);
        println!("{path} of order {id}: {taken} was taken of product {source}, which {now}");
    }

    // A snapshot has no setter, and a save with a changed snapshot is an error.
    let mut order = db.edit::<Order>(1).await?;
    order.lines[0].price = 1;
    let refused = db.save(&mut order).await.unwrap_err();
    println!("the price of an order is not set: {:?}", refused.kind());
    Ok(())
}

fn show(order: &Order) {
    let lines = order.lines.iter();
    let lines = lines.map(|line| format!("{} x {} at {}", line.quantity, line.name, line.price));
    let lines: Vec<_> = lines.collect();
    println!("to {}: {}", order.ship_to.city, lines.join(", "));
}
