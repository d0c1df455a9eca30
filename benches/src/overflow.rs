//! Benchmarks of overflow arrays: a push to a long array compared with a short array, and reads next to long arrays.

use std::time::{Duration, Instant};

use odm::{Database, prelude::*};

use crate::{contender::Result, measure};

/// The sizes of the benchmarks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OverflowSizes {
    /// The number of elements in the long overflow array.
    pub(crate) elements: i64,
    pub(crate) rounds: usize,
}

/// The number of elements in the short array.
const SHORT_ARRAY_LENGTH: i64 = 100;

/// The number of elements in the long plain array. A document is limited to 16 MiB, and every round adds elements.
const MAX_PLAIN_ARRAY_LENGTH: i64 = 200_000;

/// The number of operations in a round: twice the number of resident elements, so that each round includes spills.
const OPERATIONS_PER_ROUND: i64 = 100;

/// The number of elements in a single push before the measurement.
const ELEMENTS_PER_PUSH: i64 = 10_000;

/// The number of documents for the reads.
const DOCUMENT_COUNT: i64 = 1_000;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "sales")]
struct Sale {
    #[serde(rename = "_id")]
    id: i64,
    text: String,
    #[embed(overflow(after = 50, into = "extra_sales"))]
    customers: Overflow<i64>,
}

/// The same model in a collection without spilled elements.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "quiet_sales")]
struct SaleWithoutSpill {
    #[serde(rename = "_id")]
    id: i64,
    text: String,
    #[embed(overflow(after = 50, into = "extra_quiet_sales"))]
    customers: Overflow<i64>,
}

/// A document with a plain array.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "whole_sales")]
struct PlainSale {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(unbounded)]
    customers: Vec<i64>,
}

#[derive(Debug, Schema)]
#[schema(models(Sale, SaleWithoutSpill, PlainSale))]
struct Shop;

/// The task names that `--only` selects.
const TASKS: [&str; 2] = ["push", "read"];

/// Measures each task with `only` in the name.
pub(crate) async fn compare(name: &str, url: &str, sizes: OverflowSizes, only: &str) -> Result<()> {
    let is_wanted = |task: usize| TASKS[task].contains(only);
    if !(0..TASKS.len()).any(is_wanted) {
        return Ok(());
    }
    let db: Database<Shop> = Database::open(url).await?;
    db.sync_indexes().await?;
    insert_sale(&db, 0, sizes.elements).await?;
    measure::print_head(&format!("{name}: to many"), "to few");
    if is_wanted(0) {
        push(&db, sizes).await?;
    }
    if is_wanted(1) {
        read(&db, sizes).await?;
    }
    Ok(())
}

async fn push(db: &Database<Shop>, sizes: OverflowSizes) -> Result<()> {
    let name = format!("push to {} and {SHORT_ARRAY_LENGTH}", sizes.elements);
    let few = |round: usize| -> Result<i64> { Ok(1_000_000 + i64::try_from(round)?) };
    measure::measure_in_turns(
        &name,
        sizes.rounds,
        async |_| push_to(db, 0).await,
        async |round| {
            let id = few(round)?;
            insert_sale(db, id, SHORT_ARRAY_LENGTH).await?;
            push_to(db, id).await
        },
    )
    .await?;
    let in_one = sizes.elements.min(MAX_PLAIN_ARRAY_LENGTH);
    insert_plain_sale(db, 0, in_one).await?;
    let name = format!("$push to {in_one} and {SHORT_ARRAY_LENGTH}");
    measure::measure_in_turns(
        &name,
        sizes.rounds,
        async |_| push_to_plain_array(db, 0).await,
        async |round| {
            let id = few(round)?;
            insert_plain_sale(db, id, SHORT_ARRAY_LENGTH).await?;
            push_to_plain_array(db, id).await
        },
    )
    .await
}

async fn read(db: &Database<Shop>, sizes: OverflowSizes) -> Result<()> {
    let text = "what is said of a book, about as long as this";
    for id in 1..=DOCUMENT_COUNT {
        let customers: Overflow<i64> = (0..id % 10).collect();
        let (text, quiet) = (text.to_owned(), customers.clone());
        let sale = Sale {
            id,
            text: text.clone(),
            customers,
        };
        db.insert(sale).await?;
        db.insert(SaleWithoutSpill {
            id,
            text,
            customers: quiet,
        })
        .await?;
    }
    measure::measure_in_turns(
        "read of a typical one",
        sizes.rounds,
        async |_| {
            let start = Instant::now();
            for id in 1..=OPERATIONS_PER_ROUND {
                db.get::<Sale>(id).await?;
            }
            time_per_operation(start)
        },
        async |_| {
            let start = Instant::now();
            for id in 1..=OPERATIONS_PER_ROUND {
                db.get::<SaleWithoutSpill>(id).await?;
            }
            time_per_operation(start)
        },
    )
    .await?;
    measure::measure_in_turns(
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
            db.find::<SaleWithoutSpill>()
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
    for customer in 0..OPERATIONS_PER_ROUND {
        db.update::<Sale>(id)
            .push(|s| s.customers(), customer)
            .await?;
    }
    time_per_operation(start)
}

async fn push_to_plain_array(db: &Database<Shop>, id: i64) -> Result<Duration> {
    let start = Instant::now();
    for customer in 0..OPERATIONS_PER_ROUND {
        db.update::<PlainSale>(id)
            .push(|s| s.customers(), customer)
            .await?;
    }
    time_per_operation(start)
}

fn time_per_operation(start: Instant) -> Result<Duration> {
    Ok(start.elapsed() / u32::try_from(OPERATIONS_PER_ROUND)?)
}

/// Inserts a document with this number of elements.
async fn insert_sale(db: &Database<Shop>, id: i64, elements: i64) -> Result<()> {
    let (text, customers) = (String::new(), Overflow::new());
    db.insert(Sale {
        id,
        text,
        customers,
    })
    .await?;
    for start in (0..elements).step_by(usize::try_from(ELEMENTS_PER_PUSH)?) {
        let some = start..elements.min(start + ELEMENTS_PER_PUSH);
        db.update::<Sale>(id)
            .push_each(|s| s.customers(), some)
            .await?;
    }
    Ok(())
}

async fn insert_plain_sale(db: &Database<Shop>, id: i64, elements: i64) -> Result<()> {
    let customers = (0..elements).collect();
    db.insert(PlainSale { id, customers }).await?;
    Ok(())
}
