//! The outlier pattern: a few books have more customers than fit into a document.
//!
//! ```text
//! Of Mice and Men: 3 customers, all in the document
//! Harry Potter: 1060 customers, 50 of them in the document
//!   user1000 has bought it: true
//!   first spilled customers: user50, user51, user52
//! 1 of 2 books are outliers
//! … (the distribution of the lengths, with a proposal for `after`)
//! Harry Potter: 10 customers, all in the document
//! ```
//!
//! The example runs in memory, or on the database with the URL in the first argument.

use odm::{Filter, prelude::*};

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "sales")]
struct Book {
    #[serde(rename = "_id")]
    id: i64,
    title: String,
    #[embed(overflow(after = 50, into = "extra_sales", owner = "book_id"))]
    customers_purchased: Overflow<String>,
}

#[derive(Schema)]
#[schema(models(Book))]
struct Shop;
type Db = odm::Database<Shop>;

fn user(number: i32) -> String {
    format!("user{number}")
}

#[tokio::main]
async fn main() -> odm::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let db = Db::open(&url).await?;
    db.sync_indexes().await?;
    // Remove the documents of an earlier run.
    db.delete_many::<Book>(|_| Filter::all()).await?;

    let book = |id, title: &str, customers| Book {
        id,
        title: title.to_owned(),
        customers_purchased: (0..customers).map(user).collect(),
    };
    // Customers above the limit spill immediately.
    db.insert_many([
        book(1, "Of Mice and Men", 3),
        book(2, "Harry Potter", 1_000),
    ])
    .await?;
    for number in 1_000..1_060 {
        db.update::<Book>(2)
            .push(|b| b.customers_purchased(), user(number))
            .await?;
    }

    for book in db.find::<Book>().sort(|b| b.id().asc()).all().await? {
        show(&book);
    }
    let everyone = || db.get::<Book>(2).elements(|b| b.customers_purchased());
    let has_bought = everyone().contains("user1000").await?;
    println!("  user1000 has bought it: {has_bought}");
    let page = everyone().page(50, 3).await?;
    println!("  first spilled customers: {}", page.join(", "));
    let outliers = db
        .find::<Book>()
        .filter(|b| b.customers_purchased().has_more());
    println!("{} of 2 books are outliers", outliers.count().await?);
    for lengths in db.arrays::<Book>().lengths().await? {
        println!("{lengths}");
    }

    // The pull removes resident and spilled customers. The remaining customers fit into the document again, and `fold` moves the
    // customers back.
    db.update::<Book>(2)
        .pull_all(|b| b.customers_purchased(), (10..1_060).map(user))
        .await?;
    db.arrays::<Book>().fold().await?;
    show(&db.get::<Book>(2).await?);
    Ok(())
}

fn show(book: &Book) {
    let customers = &book.customers_purchased;
    let of_them = match customers.has_more() {
        true => format!("{} of them", customers.resident().len()),
        false => "all".to_owned(),
    };
    println!(
        "{}: {} customers, {of_them} in the document",
        book.title,
        customers.len()
    );
}
