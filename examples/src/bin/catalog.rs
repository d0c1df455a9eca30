//! Loads a Debian package index into any backend, and asks joined questions.
//!
//! Run it as it is for the sample and the embedded engine, or on a whole index and a server:
//!
//! ```sh
//! cargo run --release -p odm-examples --bin catalog
//! cargo run --release -p odm-examples --bin catalog -- --packages Packages.gz --url mongodb://localhost/debian
//! ```

use std::{path::PathBuf, time::Instant};

use anyhow::{Result, bail};
use clap::Parser;
use odm_examples::catalog::{
    Db, ask,
    load::{self, Source},
    memory,
};

/// Loads a Debian package index, and asks joined questions.
#[derive(Parser)]
struct Args {
    /// A `Packages` index, plain or gzip; without it, the sample that comes with the program.
    #[arg(long, value_name = "FILE")]
    packages: Option<PathBuf>,
    /// `odm:PATH`, `memory:` or `mongodb://HOST/DATABASE`; without it, a file that is deleted in the end.
    #[arg(long)]
    url: Option<String>,
    /// Deletes the catalog that the database has, and loads again.
    #[arg(long)]
    replace: bool,
    /// The package to show.
    #[arg(long, value_name = "NAME", default_value = "exim4-base")]
    package: String,
    /// The maintainers to show, by the beginning of their name.
    #[arg(long, value_name = "NAME", default_value = "Debian Games Team")]
    maintainer: String,
    /// How many to show of what there are many of.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let directory = tempfile::tempdir()?;
    let url = args.url.clone().unwrap_or_else(|| {
        let file = directory.path().join("catalog.odm");
        format!("odm:{}", file.display())
    });
    println!("Database: {url}");
    if args.url.is_none() {
        println!("  (deleted in the end; `--url odm:./catalog.odm` keeps it)");
    }
    let db = Db::open(&url).await?;
    fill(&db, &args).await?;
    report(&db, &args).await
}

/// Loads what is to be loaded, and never adds to what is there.
async fn fill(db: &Db, args: &Args) -> Result<()> {
    if args.replace {
        load::clear(db).await?;
    } else if let Some(import) = load::import(db).await? {
        if import.finished.is_none() {
            bail!(
                "{} was not loaded to its end: `--replace` loads again",
                import.source
            );
        }
        if args.packages.is_some() {
            bail!(
                "the database has {} already: leave out `--packages` to ask it, or add `--replace` to load again",
                import.source
            );
        }
        println!("Nothing to load: it has {} already.\n", import.source);
        return Ok(());
    }

    let source = args.packages.clone().map_or(Source::Sample, Source::File);
    println!("Loading {source} …");
    let start = Instant::now();
    load::load(db, &source).await?;
    print!("  took {:.2} s", start.elapsed().as_secs_f64());
    match memory::peak() {
        Some(peak) => println!(", {peak} MB of memory at most\n"),
        None => println!("\n"),
    }
    Ok(())
}

async fn report(db: &Db, args: &Args) -> Result<()> {
    let requirements = ask::Requirements::count(db).await?;
    println!("Totals\n\n{}", ask::totals(db, &requirements).await?);

    println!("{}", ask::package(db, &args.package).await?);

    let packages = ask::of_maintainer(db, &args.maintainer, args.top as u64).await?;
    println!("The largest packages of {}\n\n{packages}", args.maintainer);

    let mut required = requirements.by_number();
    required.truncate(args.top);
    let packages = ask::most_required(db, &required).await?;
    println!("The most required packages\n\n{packages}");

    let mut missing = requirements.missing();
    missing.truncate(args.top);
    let names = ask::most_required(db, &missing).await?;
    println!("The most required names that no package has\n\n{names}");
    Ok(())
}
