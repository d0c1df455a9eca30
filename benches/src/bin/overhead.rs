//! Measures what `odm` adds to its engine: the same operations by the typed API and by `odm-engine` directly, in memory.
//!
//! Both sides encode and decode the same structs, so the difference is the cost of the typed language, of the write path and of
//! the adapter. Both sides take turns, so that load on the machine affects both.
//!
//! `cargo run --release -p odm-benches --bin overhead`

use std::time::{Duration, Instant};

use clap::Parser;
use odm::{backend::Engine, bson, prelude::*};
use odm_benches::figures::median;
use odm_engine::{Direction, Find, Index, Update};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// What `odm` adds to its engine, in memory.
#[derive(Debug, Parser)]
struct Arguments {
    /// The number of documents before the measurement.
    #[arg(long, default_value_t = 100_000)]
    documents: i64,
    /// The number of rounds for each operation and side.
    #[arg(long, default_value_t = 21)]
    rounds: usize,
    /// The number of operations in a round.
    #[arg(long, default_value_t = 500)]
    operations: i64,
    /// Measures only the operations with this text in the name, and only the typed side: for a profile.
    #[arg(long)]
    profile: Option<String>,
}

/// An item of about 270 bytes, without derived data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "items")]
struct Item {
    #[serde(rename = "_id")]
    id: i64,
    #[index(unique)]
    sku: String,
    #[index]
    category: i64,
    #[index]
    price: i64,
    stock: i64,
    name: String,
    text: String,
}

#[derive(Debug, Schema)]
#[schema(models(Item))]
struct Store;

fn item(id: i64) -> Item {
    Item {
        id,
        sku: format!("sku-{id:08}"),
        category: id / 20,
        price: id * 7_919 % 100_000,
        stock: 10,
        name: format!("item number {id}"),
        text: "a text that no operation reads or changes; ".repeat(4),
    }
}

/// The operations with their names.
const OPERATIONS: [(&str, Operation); 5] = [
    ("get by id", Operation::Get),
    ("find one by an index", Operation::FindOne),
    ("range of 20, sorted", Operation::Range),
    ("insert one", Operation::Insert),
    ("increment by id", Operation::Increment),
];

#[derive(Debug, Clone, Copy)]
enum Operation {
    Get,
    FindOne,
    Range,
    Insert,
    Increment,
}

/// The typed side.
struct Typed(odm::Database<Store>);

impl Typed {
    async fn run(&self, operation: Operation, id: i64, new: i64) -> Result<usize> {
        let db = &self.0;
        Ok(match operation {
            Operation::Get => usize::from(db.get::<Item>(id).await?.id == id),
            Operation::FindOne => {
                let find = db.find::<Item>().filter(|i| i.sku().eq(item_sku(id)));
                usize::from(find.one().await?.id == id)
            }
            Operation::Range => {
                let find = db.find::<Item>().filter(|i| i.category().eq(id / 20));
                find.sort(|i| i.name().asc()).all().await?.len()
            }
            Operation::Insert => {
                db.insert(item(new)).await?;
                1
            }
            Operation::Increment => {
                db.update::<Item>(id).inc(|i| i.stock(), 1).await?;
                1
            }
        })
    }
}

/// The engine without `odm`.
struct Direct(odm_engine::Database);

impl Direct {
    fn run(&self, operation: Operation, id: i64, new: i64) -> Result<usize> {
        let engine = &self.0;
        let find = |find: Find| -> Result<Vec<Item>> {
            let documents = engine.find("items", &find)?;
            let items = documents.map(|raw| Ok(bson::deserialize_from_slice(raw?.as_bytes())?));
            items.collect()
        };
        Ok(match operation {
            Operation::Get => {
                let filter = bson::rawdoc! { "_id": id };
                find(Find {
                    filter,
                    ..Find::default()
                })?
                .len()
            }
            Operation::FindOne => {
                let filter = bson::rawdoc! { "sku": item_sku(id) };
                find(Find {
                    filter,
                    limit: Some(2),
                    ..Find::default()
                })?
                .len()
            }
            Operation::Range => {
                let filter = bson::rawdoc! { "category": id / 20 };
                let sort = Some(bson::rawdoc! { "name": 1 });
                find(Find {
                    filter,
                    sort,
                    ..Find::default()
                })?
                .len()
            }
            Operation::Insert => {
                let raw = bson::serialize_to_raw_document_buf(&item(new))?;
                engine.insert("items", vec![raw])?.into_result()?
            }
            Operation::Increment => {
                let update = Update {
                    filter: bson::rawdoc! { "_id": id },
                    update: bson::rawdoc! { "$inc": { "stock": 1_i64 } },
                    ..Update::default()
                };
                usize::try_from(engine.update("items", &update)?.matched)?
            }
        })
    }
}

fn item_sku(id: i64) -> String {
    format!("sku-{id:08}")
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let typed = Typed(odm::Database::with_backend(std::sync::Arc::new(
        Engine::memory(),
    )));
    typed.0.sync_indexes().await?;
    typed
        .0
        .insert_many((0..arguments.documents).map(item))
        .await?;
    let direct = Direct(odm_engine::Database::memory());
    let index = |path: &str| Index::new([(path, Direction::Ascending)]);
    let indexes = [index("sku").unique(), index("category"), index("price")];
    direct.0.create_indexes("items", &indexes)?;
    let raw = (0..arguments.documents).map(|id| bson::serialize_to_raw_document_buf(&item(id)));
    direct
        .0
        .insert("items", raw.collect::<Result<_, _>>()?)?
        .into_result()?;

    println!(
        "{} documents in memory, {} rounds of {} operations; medians for one operation, in µs",
        arguments.documents, arguments.rounds, arguments.operations
    );
    println!(
        "{:<24} {:>8} {:>12} {:>8} {:>8}",
        "", "odm", "odm-engine", "added", "ratio"
    );
    let mut new = arguments.documents;
    for (name, operation) in OPERATIONS {
        if arguments
            .profile
            .as_ref()
            .is_some_and(|part| !name.contains(part))
        {
            continue;
        }
        let (mut of_typed, mut of_direct) = (Vec::new(), Vec::new());
        // The first round is a warm-up and does not count.
        for round in 0..=arguments.rounds {
            let ids: Vec<_> = (0..arguments.operations)
                .map(|n| {
                    (n * 104_729 + i64::try_from(round).unwrap_or(0) * 7_919) % arguments.documents
                })
                .collect();
            let started = Instant::now();
            for (offset, id) in (0..).zip(&ids) {
                assert!(typed.run(operation, *id, new + offset).await? > 0);
            }
            let typed_time = started.elapsed();
            let started = Instant::now();
            if arguments.profile.is_none() {
                for (offset, id) in (0..).zip(&ids) {
                    assert!(direct.run(operation, *id, new + offset)? > 0);
                }
            }
            let direct_time = started.elapsed();
            new += arguments.operations;
            if round > 0 {
                of_typed.push(microseconds(typed_time, arguments.operations));
                of_direct.push(microseconds(direct_time, arguments.operations));
            }
        }
        let median = |values| median(values).unwrap_or(f64::NAN);
        let (of_typed, of_direct) = (median(of_typed), median(of_direct));
        println!(
            "{name:<24} {of_typed:>8.1} {of_direct:>12.1} {:>8.1} {:>8.2}",
            of_typed - of_direct,
            of_typed / of_direct
        );
    }
    Ok(())
}

fn microseconds(time: Duration, operations: i64) -> f64 {
    time.as_secs_f64() * 1e6 / operations as f64
}
