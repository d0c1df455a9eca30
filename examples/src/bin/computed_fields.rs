//! Computed fields: odm updates totals and counts in the same operation as every write.
//!
//! ```text
//! 2 apples and 3 oranges are 5, in 1 line for 14
//! 2 apples and 13 oranges are 15, in 2 lines for 41
//! 0 apples and 13 oranges are 13, in 1 line for 27
//! the sum is not set: Invalid
//! ```
//!
//! The example runs in memory, or on the database with the URL in the first argument.

use odm::{Filter, prelude::*};

#[derive(Debug, Serialize, Deserialize, Embedded)]
struct Line {
    what: String,
    price: i64,
    quantity: i32,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "baskets")]
struct Basket {
    #[serde(rename = "_id")]
    id: i64,
    apples: i32,
    oranges: Option<i32>,
    #[computed(sum(apples, oranges))]
    fruit: i64,
    #[embed(max = 100)]
    lines: Vec<Line>,
    #[computed(sum(lines.price * lines.quantity))]
    total: i64,
    #[computed(len(lines))]
    line_count: i64,
}

#[derive(Schema)]
#[schema(models(Basket))]
struct Shop;
type Db = odm::Database<Shop>;

#[tokio::main]
async fn main() -> odm::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let db = Db::open(&url).await?;
    // Remove the documents of an earlier run.
    db.delete_many::<Basket>(|_| Filter::all()).await?;

    let line = |what: &str, price, quantity| Line {
        what: what.into(),
        price,
        quantity,
    };
    // The insert struct has no computed fields.
    let basket = NewBasket {
        id: 1,
        apples: 2,
        oranges: Some(3),
        lines: vec![line("tea", 7, 2)],
    };
    show(&db.insert(basket).await?);

    db.update::<Basket>(1)
        .inc(|b| b.oranges(), 10)
        .push(|b| b.lines(), line("coffee", 9, 3))
        .await?;
    show(&db.get::<Basket>(1).await?);

    let after = db
        .update::<Basket>(1)
        .set(|b| b.apples(), 0)
        .pull_where(|b| b.lines(), |l| l.what().eq("tea"))
        .returning_after();
    show(&after.await?);

    // A computed field has no setter, and a save with a changed value is an error.
    let mut basket = db.edit::<Basket>(1).await?;
    basket.total = 1;
    let refused = db.save(&mut basket).await.unwrap_err();
    println!("the sum is not set: {:?}", refused.kind());
    Ok(())
}

fn show(basket: &Basket) {
    let (apples, oranges) = (basket.apples, basket.oranges.unwrap_or_default());
    let lines = match basket.line_count {
        1 => "1 line".to_owned(),
        many => format!("{many} lines"),
    };
    let (fruit, total) = (basket.fruit, basket.total);
    println!("{apples} apples and {oranges} oranges are {fruit}, in {lines} for {total}");
}
