//! Measures a backup of a large file under concurrent writers: the latency of the writers with and without a backup, and the sum of
//! all accounts in the copy, which every transaction keeps.
//!
//! `cargo run --release -p odm-benches --bin backup -- --megabytes 1024 --writers 32`

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use odm::bson::{RawDocumentBuf, rawdoc};
use odm_engine::{Database, Find, Update};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// A backup of a large file under concurrent writers.
#[derive(Debug, Parser)]
struct Arguments {
    /// The size of the documents in megabytes.
    #[arg(long, default_value_t = 1_024)]
    megabytes: usize,
    /// The number of threads that write.
    #[arg(long, default_value_t = 32)]
    writers: usize,
    /// The duration of the writes without a backup, in seconds.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

const ACCOUNTS: usize = 10_000;
const MONEY: i64 = 100;
const DOCUMENT_BYTES: usize = 2_000;
const BATCH: usize = 1_000;

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let directory = tempfile::tempdir()?;
    let (path, copy) = (
        directory.path().join("shop.odm"),
        directory.path().join("copy.odm"),
    );
    let database = Database::open(&path)?;
    fill(&database, arguments.megabytes)?;
    println!(
        "file: {} MB, {} writers",
        std::fs::metadata(&path)?.len() >> 20,
        arguments.writers
    );

    let duration = Duration::from_secs(arguments.seconds);
    let without = measure(&database, arguments.writers, || {
        thread::sleep(duration);
        Ok(())
    })?;
    print_latencies("without a backup", &without);
    let started = Instant::now();
    let with = measure(&database, arguments.writers, || Ok(database.backup(&copy)?))?;
    print_latencies("during a backup", &with);
    println!(
        "backup: {:.1} s, copy {} MB, p99 {:.2} times",
        started.elapsed().as_secs_f64(),
        std::fs::metadata(&copy)?.len() >> 20,
        percentile(&with, 99.0).as_secs_f64() / percentile(&without, 99.0).as_secs_f64()
    );
    check_copy(&copy)
}

fn fill(database: &Database, megabytes: usize) -> Result<()> {
    let accounts = (0..ACCOUNTS as i64).map(|id| rawdoc! { "_id": id, "money": MONEY });
    database
        .insert("accounts", accounts.collect())?
        .into_result()?;
    let documents = (megabytes << 20) / DOCUMENT_BYTES;
    let text = "x".repeat(DOCUMENT_BYTES - 40);
    for first in (0..documents).step_by(BATCH) {
        let ids = first..(first + BATCH).min(documents);
        let batch = ids.map(|id| rawdoc! { "_id": id as i64, "text": text.as_str() });
        database
            .insert("documents", batch.collect())?
            .into_result()?;
    }
    Ok(())
}

/// Runs the writers during `work`, and returns the sorted latencies of the committed transfers.
fn measure(
    database: &Database,
    writers: usize,
    work: impl FnOnce() -> Result<()>,
) -> Result<Vec<Duration>> {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers = (0..writers).map(|seed| {
            let ends = &ends;
            scope.spawn(move || write(database, seed as u64, ends))
        });
        let writers: Vec<_> = writers.collect();
        let done = work();
        ends.store(true, Ordering::Relaxed);
        let mut latencies = Vec::new();
        for writer in writers {
            latencies.extend(writer.join().map_err(|_| "a writer has panicked")??);
        }
        latencies.sort_unstable();
        done.map(|()| latencies)
    })
}

/// Moves money between random accounts. A latency includes the repetitions after conflicts.
fn write(database: &Database, seed: u64, ends: &AtomicBool) -> Result<Vec<Duration>> {
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut account = || {
        // The generator xorshift64.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % ACCOUNTS as u64) as i64
    };
    let mut latencies = Vec::new();
    while !ends.load(Ordering::Relaxed) {
        let (from, to) = (account(), account());
        let started = Instant::now();
        while let Err(error) = transfer(database, from, to) {
            if !error.is_write_conflict() {
                return Err(error.into());
            }
        }
        latencies.push(started.elapsed());
    }
    Ok(latencies)
}

fn transfer(database: &Database, from: i64, to: i64) -> odm_engine::Result<()> {
    let transaction = database.begin()?;
    for (id, money) in [(from, -1), (to, 1)] {
        let update = Update {
            filter: rawdoc! { "_id": id },
            update: rawdoc! { "$inc": { "money": money } },
            ..Update::default()
        };
        let updated = transaction.update("accounts", &update)?;
        if let Some(failure) = updated.failure {
            return Err(failure);
        }
    }
    transaction.commit()
}

/// Fails unless the copy is valid and has all money.
fn check_copy(copy: &Path) -> Result<()> {
    let database = Database::open(copy)?;
    database.validate()?;
    let mut sum = 0;
    for account in database.find("accounts", &Find::default())? {
        sum += money_of(&account?)?;
    }
    let expected = MONEY * ACCOUNTS as i64;
    if sum != expected {
        return Err(format!("the copy has the sum {sum}, not {expected}").into());
    }
    println!("the copy is valid, and has all money");
    Ok(())
}

fn money_of(account: &RawDocumentBuf) -> Result<i64> {
    let money = account.get("money")?.ok_or("an account without money")?;
    let number = money.as_i64().or_else(|| money.as_i32().map(i64::from));
    Ok(number.ok_or("money that is no integer")?)
}

fn percentile(sorted: &[Duration], percent: f64) -> Duration {
    let position = (sorted.len() as f64 * percent / 100.0) as usize;
    sorted
        .get(position)
        .or(sorted.last())
        .copied()
        .unwrap_or_default()
}

fn print_latencies(name: &str, sorted: &[Duration]) {
    let [p50, p99, max] = [50.0, 99.0, 100.0].map(|percent| percentile(sorted, percent));
    println!(
        "{name}: {} transfers, p50 {p50:.1?}, p99 {p99:.1?}, max {max:.1?}",
        sorted.len()
    );
}
