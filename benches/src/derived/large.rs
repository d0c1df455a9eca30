//! A fan-out that takes long: what it takes from everybody else meanwhile.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use odm::Database;

use super::{
    Sizes, fan_out,
    hand::Hand,
    model::{self, Derived, Line},
};
use crate::{contender::Result, measure};

/// What all of the lines copy from.
const SOURCE: i64 = 2;

/// Measures a fan-out beside the same by hand, what a write and a read take during each and alone, and the memory of this process.
pub(super) async fn compare(db: &Database<Derived>, hand: &impl Hand, sizes: Sizes) -> Result<()> {
    fan_out::load_lines(db, SOURCE, sizes.many).await?;
    fan_out::load_lines_by_hand(hand, SOURCE, sizes.many).await?;
    let mut alone = Others::start(db, sizes.many).until(sizes.alone).await?;

    let before = memory(true);
    let others = Others::start(db, sizes.many);
    let took = fan_out::change(db, SOURCE, 1).await?;
    let mut during = others.stop().await?;
    let peak = memory(false);

    let others = Others::start(db, sizes.many);
    let took_by_hand = fan_out::change_by_hand(hand, SOURCE, 1, sizes.many).await?;
    let mut during_by_hand = others.stop().await?;

    alone.add(Others::start(db, sizes.many).until(sizes.alone).await?);
    fan_out::agree(db, SOURCE, 1, sizes.many).await?;

    let (took, by_hand) = (took.as_secs_f64(), took_by_hand.as_secs_f64());
    let name = format!("large fan-out, {}", sizes.many);
    measure::line(&name, &mut [took], &mut [by_hand], &mut [took / by_hand]);
    measure::head("during the fan-out", "alone");
    let line = |name: &str, during: &mut [f64], alone: &mut [f64]| {
        let (during, alone) = (percentile(during), percentile(alone));
        measure::line(name, &mut [during], &mut [alone], &mut [during / alone]);
    };
    line("write, p99", &mut during.writes, &mut alone.writes);
    line("read, p99", &mut during.reads, &mut alone.reads);
    let by_hand = &mut during_by_hand;
    line(
        "by hand: write, p99",
        &mut by_hand.writes,
        &mut alone.writes,
    );
    line("by hand: read, p99", &mut by_hand.reads, &mut alone.reads);
    match before.zip(peak) {
        Some((before, peak)) => {
            println!(
                "memory of this process: {before} MiB before the fan-out, {peak} MiB at most during it"
            );
        }
        None => println!("memory of this process: not known on this system"),
    }
    Ok(())
}

/// Who has nothing to do with the fan-out: one task that inserts, and one that reads, each a thousand times in a second at most.
struct Others {
    writer: tokio::task::JoinHandle<odm::Result<Vec<f64>>>,
    reader: tokio::task::JoinHandle<odm::Result<Vec<f64>>>,
    is_over: Arc<AtomicBool>,
    written: Arc<AtomicI64>,
}

/// How long each took, in seconds.
struct Times {
    writes: Vec<f64>,
    reads: Vec<f64>,
}

impl Times {
    fn add(&mut self, others: Self) {
        self.writes.extend(others.writes);
        self.reads.extend(others.reads);
    }
}

/// Between two operations of a task.
const PAUSE: Duration = Duration::from_millis(1);

impl Others {
    fn start(db: &Database<Derived>, lines: i64) -> Self {
        /// Behind those of the other tasks.
        static NEXT: AtomicI64 = AtomicI64::new(1_000_000_000);
        let (is_over, written) = (Arc::<AtomicBool>::default(), Arc::<AtomicI64>::default());
        let writer = {
            let (db, is_over, written) = (db.clone(), is_over.clone(), written.clone());
            tokio::spawn(async move {
                let mut times = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let entry = model::entry(NEXT.fetch_add(1, Ordering::Relaxed));
                    let start = Instant::now();
                    db.insert(entry).await?;
                    times.push(start.elapsed().as_secs_f64());
                    written.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(times)
            })
        };
        let reader = {
            let (db, is_over) = (db.clone(), is_over.clone());
            tokio::spawn(async move {
                let mut times = Vec::new();
                for n in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let id = fan_out::line_id(SOURCE, n * 104_729 % lines);
                    let start = Instant::now();
                    db.get::<Line>(id).await?;
                    times.push(start.elapsed().as_secs_f64());
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(times)
            })
        };
        Self {
            writer,
            reader,
            is_over,
            written,
        }
    }

    /// Lets them go on until there are so many writes.
    async fn until(self, writes: usize) -> Result<Times> {
        let writes = i64::try_from(writes)?;
        while self.written.load(Ordering::Relaxed) < writes && !self.writer.is_finished() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.stop().await
    }

    async fn stop(self) -> Result<Times> {
        self.is_over.store(true, Ordering::Relaxed);
        Ok(Times {
            writes: self.writer.await??,
            reads: self.reader.await??,
        })
    }
}

/// What 99 of 100 are below.
fn percentile(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let position = values.len() * 99 / 100;
    values.get(position).copied().unwrap_or(f64::NAN)
}

/// The most memory that this process has had, in MiB: since it was last asked to begin anew, which Linux does for one.
fn memory(begins_anew: bool) -> Option<u64> {
    if begins_anew {
        fs::write("/proc/self/clear_refs", "5").ok()?;
    }
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes / 1_024)
}
