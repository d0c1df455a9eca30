//! Measures the embedded engine in every row of the comparison table, with all contenders in turns.
//!
//! The contenders are odm on disk and in memory, `odm-engine` without odm, SQLite with JSONB, redb with handwritten indexes, and
//! native_db. All contenders store the same documents and run the same operations. Before and after the measurement, the program
//! compares the answers of all contenders. Each round runs a row for every contender, in a different order, so that load on the
//! machine affects all contenders. A ratio is the median of the ratios of all rounds.
//!
//! `--contenders odm` gives the peak memory of one contender.
//!
//! `cargo run --release -p odm-benches --bin embedded`

mod contender;
mod data;
mod measure;
mod report;
mod row;

use std::path::PathBuf;

use clap::Parser;
use contender::{Kind, Result};
use data::Catalog;
use measure::{Entrant, Plan};
use odm_benches::figures::peak_memory_mib;
use report::{RowResult, RunSizes};
use row::Row;

/// Benchmarks of the embedded engine, SQLite, redb and native_db.
#[derive(Debug, Parser)]
struct Arguments {
    /// The number of products in the database.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(i64).range(1_000..))]
    documents: i64,
    /// The size of a product in bytes, as BSON.
    #[arg(long, default_value_t = 270)]
    document_bytes: usize,
    /// The numbers of concurrent callers of the inserts.
    #[arg(long, value_delimiter = ',', default_value = "1,2,16", value_parser = clap::value_parser!(u16).range(1..))]
    callers: Vec<u16>,
    /// The number of rounds, at least 5.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(5..))]
    rounds: u16,
    /// Runs only the rows with this text in the name: `--only join`.
    #[arg(long, default_value = "")]
    only: String,
    /// The contenders. Without `sqlite` the results have no ratios.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Kind::DEFAULT)]
    contenders: Vec<Kind>,
    /// The folder for the temporary files; by default the folder of the system. The file system must be on a disk.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Uses few documents and operations, to test the program and not the speed.
    #[arg(long)]
    quick: bool,
    /// Also writes the results to a file, as JSON lines.
    #[arg(long)]
    json: Option<PathBuf>,
}

impl Arguments {
    fn complete() -> Self {
        let mut arguments = Self::parse();
        if arguments.quick {
            (arguments.documents, arguments.rounds) = (1_000, 5);
        }
        arguments
    }

    fn plan(&self) -> Plan {
        Plan {
            rounds: usize::from(self.rounds),
            is_quick: self.quick,
        }
    }

    fn sizes(&self) -> RunSizes {
        RunSizes {
            rounds: self.rounds,
            documents: self.documents,
            document_bytes: self.document_bytes,
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::complete();
    let catalog = Catalog::new(arguments.documents, arguments.document_bytes)?;
    let rows = select_rows(&arguments, &catalog)?;
    let folder = match &arguments.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    println!(
        "{} documents of {} bytes, {} rounds",
        arguments.documents, arguments.document_bytes, arguments.rounds
    );
    report::print_machine_load();
    let mut entrants = Vec::new();
    for kind in &arguments.contenders {
        entrants.push(Entrant::create(*kind, folder.path().join(kind.name())).await?);
    }
    load_all(&mut entrants, &rows, &catalog).await?;
    let results = measure_rows(&mut entrants, &rows, &catalog, arguments.plan()).await?;
    measure::ensure_equal_answers(&mut entrants, &catalog, false).await?;
    report::print_cpu(&arguments.contenders, &results);

    let mut files = Vec::new();
    for entrant in entrants {
        files.extend(measure::measure_file(entrant).await?);
    }
    report::print_files(&files);
    let peak_memory = peak_memory_mib();
    report::print_peak_memory(peak_memory);
    if let Some(path) = &arguments.json {
        report::write_json(path, arguments.sizes(), &results, &files, peak_memory)?;
    }
    Ok(())
}

fn select_rows(arguments: &Arguments, catalog: &Catalog) -> Result<Vec<Row>> {
    let mut rows = Row::all(&arguments.callers);
    rows.retain(|row| row.name(catalog).contains(&arguments.only));
    match rows.is_empty() {
        false => Ok(rows),
        true => Err(format!("no row has `{}` in the name", arguments.only).into()),
    }
}

/// Loads all contenders, and compares the answers.
async fn load_all(entrants: &mut [Entrant], rows: &[Row], catalog: &Catalog) -> Result<()> {
    let reads_kits = rows.contains(&Row::Join) || rows.contains(&Row::Populate);
    for entrant in &mut *entrants {
        eprintln!("loading {}", entrant.kind.name());
        entrant.load(catalog, reads_kits).await?;
    }
    measure::ensure_equal_answers(entrants, catalog, reads_kits).await
}

/// Measures all rows, and prints each row as soon as the row is complete.
async fn measure_rows(
    entrants: &mut [Entrant],
    rows: &[Row],
    catalog: &Catalog,
    plan: Plan,
) -> Result<Vec<RowResult>> {
    let kinds: Vec<_> = entrants.iter().map(|entrant| entrant.kind).collect();
    report::print_head(&kinds);
    let mut next_id = catalog.products;
    let mut results = Vec::new();
    for row in rows {
        let times = measure::measure_row(entrants, *row, catalog, plan, &mut next_id).await?;
        let name = row.name(catalog);
        let result = RowResult {
            row: *row,
            name,
            times,
        };
        report::print_row(&result);
        results.push(result);
    }
    Ok(results)
}
