//! Measures the cost of odm, compared with alternatives.
//!
//! Two pairs: `odm` on the engine with SQLite and JSONB, and `odm` on MongoDB with the handwritten driver. The option
//! `--mongoose` adds a third pair with Mongoose's `populate`. Further benchmarks compare copies and rollups with handwritten
//! code, on the engine and with MongoDB's driver, and compare a long overflow array with a short array. Both contenders of a pair
//! do the same work on the same data in turns, so that load on the machine affects both. The ratio is the median of the ratios of
//! all rounds.

mod contender;
mod data;
mod derived_data;
mod measure;
mod mongoose;
mod overflow;

use clap::Parser;
use contender::{Contender, driver::Driver, odm::Odm, sqlite::Sqlite};
use derived_data::handwritten::{driver::ByDriver, engine::ByEngine};
use odm_mongod as mongod;

/// Benchmarks of odm, compared with SQLite and with MongoDB's driver.
#[derive(Debug, Parser)]
struct Arguments {
    /// The number of products in the database.
    #[arg(long, default_value_t = 20_000)]
    products: i64,
    /// The number of dependents of a source.
    #[arg(long, default_value_t = 10_000)]
    dependents: i64,
    /// The number of dependents of the source in the large fan-out.
    #[arg(long, default_value_t = 1_000_000)]
    many: i64,
    /// The number of elements in the long overflow array.
    #[arg(long, default_value_t = 1_000_000)]
    elements: i64,
    /// The number of rounds for each task and contender.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Uses few documents and rounds, to test the program and not the speed.
    #[arg(long)]
    quick: bool,
    /// Also compares a join with Mongoose: needs Node.js, and npm to install Mongoose.
    #[arg(long)]
    mongoose: bool,
    /// Runs only the tasks with this text in the name: `--only join`.
    #[arg(long, default_value = "")]
    only: String,
    /// Skips the embedded engine.
    #[arg(long)]
    no_engine: bool,
    /// Skips MongoDB.
    #[arg(long)]
    no_mongodb: bool,
}

#[tokio::main]
async fn main() -> contender::Result<()> {
    let mut arguments = Arguments::parse();
    if arguments.quick {
        (arguments.products, arguments.rounds) = (1_000, 3);
        (arguments.dependents, arguments.many) = (1_000, 3_000);
        arguments.elements = 10_000;
    }
    let derived = derived_data::DerivedSizes {
        dependents: arguments.dependents,
        many: arguments.many,
        comments: if arguments.quick { 5 } else { 20 },
        inserts: if arguments.quick { 20 } else { 200 },
        alone: if arguments.quick { 100 } else { 1_000 },
        rounds: arguments.rounds,
    };
    let overflow = overflow::OverflowSizes {
        elements: arguments.elements,
        rounds: arguments.rounds,
    };
    let sizes = measure::MeasureSizes {
        products: arguments.products,
        rounds: arguments.rounds,
    };
    let only = arguments.only.as_str();
    println!(
        "{} products, {} rounds; medians for one operation",
        sizes.products, sizes.rounds
    );

    if !arguments.no_engine {
        let files = tempfile::tempdir()?;
        let url = format!("odm:{}", files.path().join("bench.odm").display());
        let mut engine = Odm::open("odm, engine on disk", &url).await?;
        let mut sqlite = Sqlite::open("SQLite, JSONB", &files.path().join("bench.sqlite"), "FULL")?;
        measure::compare_contenders(&mut engine, &mut sqlite, sizes, only).await?;
        let url = |name: &str| format!("odm:{}", files.path().join(name).display());
        if measure::INSERT_TASK.contains(only) {
            let url = url("relaxed.odm?durability=relaxed");
            let mut relaxed = Odm::open("odm, relaxed", &url).await?;
            let path = files.path().join("normal.sqlite");
            let mut normal = Sqlite::open("SQLite, NORMAL", &path, "NORMAL")?;
            let task = measure::INSERT_TASK;
            measure::compare_contenders(&mut relaxed, &mut normal, sizes, task).await?;
        }
        let hand = ByEngine::open(&url("hand.odm")).await?;
        derived_data::compare(engine.name(), &url("derived.odm"), &hand, derived, only).await?;
        overflow::compare(engine.name(), &url("overflow.odm"), overflow, only).await?;
    }
    if !arguments.no_mongodb {
        let server = mongod::replica_set().await;
        let url = server.fresh_url();
        let mut odm = Odm::open("odm, MongoDB", &url).await?;
        let mut driver = Driver::open(&server.fresh_url()).await?;
        measure::compare_contenders(&mut odm, &mut driver, sizes, only).await?;
        let hand = ByDriver::open(&server.fresh_url()).await?;
        derived_data::compare(odm.name(), &server.fresh_url(), &hand, derived, only).await?;
        overflow::compare(odm.name(), &server.fresh_url(), overflow, only).await?;
        if arguments.mongoose && measure::JOIN_TASK.contains(only) {
            mongoose::compare(&mut odm, &url, sizes).await?;
        }
    }
    Ok(())
}
