//! What the mapper costs, beside what one would use instead.
//!
//! Two pairs: `odm` on its engine beside SQLite with JSONB, and `odm` on MongoDB beside MongoDB's driver by hand; with `--mongoose` a third
//! one beside Mongoose's `populate`. What copies and counts cost is measured beside the same by hand, on the engine and by MongoDB's
//! driver; what a long array that overflows costs, beside a short one. Both of a pair do the same work on the same data, in turns, so that a busy machine is busy for both; the ratio is the
//! median over the rounds of one time divided by the other.

mod contender;
mod data;
mod derived;
mod measure;
mod mongoose;
mod overflow;

use clap::Parser;
use contender::{Contender, driver::Driver, odm::Odm, sqlite::Sqlite};
use derived::hand::{driver::ByDriver, engine::ByEngine};
use odm_mongod as mongod;

/// The benchmarks of odm, beside SQLite and beside MongoDB's driver.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many products are in the database.
    #[arg(long, default_value_t = 20_000)]
    products: i64,
    /// How many documents copy from one.
    #[arg(long, default_value_t = 10_000)]
    dependents: i64,
    /// How many documents copy from one in the large fan-out.
    #[arg(long, default_value_t = 1_000_000)]
    many: i64,
    /// How many elements the long array has, of those that overflow.
    #[arg(long, default_value_t = 1_000_000)]
    elements: i64,
    /// How often each contender does each task.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Few documents and rounds: whether it runs, not how fast.
    #[arg(long)]
    quick: bool,
    /// Join beside Mongoose too: needs Node.js and npm, which installs it.
    #[arg(long)]
    mongoose: bool,
    /// Only the tasks with this in their name: `--only join`.
    #[arg(long, default_value = "")]
    only: String,
    /// Leave the embedded engine out.
    #[arg(long)]
    no_engine: bool,
    /// Leave MongoDB out.
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
    let derived = derived::Sizes {
        dependents: arguments.dependents,
        many: arguments.many,
        comments: if arguments.quick { 5 } else { 20 },
        inserts: if arguments.quick { 20 } else { 200 },
        alone: if arguments.quick { 100 } else { 1_000 },
        rounds: arguments.rounds,
    };
    let overflow = overflow::Sizes {
        elements: arguments.elements,
        rounds: arguments.rounds,
    };
    let sizes = measure::Sizes {
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
        let mut sqlite = Sqlite::open(&files.path().join("bench.sqlite"))?;
        measure::pair(&mut engine, &mut sqlite, sizes, only).await?;
        let url = |name: &str| format!("odm:{}", files.path().join(name).display());
        let hand = ByEngine::open(&url("hand.odm")).await?;
        derived::compare(engine.name(), &url("derived.odm"), &hand, derived, only).await?;
        overflow::compare(engine.name(), &url("overflow.odm"), overflow, only).await?;
    }
    if !arguments.no_mongodb {
        let server = mongod::replica_set().await;
        let url = server.fresh_url();
        let mut odm = Odm::open("odm, MongoDB", &url).await?;
        let mut driver = Driver::open(&server.fresh_url()).await?;
        measure::pair(&mut odm, &mut driver, sizes, only).await?;
        let hand = ByDriver::open(&server.fresh_url()).await?;
        derived::compare(odm.name(), &server.fresh_url(), &hand, derived, only).await?;
        overflow::compare(odm.name(), &server.fresh_url(), overflow, only).await?;
        if arguments.mongoose && measure::JOIN.contains(only) {
            mongoose::compare(&mut odm, &url, sizes).await?;
        }
    }
    Ok(())
}
