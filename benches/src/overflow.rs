//! Arrays that overflow: a push to many elements beside one to few, and reads beside documents with many.

use std::time::{Duration, Instant};

use odm::{Database, prelude::*};

use crate::{contender::Result, measure};

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// How many elements the long array has.
    pub(crate) elements: i64,
    pub(crate) rounds: usize,
}

/// How many elements the short one has.
const FEW: i64 = 100;

/// How many there are in the long one that does not overflow: a document ends at 16 MiB, and one of them in each round.
const IN_ONE: i64 = 200_000;

/// How many operations each round has: twice as many as stay in the document, so that each has its part of what is written elsewhere.
const OPERATIONS: i64 = 100;

/// How many elements are pushed at once, before it is measured.
const AT_ONCE: i64 = 10_000;

/// How many documents there are to be read.
const DOCUMENTS: i64 = 1_000;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "sales")]
struct Sale {
    #[serde(rename = "_id")]
    id: i64,
    text: String,
    #[embed(overflow(after = 50, into = "extra_sales"))]
    customers: Overflow<i64>,
}

/// The same in a collection without outliers.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "quiet_sales")]
struct QuietSale {
    #[serde(rename = "_id")]
    id: i64,
    text: String,
    #[embed(overflow(after = 50, into = "extra_quiet_sales"))]
    customers: Overflow<i64>,
}

/// One whose array stays in it.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "whole_sales")]
struct WholeSale {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(unbounded)]
    customers: Vec<i64>,
}

#[derive(Debug, Schema)]
#[schema(models(Sale, QuietSale, WholeSale))]
struct Shop;

/// What is measured, by which `--only` names it.
const TASKS: [&str; 2] = ["push", "read"];

/// Measures each task with `only` in its name.
pub(crate) async fn compare(name: &str, url: &str, sizes: Sizes, only: &str) -> Result<()> {
    let is_wanted = |task: usize| TASKS[task].contains(only);
    if !(0..TASKS.len()).any(is_wanted) {
        return Ok(());
    }
    let db: Database<Shop> = Database::open(url).await?;
    db.sync_indexes().await?;
    fill(&db, 0, sizes.elements).await?;
    measure::head(&format!("{name}: to many"), "to few");
    if is_wanted(0) {
        push(&db, sizes).await?;
    }
    if is_wanted(1) {
        read(&db, sizes).await?;
    }
    Ok(())
}

async fn push(db: &Database<Shop>, sizes: Sizes) -> Result<()> {
    let name = format!("push to {} and {FEW}", sizes.elements);
    let few = |round: usize| -> Result<i64> { Ok(1_000_000 + i64::try_from(round)?) };
    measure::turns(
        &name,
        sizes.rounds,
        async |_| push_to(db, 0).await,
        async |round| {
            let id = few(round)?;
            fill(db, id, FEW).await?;
            push_to(db, id).await
        },
    )
    .await?;
    let in_one = sizes.elements.min(IN_ONE);
    fill_whole(db, 0, in_one).await?;
    let name = format!("$push to {in_one} and {FEW}");
    measure::turns(
        &name,
        sizes.rounds,
        async |_| push_to_whole(db, 0).await,
        async |round| {
            let id = few(round)?;
            fill_whole(db, id, FEW).await?;
            push_to_whole(db, id).await
        },
    )
    .await
}

async fn read(db: &Database<Shop>, sizes: Sizes) -> Result<()> {
    let text = "what is said of a book, about as long as this";
    for id in 1..=DOCUMENTS {
        let customers: Overflow<i64> = (0..id % 10).collect();
        let (text, quiet) = (text.to_owned(), customers.clone());
        let sale = Sale {
            id,
            text: text.clone(),
            customers,
        };
        db.insert(sale).await?;
        db.insert(QuietSale {
            id,
            text,
            customers: quiet,
        })
        .await?;
    }
    measure::turns(
        "read of a typical one",
        sizes.rounds,
        async |_| {
            let start = Instant::now();
            for id in 1..=OPERATIONS {
                db.get::<Sale>(id).await?;
            }
            each(start)
        },
        async |_| {
            let start = Instant::now();
            for id in 1..=OPERATIONS {
                db.get::<QuietSale>(id).await?;
            }
            each(start)
        },
    )
    .await?;
    measure::turns(
        "read of 100, one with many",
        sizes.rounds,
        async |_| {
            let start = Instant::now();
            db.find::<Sale>()
                .sort(|s| s.id().asc())
                .limit(100)
                .all()
                .await?;
            Ok(start.elapsed())
        },
        async |_| {
            let start = Instant::now();
            db.find::<QuietSale>()
                .sort(|s| s.id().asc())
                .limit(100)
                .all()
                .await?;
            Ok(start.elapsed())
        },
    )
    .await
}

async fn push_to(db: &Database<Shop>, id: i64) -> Result<Duration> {
    let start = Instant::now();
    for customer in 0..OPERATIONS {
        db.update::<Sale>(id)
            .push(|s| s.customers(), customer)
            .await?;
    }
    each(start)
}

async fn push_to_whole(db: &Database<Shop>, id: i64) -> Result<Duration> {
    let start = Instant::now();
    for customer in 0..OPERATIONS {
        db.update::<WholeSale>(id)
            .push(|s| s.customers(), customer)
            .await?;
    }
    each(start)
}

fn each(start: Instant) -> Result<Duration> {
    Ok(start.elapsed() / u32::try_from(OPERATIONS)?)
}

/// A document with so many elements.
async fn fill(db: &Database<Shop>, id: i64, elements: i64) -> Result<()> {
    let (text, customers) = (String::new(), Overflow::new());
    db.insert(Sale {
        id,
        text,
        customers,
    })
    .await?;
    for start in (0..elements).step_by(usize::try_from(AT_ONCE)?) {
        let some = start..elements.min(start + AT_ONCE);
        db.update::<Sale>(id)
            .push_each(|s| s.customers(), some)
            .await?;
    }
    Ok(())
}

async fn fill_whole(db: &Database<Shop>, id: i64, elements: i64) -> Result<()> {
    let customers = (0..elements).collect();
    db.insert(WholeSale { id, customers }).await?;
    Ok(())
}
