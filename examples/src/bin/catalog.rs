//! Loads a Debian package index into any backend, and runs queries with joins.
//!
//! Without arguments, the program uses the sample and the embedded engine. A whole index and a server are arguments:
//!
//! ```sh
//! cargo run --release -p odm-examples --bin catalog
//! cargo run --release -p odm-examples --features mongodb --bin catalog -- --packages Packages.gz \
//!     --url mongodb://localhost/debian
//! ```

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Instant,
};

use anyhow::{Result, bail};
use clap::Parser;
use odm_examples::catalog::{
    Db,
    load::{self, Source},
    memory, queries,
};

/// Loads a Debian package index, and runs queries with joins.
#[derive(Parser)]
struct Args {
    /// A `Packages` index, plain or gzip. Default: the sample inside the program.
    #[arg(long, value_name = "FILE")]
    packages: Option<PathBuf>,
    /// `odm:PATH`, `memory:` or `mongodb://HOST/DATABASE`. Default: a temporary file.
    #[arg(long)]
    url: Option<String>,
    /// Deletes the existing catalog in the database, and loads again.
    #[arg(long)]
    replace: bool,
    /// The package to show.
    #[arg(long, value_name = "NAME", default_value = "exim4-base")]
    package: String,
    /// The prefix of the maintainer names to show.
    #[arg(long, value_name = "NAME", default_value = "Debian Games Team")]
    maintainer: String,
    /// The maximum number of rows in a table.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    top: u16,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse(), &mut io::stdout()).await {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed the pipe, which is not an error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args, out: &mut impl Write) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let url = args.url.clone().unwrap_or_else(|| {
        let file = directory.path().join("catalog.odm");
        format!("odm:{}", file.display())
    });
    writeln!(out, "Database: {url}")?;
    if args.url.is_none() {
        writeln!(
            out,
            "  (deleted in the end; `--url odm:./catalog.odm` keeps it)"
        )?;
    }
    let db = Db::open(&url).await?;
    fill(&db, args, out).await?;
    report(&db, args, out).await
}

/// Loads the index, unless the database already has a catalog.
async fn fill(db: &Db, args: &Args, out: &mut impl Write) -> Result<()> {
    let source = args.packages.clone().map_or(Source::Sample, Source::File);
    let input = source.read()?;
    if args.replace {
        load::clear(db).await?;
    } else if let Some(import) = load::import(db).await? {
        let before = import.source;
        if import.finished.is_none() {
            bail!(
                "the database has only a part of {before}: `--replace` deletes it and loads again"
            );
        }
        if args.packages.is_some() {
            bail!(
                "the database has {before} already: `--replace` deletes it and loads again; without `--packages` it is \
                 asked as it is"
            );
        }
        writeln!(out, "Nothing to load: it has {before} already.\n")?;
        return Ok(());
    }

    writeln!(out, "Loading {source} …")?;
    let start = Instant::now();
    load::load(db, input).await?;
    write!(out, "  took {:.2} s", start.elapsed().as_secs_f64())?;
    if let Some(peak) = memory::peak() {
        write!(out, ", {peak} MB of memory at most")?;
    }
    writeln!(out, "\nChecking both sides of every link …")?;
    let start = Instant::now();
    let report = db.check().await?;
    writeln!(out, "  {report}")?;
    writeln!(out, "  took {:.2} s\n", start.elapsed().as_secs_f64())?;
    if !report.is_clean() {
        bail!("what was loaded is not as the schema says");
    }
    Ok(())
}

async fn report(db: &Db, args: &Args, out: &mut impl Write) -> Result<()> {
    let mut requirements = queries::Requirements::count(db).await?;
    let totals = queries::totals(db, &requirements).await?;
    writeln!(out, "Totals\n\n{totals}")?;

    let package = queries::package(db, &args.package, args.top.into()).await?;
    writeln!(out, "{package}")?;

    let packages = queries::of_maintainer(db, &args.maintainer, args.top.into()).await?;
    writeln!(
        out,
        "The largest packages of {}\n\n{packages}",
        args.maintainer
    )?;

    let uploads = queries::latest_uploads(db, 3).await?;
    writeln!(
        out,
        "The latest uploads of the largest sections\n\n{uploads}"
    )?;

    let maintainers = queries::busiest(db, args.top.into()).await?;
    writeln!(out, "Who looks after most packages\n\n{maintainers}")?;

    requirements.packages.truncate(args.top.into());
    let packages = queries::most_required(db, &requirements.packages).await?;
    writeln!(out, "The most required packages\n\n{packages}")?;

    requirements.missing.truncate(args.top.into());
    let names = queries::most_missed(&requirements.missing);
    writeln!(
        out,
        "The most required names that no package has\n\n{names}"
    )?;
    Ok(())
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
