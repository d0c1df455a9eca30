//! Loads a Debian package index into any backend, and asks joined questions.
//!
//! Run it as it is for the sample and the embedded engine, or on a whole index and a server:
//!
//! ```sh
//! cargo run --release -p odm-examples --bin catalog
//! cargo run --release -p odm-examples --bin catalog -- --packages Packages.gz --url mongodb://localhost/debian
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
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    top: u16,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse(), &mut io::stdout()).await {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads the output has seen enough.
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

/// Loads what is to be loaded, and never adds to what is there.
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
    let mut requirements = ask::Requirements::count(db).await?;
    let totals = ask::totals(db, &requirements).await?;
    writeln!(out, "Totals\n\n{totals}")?;

    let package = ask::package(db, &args.package, args.top.into()).await?;
    writeln!(out, "{package}")?;

    let packages = ask::of_maintainer(db, &args.maintainer, args.top.into()).await?;
    writeln!(
        out,
        "The largest packages of {}\n\n{packages}",
        args.maintainer
    )?;

    let uploads = ask::latest_uploads(db, 3).await?;
    writeln!(
        out,
        "The latest uploads of the largest sections\n\n{uploads}"
    )?;

    let maintainers = ask::busiest(db, args.top.into()).await?;
    writeln!(out, "Who looks after most packages\n\n{maintainers}")?;

    requirements.packages.truncate(args.top.into());
    let packages = ask::most_required(db, &requirements.packages).await?;
    writeln!(out, "The most required packages\n\n{packages}")?;

    requirements.missing.truncate(args.top.into());
    let names = ask::most_missed(&requirements.missing);
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
