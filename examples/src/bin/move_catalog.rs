//! Moves a database file to another backend and back, while an application writes it.
//!
//! Each move copies the database, follows the writes, stops the writer for the end of the copy only, and then checks the result: both
//! databases have the same documents, and references, copies and counts are complete.
//!
//! ```sh
//! cargo run -p odm-examples --bin move_catalog
//! cargo run --release -p odm-examples --features mongodb --bin move_catalog -- --packages Packages.gz \
//!     --to 'mongodb://localhost/debian?replicaSet=rs0'
//! ```

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use clap::Parser;
use odm::{prelude::*, transfer::CopyStage};
use odm_examples::catalog::{
    Db,
    load::{self, Source},
    model::{Maintainer, Package},
};
use tokio::sync::oneshot;

/// Moves a Debian package index to another backend and back, while a task writes it.
#[derive(Parser)]
struct Args {
    /// A `Packages` index, plain or gzip. Default: the sample inside the program.
    #[arg(long, value_name = "FILE")]
    packages: Option<PathBuf>,
    /// The empty database to move to: `odm:PATH`, `memory:` or `mongodb://HOST/DATABASE`.
    #[arg(long, value_name = "URL", default_value = "memory:")]
    to: String,
}

/// How long the application writes after the copy has caught up for the first time.
const FOLLOWED: Duration = Duration::from_millis(500);

/// The pause of the application between two rounds. A copy must be faster than the writes.
const PAUSE: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let directory = tempfile::tempdir()?;
    let file = |name: &str| format!("odm:{}", directory.path().join(name).display());

    let first = Db::open(file("first.odm")).await?;
    load::load(
        &first,
        args.packages.map_or(Source::Sample, Source::File).read()?,
    )
    .await?;
    println!("loaded {} packages", first.find::<Package>().count().await?);

    let second = Db::open(&args.to).await?;
    move_database(&first, &second).await?;
    let third = Db::open(file("third.odm")).await?;
    move_database(&second, &third).await?;
    Ok(())
}

/// Copies a database while an application writes it, until the application has stopped.
async fn move_database(from: &Db, to: &Db) -> Result<()> {
    let is_over = Arc::new(AtomicBool::new(false));
    let application = tokio::spawn(write(from.clone(), Arc::clone(&is_over)));

    let start = Instant::now();
    let (caught_up, mut catches_up) = tokio::sync::mpsc::unbounded_channel();
    let (stopped, end) = oneshot::channel::<()>();
    let copy = odm::copy(from, to)
        .follow_until(async { drop(end.await) })
        .on_progress(move |progress| {
            if progress.stage == CopyStage::Follow {
                let _ = caught_up.send(());
            }
        });
    let stop_application = async {
        catches_up.recv().await;
        tokio::time::sleep(FOLLOWED).await;
        let interruption = Instant::now();
        is_over.store(true, Ordering::Relaxed);
        let writes = application.await??;
        from.wait_for_pending().await?;
        let _ = stopped.send(());
        Ok::<_, anyhow::Error>((writes, interruption))
    };
    let (report, stop) = tokio::join!(copy, stop_application);
    let (report, (writes, interruption)) = (report?, stop?);
    println!(
        "moved in {:.1} s beside {writes} writes, of which the application waited {:.1} s:\n{report}",
        start.elapsed().as_secs_f64(),
        interruption.elapsed().as_secs_f64()
    );
    verify(from, to).await
}

/// The application: gives maintainers new names, which changes the copies in their packages, and adds dependencies, which changes
/// the packages on both sides. Returns the number of writes.
async fn write(db: Db, is_over: Arc<AtomicBool>) -> odm::Result<u64> {
    // Each new name is copied into all packages of the maintainer: few packages keep the history of changes short.
    let few_packages = db.find::<Maintainer>().filter(|m| m.packages().lte(20));
    let maintainers = few_packages.limit(100).all().await?;
    let packages = db.find::<Package>().limit(100).all().await?;
    let mut writes = 0;
    for round in 0_usize.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let maintainer = &maintainers[round % maintainers.len()];
        let name = format!("{} ({round})", maintainer.name);
        let renamed = db
            .update::<Maintainer>(&maintainer.id)
            .set(|m| m.name(), name);
        renamed.await?;
        let [package, dependency] =
            [0, 1].map(|next| &packages[(round + next) % packages.len()].id);
        let changed = db.update::<Package>(package);
        let dependency = Ref::new(dependency.clone());
        match round / packages.len() % 2 {
            0 => changed.add_to_set(|p| p.depends(), dependency).await?,
            _ => changed.pull(|p| p.depends(), dependency).await?,
        };
        writes += 2;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(writes)
}

/// Compares the packages and the maintainers of both databases, and checks the derived data of the copy.
async fn verify(from: &Db, to: &Db) -> Result<()> {
    let start = Instant::now();
    let mut packages = [from, to].map(|db| db.find::<Package>().sort(|p| p.id().asc()).stream());
    let [left, right] = &mut packages;
    while let Some(package) = left.next().await.transpose()? {
        let copied = right.next().await.transpose()?;
        ensure!(
            copied.as_ref() == Some(&package),
            "{package:?} is {copied:?} in the copy"
        );
    }
    ensure!(right.next().await.is_none(), "the copy has another package");
    let mut maintainers = Vec::new();
    for db in [from, to] {
        maintainers.push(db.find::<Maintainer>().sort(|m| m.id().asc()).all().await?);
    }
    ensure!(maintainers[0] == maintainers[1], "the maintainers differ");
    let report = to.check().await?;
    ensure!(
        report.is_clean(),
        "the copy has wrong derived data: {report}"
    );
    println!(
        "compared and checked in {:.1} s: {report}\n",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
